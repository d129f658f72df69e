//! The consumer: takes every message of the queue, and notes when it came.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use tokio::time::{MissedTickBehavior, interval};

use super::load;
use super::publishing::wall_micros;
use super::run::Shared;
use crate::amqp::failure::Failure;

const PREFETCH: u16 = 2_000;

/// Acknowledgements are gathered so long: one for many.
const GATHER: Duration = Duration::from_millis(10);

/// Begins to consume.
pub(super) async fn consume(channel: &Channel, queue: &str) -> Result<Consumer, Failure> {
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    Ok(channel.basic_consume(queue.into(), "bench".into(), options, none).await?)
}

/// Collects for ever; an error means that nothing more can come.
pub(super) async fn collect(
    channel: Channel,
    mut consumer: Consumer,
    shared: Arc<Shared>,
) -> Result<(), Failure> {
    let mut gather = interval(GATHER);
    gather.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        tokio::select! {
            delivery = consumer.next() => {
                let Some(delivery) = delivery else {
                    return Err(Failure::Connection("the broker ended the consumer".to_owned()));
                };
                let delivery = delivery?;
                let now = wall_micros();
                last = Some(delivery.delivery_tag);
                if let Some((sequence, due)) = load::stamp(&delivery.data) {
                    shared.tally().delivered(sequence, due, now);
                }
            }
            _ = gather.tick() => {
                if let Some(tag) = last.take() {
                    channel.basic_ack(tag, BasicAckOptions { multiple: true }).await?;
                }
            }
        }
    }
}
