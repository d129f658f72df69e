//! How long, how fast and by which seed. The only reader of environment variables here; on which brokers, the harness
//! reads (`LEVERET_TEST_BROKERS`, `LEVERET_TEST_AMQP_URI`).
//!
//! - `LEVERET_TORTURE_MINUTES`: how long messages are published. Without it, a short run with a seed that is always
//!   the same.
//! - `LEVERET_TORTURE_SEED`: what decides the faults and the messages. Default: another each time.
//! - `LEVERET_TORTURE_RATE`: messages a second. Default 400: more than a million in an hour, in some of which
//!   nothing can be published.

use std::time::Duration;

use super::schedule::Pace;

/// What a run is made from.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    pub(crate) per_second: u32,
    pub(crate) longest_delay_ms: i64,
}

/// Chosen so that the broker dies early in it: after that, a level may wait three minutes.
const SHORT_SEED: u64 = 544;

impl Settings {
    /// Reads them; panics where one is not a number.
    pub(crate) fn read() -> Self {
        let mut settings = number("LEVERET_TORTURE_MINUTES").map_or_else(Self::short, Self::long);
        if let Some(seed) = number("LEVERET_TORTURE_SEED") {
            settings.seed = seed;
        }
        if let Some(per_second) = number("LEVERET_TORTURE_RATE") {
            settings.per_second = per_second.try_into().unwrap();
        }
        settings
    }

    /// Every kind of fault, each soon over.
    pub(crate) fn short() -> Self {
        Self {
            seed: SHORT_SEED,
            pace: Pace { length: Duration::from_secs(90), pause_ms: 1_000..4_000, lasts_ms: 500..4_000 },
            per_second: 100,
            longest_delay_ms: 10_000,
        }
    }

    fn long(minutes: u64) -> Self {
        Self {
            seed: fastrand::u64(0..1_000_000),
            pace: Pace {
                length: Duration::from_secs(60 * minutes),
                pause_ms: 10_000..40_000,
                lasts_ms: 1_000..60_000,
            },
            per_second: 400,
            longest_delay_ms: 60_000,
        }
    }
}

fn number(name: &str) -> Option<u64> {
    #[allow(clippy::disallowed_methods, reason = "the test's own settings, not the sidecar's configuration")]
    let text = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number: {text:?}")))
}
