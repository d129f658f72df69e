//! Counts the queues that are being consumed: the process is ready when all of them are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::admin::health::{Condition, Health};

/// How many of the queues are consumed.
#[derive(Debug, Clone)]
pub(super) struct ConsumingCount {
    all: usize,
    count: Arc<AtomicUsize>,
    health: Health,
}

/// One queue's share in the count; gives it back when it is dropped.
#[derive(Debug)]
pub(super) struct Consuming {
    of: ConsumingCount,
    active: bool,
}

impl ConsumingCount {
    pub(super) fn new(all: usize, health: Health) -> Self {
        Self { all, count: Arc::default(), health }
    }

    /// The share of one more queue, not consumed yet.
    pub(super) fn follow(&self) -> Consuming {
        Consuming { of: self.clone(), active: false }
    }
}

impl Consuming {
    /// Whether the queue is consumed now.
    pub(super) fn set(&mut self, active: bool) {
        if active == self.active {
            return;
        }
        self.active = active;
        let count = if active {
            self.of.count.fetch_add(1, Ordering::AcqRel) + 1
        } else {
            self.of.count.fetch_sub(1, Ordering::AcqRel) - 1
        };
        self.of.health.set(Condition::Consuming, count == self.of.all);
    }
}

impl Drop for Consuming {
    fn drop(&mut self) {
        self.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_while_every_queue_is_consumed() {
        let health = Health::new();
        health.set(Condition::Connected, true);
        health.set(Condition::Declared, true);
        let count = ConsumingCount::new(2, health.clone());
        let (mut one, mut two) = (count.follow(), count.follow());
        one.set(true);
        one.set(true);
        assert!(health.ready().is_err());
        two.set(true);
        assert!(health.ready().is_ok());
        drop(one);
        assert!(health.ready().is_err());
    }
}
