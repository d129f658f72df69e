//! The demonstration of `make demo`: publishes messages with several delays through a running Leveret, and shows each
//! as it arrives. Fails where one is early, or missing.
//!
//! `scripts/demo` starts a broker and Leveret for it. To run it on your own: `LEVERET_AMQP__URI=amqp://localhost cargo
//! run --example demo`, where `leveret run` serves the same broker.
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

/// The entry exchange of the bridge that Leveret has when nothing is configured.
const ENTRY: &str = "delay";
const QUEUE: &str = "leveret-demo";
const DELAYS_MS: [u32; 8] = [0, 250, 1_000, 2_000, 3_500, 5_000, 8_000, 10_000];
/// How long after the last message was due one is missing.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    #[allow(clippy::disallowed_methods, reason = "an application's own setting")]
    let uri = std::env::var("LEVERET_AMQP__URI").unwrap_or_else(|_| "amqp://localhost".to_owned());
    let connection = Connection::connect(&uri, ConnectionProperties::default())
        .await
        .context("cannot connect to the broker")?;

    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let temporary = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(QUEUE.into(), temporary, FieldTable::default()).await?;

    println!("\npublish(exchange={ENTRY:?}, routing_key={QUEUE:?}, headers={{\"x-delay\": MILLISECONDS}})\n");
    // The longest first, so that the order of arrival is not that of publishing.
    let mut published = Vec::new();
    for delay_ms in DELAYS_MS.into_iter().rev() {
        published.push((delay_ms, publish(&channel, delay_ms).await?));
    }
    receive(&channel, &published).await?;
    connection.close(200, "done".into()).await?;
    Ok(())
}

/// Publishes one message and returns when that began: no clock of the broker or of Leveret can have started earlier.
async fn publish(channel: &Channel, delay_ms: u32) -> anyhow::Result<Instant> {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongUInt(delay_ms));
    let properties = BasicProperties::default().with_headers(headers);
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let body = delay_ms.to_string();
    let started = Instant::now();
    let confirm =
        channel.basic_publish(ENTRY.into(), QUEUE.into(), options, body.as_bytes(), properties).await?;
    ensure!(
        confirm.await? == Confirmation::Ack(None),
        "the broker did not take the message of {delay_ms} ms"
    );
    Ok(started)
}

/// Shows every message as it arrives.
async fn receive(channel: &Channel, published: &[(u32, Instant)]) -> anyhow::Result<()> {
    let options = BasicConsumeOptions::default();
    let mut consumer =
        channel.basic_consume(QUEUE.into(), "demo".into(), options, FieldTable::default()).await?;
    println!("{:>12} {:>15} {:>10}", "delay asked", "arrived after", "lateness");
    let mut missing = published.to_vec();
    let mut early = 0;
    let limit = Duration::from_millis(DELAYS_MS.into_iter().max().unwrap_or_default().into()) + PATIENCE;
    let deadline = tokio::time::Instant::now() + limit;
    while !missing.is_empty() {
        let Ok(next) = tokio::time::timeout_at(deadline, consumer.next()).await else { break };
        let delivery = next.context("the broker ended the consumer")??;
        let arrived = Instant::now();
        delivery.ack(BasicAckOptions::default()).await?;
        let Some(at) = missing.iter().position(|(ms, _)| ms.to_string().as_bytes() == delivery.data) else {
            bail!("a message arrived that nobody waits for: {:?}", String::from_utf8_lossy(&delivery.data));
        };
        let (delay_ms, started) = missing.swap_remove(at);
        let after_ms = arrived.duration_since(started).as_secs_f64() * 1000.0;
        let lateness_ms = after_ms - f64::from(delay_ms);
        println!("{delay_ms:>9} ms {after_ms:>12.1} ms {lateness_ms:>7.1} ms");
        early += usize::from(lateness_ms < 0.0);
    }
    let left: Vec<_> = missing.iter().map(|(delay_ms, _)| delay_ms).collect();
    ensure!(left.is_empty(), "missing after {limit:?}: the messages of {left:?} ms");
    ensure!(early == 0, "{early} came early");
    println!("\nall {} arrived, none early", published.len());
    Ok(())
}
