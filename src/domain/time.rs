//! A moment as Leveret counts it. Owns no clock: whoever needs the present is given it.

use std::fmt;
use std::time::Duration;

use super::duration::millis_rounded_up;

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The moment `wait` later, a fraction of a millisecond rounded up; `None` where it cannot be counted.
    #[must_use]
    pub fn checked_add(self, wait: Duration) -> Option<Self> {
        let millis = u64::try_from(millis_rounded_up(wait)).ok()?;
        self.0.checked_add(millis).map(Self)
    }

    /// The moment `wait` later, a fraction of a millisecond rounded up, or else the last moment there is.
    #[must_use]
    pub fn saturating_add(self, wait: Duration) -> Self {
        self.checked_add(wait).unwrap_or(Self(u64::MAX))
    }

    /// How long after `earlier` this is; zero if it is not after.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_a_millisecond_is_never_lost() {
        assert_eq!(UnixMillis(5).checked_add(Duration::from_micros(1)), Some(UnixMillis(6)));
        assert_eq!(UnixMillis(5).checked_add(Duration::from_millis(1)), Some(UnixMillis(6)));
    }

    #[test]
    fn sums_past_the_end_of_time_are_refused_or_stop_there() {
        assert_eq!(UnixMillis(u64::MAX).checked_add(Duration::from_millis(1)), None);
        assert_eq!(UnixMillis(1).checked_add(Duration::MAX), None);
        assert_eq!(UnixMillis(1).saturating_add(Duration::MAX), UnixMillis(u64::MAX));
    }

    #[test]
    fn a_moment_is_not_after_a_later_one() {
        assert_eq!(UnixMillis(7).saturating_since(UnixMillis(5)), Duration::from_millis(2));
        assert_eq!(UnixMillis(5).saturating_since(UnixMillis(7)), Duration::ZERO);
    }

    #[test]
    fn it_is_shown_as_a_number() {
        assert_eq!(UnixMillis(1_767_225_600_000).to_string(), "1767225600000");
    }
}
