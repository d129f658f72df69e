//! The memory that messages may take, divided among the workers, and the queues that each takes them from.
//!
//! Each queue has a part of its own: one that has used it up waits for what it has itself taken, which is sent on
//! whatever the others do. So a bridge with large messages stops no other one, nor what is due.

use crate::config::{Config, Ordering};
use crate::domain::packer::OpenLimits;
use crate::domain::prefetch::Prefetch;

/// A single consumer's bundles are taken to be a quarter full, since most are less: were all of them full, the bytes
/// would be four times as many.
const FULLNESS: usize = 4;

/// What one worker may have taken and not yet settled.
#[derive(Debug)]
pub struct Budget {
    /// Of the due queue.
    pub due: Prefetch,
    /// Of each bridge's ingress queue.
    pub ingress: Prefetch,
    /// In bundles that wait for company: less than would keep any queue from being read on.
    pub open: OpenLimits,
}

impl Budget {
    /// The shares of one worker.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let (due_bytes, ingress_bytes) = divide(config.hold.max_bytes, config.bridges.len());
        let workers = config.workers.max(1);
        let part = |bytes: usize| bytes / usize::from(workers);
        let prefetch = |most: u16, bytes| match config.ordering {
            Ordering::Parallel => Prefetch::new((most / workers).max(1), part(bytes)),
            // One worker at a time consumes: to the others nothing comes. Another prefetch takes another consumer, and
            // to replace a single active one is to hand the queue to another replica. So nothing can be weighed first.
            Ordering::Single => Prefetch::fixed(most, bytes, config.bundle.max_bytes / FULLNESS),
        };
        let due = prefetch(config.hold.prefetch, due_bytes);
        let ingress = prefetch(config.intake.prefetch, ingress_bytes);
        // A prefetch whose messages take less than a third of the bytes is not the limit: it grows.
        let open = OpenLimits { messages: usize::from(ingress.most()) / 2, bytes: part(ingress_bytes) / 4 };
        Self { due, ingress, open }
    }
}

/// The bytes of the due queue, which has half, and of each ingress queue.
fn divide(max_bytes: usize, bridges: usize) -> (usize, usize) {
    let due = max_bytes.div_ceil(2);
    (due, (max_bytes - due) / bridges.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(workers: u16, ordering: Ordering) -> Config {
        let config = Config { workers, ordering, ..Config::default() };
        assert_eq!((config.hold.max_bytes, config.bundle.max_bytes), (64 << 20, 256 << 10));
        assert_eq!((config.hold.prefetch, config.intake.prefetch, config.bridges.len()), (1_000, 1_000, 1));
        config
    }

    #[test]
    fn half_is_for_what_is_due() {
        assert_eq!(divide(64, 1), (32, 32));
        assert_eq!(divide(64, 2), (32, 16));
    }

    proptest! {
        #[test]
        fn the_parts_are_the_whole_at_most(max_bytes in any::<usize>(), bridges in 0..1_000usize) {
            let (due, ingress) = divide(max_bytes, bridges);
            let all = ingress.checked_mul(bridges).and_then(|all| all.checked_add(due));
            prop_assert!(all.unwrap() <= max_bytes);
        }
    }

    #[test]
    fn workers_have_equal_parts() {
        let alone = Budget::of(&config(1, Ordering::Parallel));
        assert_eq!(alone.due, Prefetch::new(1_000, 32 << 20));
        assert_eq!(alone.open, OpenLimits { messages: 500, bytes: 8 << 20 });
        let one_of_four = Budget::of(&config(4, Ordering::Parallel));
        assert_eq!(one_of_four.due, Prefetch::new(250, 8 << 20));
        assert_eq!(one_of_four.ingress, Prefetch::new(250, 8 << 20));
        assert_eq!(one_of_four.open, OpenLimits { messages: 125, bytes: 2 << 20 });
    }

    #[test]
    fn the_one_that_consumes_has_all_and_takes_its_bundles_to_be_a_quarter_full() {
        let mut config = config(4, Ordering::Single);
        let budget = Budget::of(&config);
        assert_eq!((budget.due.current(), budget.ingress.current(), budget.open.messages), (512, 512, 256));
        config.intake.prefetch = 1;
        config.hold.max_bytes = 256 << 10;
        let budget = Budget::of(&config);
        assert_eq!((budget.due.current(), budget.ingress.current(), budget.open.messages), (2, 1, 0));
    }
}
