//! A null sidecar: takes each message from one queue and publishes it to another at once, confirmed, and acknowledges it
//! after that. It does no more than any sidecar must, and as well as it can: in batches, with one acknowledgement for
//! many. What it costs is the floor for all that are more than that.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, PublisherConfirm};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, sleep_until};

use crate::amqp::connection;
use crate::amqp::failure::Failure;
use crate::amqp::publisher::{self, Outgoing};
use crate::config::AmqpConfig;

/// The hidden command that runs it.
pub const COMMAND: &str = "bench-relay";

const PREFETCH: u16 = 1_000;
const MOST_AT_ONCE: usize = 512;

/// Confirmed deliveries are gathered so long: one acknowledgement for many.
const GATHER: Duration = Duration::from_millis(10);

/// How a process of its own comes to the same broker.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The broker, where that is not what the configuration says. It may hold a password, so it goes by environment.
    pub variable: Option<(&'static str, String)>,
}

/// Starts the relay as a process of its own, so that what it uses can be told from what the load uses. It ends with its
/// standard input.
///
/// # Errors
/// Where this program cannot be started again.
pub(super) fn start(origin: &Origin, from: &str, to: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args([COMMAND, "--from", from, "--to", to])
        .args(origin.config.iter().flat_map(|path| [OsStr::new("--config"), path.as_os_str()]))
        .envs(origin.variable.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Relays from one queue to another until standard input ends.
///
/// # Errors
/// Where the broker cannot be reached, or ends what it needs.
pub async fn run(amqp: &AmqpConfig, from: &str, to: &str) -> Result<(), Failure> {
    let connect = async |purpose: &str| {
        let link = connection::connect(amqp, purpose, ()).await;
        link.map_err(|error| Failure::Connection(error.to_string()))
    };
    let (consuming, publishing) = (connect("relay, consume").await?, connect("relay, publish").await?);
    let (source, target) = (consuming.channel().await?, publishing.confirming_channel().await?);
    let (confirm, confirms) = mpsc::unbounded_channel();
    let mut stdin = tokio::io::stdin();
    tokio::select! {
        ended = forward(&source, &target, from, to, confirm) => ended,
        ended = acknowledge(&source, confirms) => ended,
        // Whatever is read: an end or an error means that whoever started this is gone.
        _ = stdin.read_u8() => Ok(()),
    }
}

type Forwarded = (u64, PublisherConfirm);

async fn forward(
    source: &Channel,
    target: &Channel,
    from: &str,
    to: &str,
    confirm: mpsc::UnboundedSender<Forwarded>,
) -> Result<(), Failure> {
    source.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = source.basic_consume(from.into(), "relay".into(), options, none).await?;
    let mut ready = consumer.ready_chunks(MOST_AT_ONCE);
    while let Some(deliveries) = ready.next().await {
        let (mut tags, mut batch) = (Vec::new(), Vec::new());
        for delivery in deliveries {
            let delivery = delivery?;
            tags.push(delivery.delivery_tag);
            batch.push(Outgoing {
                exchange: String::new(),
                routing_key: to.to_owned(),
                properties: delivery.properties,
                body: Bytes::from(delivery.data),
                mandatory: true,
            });
        }
        let (written, failure) = publisher::write(target, &batch).await;
        for ((_, written), tag) in written.into_iter().zip(tags) {
            // Nobody receives any more only where acknowledging has failed, and that ends this as well.
            let _ = confirm.send((tag, written));
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Err(Failure::Connection("the broker ended the consumer".to_owned()))
}

async fn acknowledge(source: &Channel, mut confirms: UnboundedReceiver<Forwarded>) -> Result<(), Failure> {
    let mut owed: Option<(u64, Instant)> = None;
    loop {
        let at = owed.map(|(_, at)| at);
        let gathered = async {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = gathered => {
                if let Some((tag, _)) = owed.take() {
                    source.basic_ack(tag, BasicAckOptions { multiple: true }).await?;
                }
            }
            Some((tag, confirm)) = confirms.recv() => {
                // Confirms are waited for in order, so that one acknowledgement covers all before it.
                let confirmation = confirm.await?;
                if !confirmation.is_ack() || confirmation.take_message().is_some() {
                    return Err(Failure::Connection("the target did not take a message".to_owned()));
                }
                owed = Some((tag, at.unwrap_or_else(|| Instant::now() + GATHER)));
            }
        }
    }
}
