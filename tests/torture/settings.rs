//! How long, how fast and by which seed. The only reader of environment variables here; on which brokers, the harness
//! reads (`LEVERET_TEST_BROKERS`, `LEVERET_TEST_AMQP_URI`).
//!
//! - `LEVERET_TORTURE_MINUTES`: how long messages are published. Without it, a short run with a seed that is always
//!   the same.
//! - `LEVERET_TORTURE_SEED`: what decides the faults and the messages. Default: another each time.
//! - `LEVERET_TORTURE_RATE`: messages a second. Default 300.

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
const SHORT_SEED: u64 = 1;

impl Settings {
    /// Reads them; panics where one is not a number.
    pub(crate) fn read() -> Self {
        let minutes = number("LEVERET_TORTURE_MINUTES");
        let seed = number("LEVERET_TORTURE_SEED");
        let per_second =
            |default| number("LEVERET_TORTURE_RATE").map_or(default, |rate| rate.try_into().unwrap());
        match minutes {
            None => Self {
                seed: seed.unwrap_or(SHORT_SEED),
                pace: Pace { length: Duration::from_secs(70), pause_ms: 2_000..5_000, lasts_ms: 500..4_000 },
                per_second: per_second(100),
                longest_delay_ms: 10_000,
            },
            Some(minutes) => Self {
                seed: seed.unwrap_or_else(|| fastrand::u64(0..1_000_000)),
                pace: Pace {
                    length: Duration::from_secs(60 * minutes),
                    pause_ms: 10_000..40_000,
                    lasts_ms: 1_000..60_000,
                },
                per_second: per_second(300),
                longest_delay_ms: 60_000,
            },
        }
    }
}

fn number(name: &str) -> Option<u64> {
    #[allow(clippy::disallowed_methods, reason = "the test's own settings, not the sidecar's configuration")]
    let text = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number: {text:?}")))
}
