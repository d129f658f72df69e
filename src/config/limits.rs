//! The ranges of numbers and durations, both ends included.

use std::time::Duration;

const DAY: u64 = 86_400;

pub(super) const WORKERS: (u64, u64) = (1, 64);
pub(super) const PREFETCH: (u64, u64) = (1, 65_535);
pub(super) const BUNDLE_MESSAGES: (u64, u64) = (1, 10_000);
pub(super) const BUNDLE_BYTES: (u64, u64) = (4 << 10, 8 << 20);
pub(super) const HOLD_BYTES: (u64, u64) = (64 << 10, 2 << 30);
/// A hundred years.
pub(super) const MAX_DELAY: (Duration, Duration) = (secs(1), secs(36_525 * DAY));
pub(super) const DEFAULT_DELAY: (Duration, Duration) = (Duration::ZERO, MAX_DELAY.1);
pub(super) const HEARTBEAT: (Duration, Duration) = (Duration::ZERO, secs(65_535));
pub(super) const CONNECT_TIMEOUT: (Duration, Duration) = (Duration::from_millis(100), secs(3600));
pub(super) const CONFIRM_TIMEOUT: (Duration, Duration) = (secs(1), secs(3600));
pub(super) const GIVE_UP_AFTER: (Duration, Duration) = (Duration::ZERO, MAX_DELAY.1);
pub(super) const GRACE: (Duration, Duration) = (Duration::ZERO, secs(3600));
pub(super) const AUDIT_INTERVAL: (Duration, Duration) = (secs(1), secs(DAY));

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Bytes of a short string in AMQP: the limit for names of exchanges and queues, routing keys and vhosts.
pub(super) const SHORT_STRING: usize = 255;
/// Letters of a namespace or of a bridge's name. The longest queue name, `<namespace>.ingress.<bridge>`, is then
/// well under [`SHORT_STRING`].
pub(super) const NAME: usize = 64;
const _: () = assert!(2 * NAME + ".ingress.".len() <= SHORT_STRING, "queue names fit AMQP's short strings");
