//! One message through an entry exchange, and the moment when it comes out: what an application waits for when something
//! was started again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const QUEUE: &str = "leveret-bench.probe";
const DELAY_MS: u32 = 1;

/// How long a broker may take until it has taken the message.
const PUBLISHING: Duration = Duration::from_secs(120);
/// How long until that is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long the message may take.
const COMING: Duration = Duration::from_secs(600);

/// A message that is published and has not come.
pub(crate) struct Probe {
    runtime: Runtime,
    coming: JoinHandle<Result<Instant>>,
}

impl Probe {
    /// Publishes it, to be delivered to a queue of its own by way of the default exchange. Tries again where the broker is
    /// not ready for that yet.
    pub(crate) fn publish(amqp: &str, entry: &str) -> Result<Self> {
        let runtime = Runtime::new().context("cannot start threads")?;
        let coming = runtime.block_on(async {
            let started = Instant::now();
            loop {
                match publish(amqp, entry).await {
                    Err(_) if started.elapsed() < PUBLISHING => sleep(AGAIN).await,
                    tried => return tried.context("the broker does not take a message"),
                }
            }
        })?;
        Ok(Self { runtime, coming })
    }

    /// Waits until it has come. When that was.
    pub(crate) fn delivered(self) -> Result<Instant> {
        let Self { runtime, coming } = self;
        let waited = runtime.block_on(async { timeout(COMING, coming).await });
        waited.context("no message was delivered")??
    }
}

async fn publish(amqp: &str, entry: &str) -> Result<JoinHandle<Result<Instant>>> {
    let connection = Connection::connect(amqp, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let (temporary, none) =
        (QueueDeclareOptions { exclusive: true, ..Default::default() }, FieldTable::default());
    channel.queue_declare(QUEUE.into(), temporary, none.clone()).await?;
    let unacknowledged = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut consumer = channel.basic_consume(QUEUE.into(), "probe".into(), unacknowledged, none).await?;
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongUInt(DELAY_MS));
    let properties = BasicProperties::default().with_headers(headers).with_delivery_mode(2);
    let routed = BasicPublishOptions { mandatory: true, ..Default::default() };
    let confirm = channel.basic_publish(entry.into(), QUEUE.into(), routed, &[], properties).await?;
    ensure!(confirm.await? == Confirmation::Ack(None), "no queue takes what is published to {entry}");
    // A task of its own: the moment is that of its coming, not that of being asked for.
    Ok(tokio::spawn(async move {
        let delivery = consumer.next().await.context("the broker ended the consumer")?;
        let at = Instant::now();
        delivery?;
        // Only now may the queue go, with the connection.
        connection.close(200, "done".into()).await?;
        Ok(at)
    }))
}
