//! The cascade of NServiceBus and Celery: a level for each bit of a delay in seconds. A message's routing key begins with
//! the bits; at each level's topic exchange, a 1 sends it to wait in the level's queue, a 0 straight to the next lower
//! exchange, and the queue dead-letters to the same. Below the lowest is the exchange that delivers.

use std::time::Duration;

use lapin::options::ExchangeBindOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};

use super::{bind, exchange, queue};
use crate::amqp::failure::Failure;
use crate::config::QueueType;

/// The levels that some delay needs.
#[derive(Debug, Clone)]
pub(super) struct Cascade {
    prefix: String,
    levels: usize,
}

impl Cascade {
    /// Names begin with `prefix`; no delay is longer than `longest`.
    pub(super) fn new(prefix: &str, longest: Duration) -> Self {
        let bits = u64::BITS - longest.as_secs().leading_zeros();
        Self { prefix: prefix.to_owned(), levels: bits.max(1) as usize }
    }

    /// The exchange that delivers.
    pub(super) fn delivery(&self) -> String {
        format!("{}.delivery", self.prefix)
    }

    /// Which keys are delivered to that queue.
    pub(super) fn pattern(queue: &str) -> String {
        format!("#.{queue}")
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = String> + use<'_> {
        (0..self.levels).map(|level| self.level(level))
    }

    pub(super) fn exchanges(&self) -> impl Iterator<Item = String> + use<'_> {
        self.queues().chain(std::iter::once(self.delivery()))
    }

    /// Exchange and routing key for a delay of whole seconds. It starts at the highest level that it needs.
    pub(super) fn route(&self, queue: &str, delay: Duration) -> (String, String) {
        let seconds = delay.as_secs();
        let bits: Vec<_> =
            (0..self.levels).rev().map(|bit| if seconds >> bit & 1 == 1 { "1." } else { "0." }).collect();
        let first = (0..self.levels).rev().find(|bit| seconds >> bit & 1 == 1);
        (
            first.map_or_else(|| self.delivery(), |level| self.level(level)),
            format!("{}{queue}", bits.concat()),
        )
    }

    pub(super) async fn declare(&self, channel: &Channel, kind: QueueType) -> Result<(), Failure> {
        let topic = || ExchangeKind::Topic;
        exchange(channel, &self.delivery(), topic(), FieldTable::default()).await?;
        for level in 0..self.levels {
            let name = self.level(level);
            let next = if level == 0 { self.delivery() } else { self.level(level - 1) };
            exchange(channel, &name, topic(), FieldTable::default()).await?;
            let ttl = i64::try_from(1_000_u64 << level).unwrap_or(i64::MAX);
            let text = |text: &str| AMQPValue::LongString(text.into());
            let mut arguments = FieldTable::default();
            arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(ttl));
            arguments.insert("x-dead-letter-exchange".into(), text(&next));
            if kind == QueueType::Quorum {
                arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
                arguments.insert("x-overflow".into(), text("reject-publish"));
            }
            queue(channel, &name, kind, arguments).await?;
            bind(channel, &name, &name, &self.key(level, "1")).await?;
            let (options, none) = (ExchangeBindOptions::default(), FieldTable::default());
            let key = self.key(level, "0");
            channel.exchange_bind(next.into(), name.into(), key.into(), options, none).await?;
        }
        Ok(())
    }

    fn level(&self, level: usize) -> String {
        format!("{}.level-{level:02}", self.prefix)
    }

    /// The pattern that a level's bit decides.
    fn key(&self, level: usize, bit: &str) -> String {
        format!("{}{bit}.#", "*.".repeat(self.levels - 1 - level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_a_delay_are_its_key() {
        let cascade = Cascade::new("c", Duration::from_secs(16));
        assert_eq!(cascade.levels, 5);
        assert_eq!(cascade.route("q", Duration::from_secs(5)), ("c.level-02".into(), "0.0.1.0.1.q".into()));
        assert_eq!(cascade.route("q", Duration::from_secs(16)), ("c.level-04".into(), "1.0.0.0.0.q".into()));
        assert_eq!(cascade.route("q", Duration::ZERO), ("c.delivery".into(), "0.0.0.0.0.q".into()));
        assert_eq!([cascade.key(4, "1"), cascade.key(1, "0")], ["1.#", "*.*.*.0.#"]);
    }
}
