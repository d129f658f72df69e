//! Counts the queues that a worker consumes: it is ready when it consumes all of them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::admin::health::{Condition, WorkerHealth};

/// How many of the queues are consumed.
#[derive(Debug, Clone)]
pub(super) struct ConsumingCount {
    all: usize,
    count: Arc<Mutex<usize>>,
    health: WorkerHealth,
}

/// One queue's share in the count; gives it back when it is dropped.
#[derive(Debug)]
pub(super) struct Consuming {
    of: ConsumingCount,
    active: bool,
}

impl ConsumingCount {
    pub(super) fn new(all: usize, health: WorkerHealth) -> Self {
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
        // Kept until health is told: of two queues the later must not be overtaken.
        let mut count = self.of.count.lock().unwrap_or_else(PoisonError::into_inner);
        if active {
            *count += 1;
        } else {
            *count -= 1;
        }
        self.of.health.set(Condition::Consuming, *count == self.of.all);
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
    use crate::admin::health::Health;

    #[test]
    fn ready_only_while_every_queue_is_consumed() {
        let health = Health::new(1);
        let worker = &health.workers()[0];
        worker.set(Condition::Connected, true);
        worker.set(Condition::Declared, true);
        let count = ConsumingCount::new(2, worker.clone());
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
