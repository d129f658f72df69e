//! A small load tool: publishes delayed messages at a steady rate through a running Leveret, and prints what came,
//! how late, and whether anything was lost, doubled or early.
//!
//! ```text
//! cargo run --release --example load -- --amqp amqp://localhost --rate 1000 --seconds 30 --delay-ms 1000..16000
//! ```

#![allow(clippy::print_stdout, reason = "what it measures is its output")]

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, PublisherConfirm};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Publishes delayed messages at a steady rate and measures what comes out.
#[derive(Debug, Parser)]
struct Options {
    /// Broker
    #[arg(long, default_value = "amqp://localhost:5672/%2f")]
    amqp: String,
    /// Entry exchange of a bridge whose target is the default exchange
    #[arg(long, default_value = "delay")]
    exchange: String,
    /// Messages a second
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// How long to publish, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Body size in bytes
    #[arg(long, default_value_t = 256)]
    size: usize,
    /// Delays, uniform in this range of milliseconds
    #[arg(long, default_value = "1000..16000", value_parser = parse_range)]
    delay_ms: Range<u64>,
    /// Stop once everything is published and confirmed: the messages stay pending
    #[arg(long)]
    leave_pending: bool,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write it as FROM..TO")?;
    let parse = |part: &str| part.parse::<u64>().map_err(|error| error.to_string());
    Ok(parse(from)?..parse(to)?.max(parse(from)? + 1))
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let queue = format!("leveret-load-{}", std::process::id());
    let connect = || Connection::connect(&options.amqp, ConnectionProperties::default());
    let (publishing, consuming) = (connect().await.context("connecting")?, connect().await?);
    let channel = consuming.create_channel().await?;
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), quorum).await?;
    let total = options.rate * options.seconds;
    let collector = tokio::spawn(collect(channel.clone(), queue.clone(), total, options.delay_ms.end));

    let started = Instant::now();
    publish(&publishing.create_channel().await?, &options, &queue).await?;
    let took = started.elapsed().as_secs_f64();
    println!("published and confirmed {total} in {took:.1} s: {:.0} a second", total as f64 / took);
    if options.leave_pending {
        println!("left pending for queue {queue}");
        return Ok(());
    }
    let mut seen = collector.await??;
    channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
    seen.report(total);
    ensure!(seen.lost(total) == 0 && seen.early == 0, "messages were lost or early");
    Ok(())
}

async fn publish(channel: &Channel, options: &Options, queue: &str) -> Result<()> {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut pending: VecDeque<PublisherConfirm> = VecDeque::new();
    let mut ticks = interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut body = vec![b'.'; options.size.max(24)];
    for sequence in 0..options.rate * options.seconds {
        if sequence % (options.rate / 100).max(1) == 0 {
            ticks.tick().await;
        }
        let delay = fastrand::u64(options.delay_ms.clone());
        let due = wall_micros() + delay * 1_000;
        body.splice(..16, [sequence.to_be_bytes(), due.to_be_bytes()].concat());
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), AMQPValue::LongLongInt(i64::try_from(delay)?));
        let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
        let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
        let confirm = channel
            .basic_publish(options.exchange.as_str().into(), queue.into(), mandatory, &body, properties)
            .await?;
        pending.push_back(confirm);
        while pending.len() > 1_000 {
            confirmed(pending.pop_front()).await?;
        }
    }
    while !pending.is_empty() {
        confirmed(pending.pop_front()).await?;
    }
    Ok(())
}

async fn confirmed(confirm: Option<PublisherConfirm>) -> Result<()> {
    if let Some(confirm) = confirm {
        let confirmation = confirm.await?;
        ensure!(
            confirmation.is_ack() && confirmation.take_message().is_none(),
            "the broker did not take a message: is Leveret running?"
        );
    }
    Ok(())
}

#[derive(Default)]
struct Seen {
    count: Vec<u8>,
    late_micros: Vec<u64>,
    early: u64,
}

impl Seen {
    fn lost(&self, total: u64) -> u64 {
        total - self.count.iter().filter(|count| **count > 0).count() as u64
    }

    fn report(&mut self, total: u64) {
        self.late_micros.sort_unstable();
        let doubled: u64 = self.count.iter().map(|count| u64::from(count.saturating_sub(1))).sum();
        let at = |share: f64| {
            let index = ((self.late_micros.len() as f64 * share) as usize)
                .min(self.late_micros.len().saturating_sub(1));
            self.late_micros.get(index).copied().unwrap_or_default() as f64 / 1_000.0
        };
        println!(
            "came {}, lost {}, doubled {doubled}, early {}",
            self.late_micros.len(),
            self.lost(total),
            self.early
        );
        if !self.late_micros.is_empty() {
            println!(
                "lateness in ms: p50 {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
                at(0.5),
                at(0.9),
                at(0.99),
                at(0.999),
                at(1.0)
            );
        }
    }
}

/// Collects until all have come, or nothing has come for as long as the longest delay and some time.
async fn collect(channel: Channel, queue: String, total: u64, longest_ms: u64) -> Result<Seen> {
    channel.basic_qos(1_000, BasicQosOptions::default()).await?;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let mut consumer =
        channel.basic_consume(queue.as_str().into(), "load".into(), options, arguments).await?;
    let mut seen = Seen { count: vec![0; usize::try_from(total)?], ..Default::default() };
    let mut distinct = 0;
    while distinct < total {
        let patience = Duration::from_millis(longest_ms) + Duration::from_secs(15);
        let Ok(Some(delivery)) = timeout(patience, consumer.next()).await else { break };
        let delivery = delivery?;
        let now = wall_micros();
        let number = |at: usize| -> Result<u64> {
            Ok(u64::from_be_bytes(delivery.data.get(at..at + 8).context("a foreign message")?.try_into()?))
        };
        let (sequence, due) = (number(0)?, number(8)?);
        let count = seen.count.get_mut(usize::try_from(sequence)?).context("a foreign message")?;
        distinct += u64::from(*count == 0);
        *count = count.saturating_add(1);
        if now < due {
            seen.early += 1;
        }
        seen.late_micros.push(now.saturating_sub(due));
        if delivery.delivery_tag % 100 == 0 || distinct == total {
            channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await?;
        }
    }
    Ok(seen)
}

fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
