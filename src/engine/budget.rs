//! How much of a queue may be unsettled: a worker's share of what the process may hold.

use crate::config::{Config, Ordering};

/// How much may be unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// Most unsettled deliveries.
    pub(super) prefetch: u16,
    /// Unsettled bytes at which no more is taken until half of them are settled. `None` where the consumer must stay the
    /// one that it is: to replace a single active consumer is to hand the queue to another replica.
    pub(super) max_bytes: Option<usize>,
}

impl Budget {
    /// Of one worker, for a bridge's ingress queue.
    pub(super) fn ingress(config: &Config) -> Self {
        Self::share(config, config.intake.prefetch)
    }

    /// Of one worker, for the due queue.
    pub(super) fn due(config: &Config) -> Self {
        Self::share(config, config.hold.prefetch)
    }

    fn share(config: &Config, prefetch: u16) -> Self {
        match config.ordering {
            Ordering::Parallel => Self {
                prefetch: (prefetch / config.workers).max(1),
                max_bytes: Some(config.hold.max_bytes / usize::from(config.workers)),
            },
            // One worker at a time consumes: to the others nothing comes.
            Ordering::Single => Self { prefetch, max_bytes: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(workers: u16, ordering: Ordering) -> Config {
        let mut config = Config { workers, ordering, ..Config::default() };
        (config.intake.prefetch, config.hold.prefetch, config.hold.max_bytes) = (1_000, 100, 64 << 20);
        config
    }

    #[test]
    fn workers_have_equal_shares() {
        let alone = config(1, Ordering::Parallel);
        assert_eq!(Budget::ingress(&alone), Budget { prefetch: 1_000, max_bytes: Some(64 << 20) });
        let four = config(4, Ordering::Parallel);
        assert_eq!(Budget::ingress(&four), Budget { prefetch: 250, max_bytes: Some(16 << 20) });
        assert_eq!(Budget::due(&four), Budget { prefetch: 25, max_bytes: Some(16 << 20) });
    }

    #[test]
    fn the_one_that_consumes_has_all() {
        let single = config(4, Ordering::Single);
        assert_eq!(Budget::due(&single), Budget { prefetch: 100, max_bytes: None });
    }
}
