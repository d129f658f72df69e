//! The one reader of the clocks: wall time for due times, monotonic time for waiting.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::domain::time::UnixMillis;

/// Differences between the two clocks that are no step but adjustment.
const SLEW: Duration = Duration::from_millis(250);

/// Both clocks, read at the same moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// Wall time, rounded down: what is due by it is due.
    pub(super) wall: UnixMillis,
    /// Wall time, rounded up: a delay that starts here ends no earlier than was asked.
    pub(super) wall_ceil: UnixMillis,
    /// How long ago the millisecond `wall` began.
    pub(super) part: Duration,
    /// Monotonic time.
    pub(super) mono: Instant,
}

impl Now {
    /// How long it is until a moment; nothing where that is past.
    pub(super) fn until(&self, moment: UnixMillis) -> Duration {
        moment.saturating_since(self.wall).saturating_sub(self.part)
    }
}

/// Reads both clocks.
pub(super) fn now() -> Now {
    // A wall clock before 1970 counts as 1970: everything with a due time is then far away, and nothing early.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    let part = Duration::from_nanos(u64::from(wall.subsec_nanos() % 1_000_000));
    let begun = u64::from(!part.is_zero());
    // Tokio's clock, so that tests can pause it.
    let mono = tokio::time::Instant::now().into_std();
    Now { wall: UnixMillis(millis), wall_ceil: UnixMillis(millis.saturating_add(begun)), part, mono }
}

/// Wall time, in milliseconds since the Unix epoch, rounded down.
#[must_use]
pub fn wall_clock() -> UnixMillis {
    now().wall
}

/// Notices when the wall clock is set while this runs. Shared by all who read the clocks, it tells each step once.
#[derive(Debug)]
pub(super) struct StepDetector {
    last: Mutex<Now>,
}

/// How far the clocks may drift apart before moments are reckoned anew.
const DRIFT: Duration = Duration::from_millis(2);

/// Tells when, by monotonic time, a moment of the wall clock comes. The answer for a moment is always the same while
/// the clocks agree, whenever it is asked: what is due at once stays in the order in which it came.
#[derive(Debug)]
pub(super) struct Reckoning {
    base: Now,
}

impl Reckoning {
    pub(super) fn new(now: Now) -> Self {
        Self { base: now }
    }

    /// The monotonic time of a moment, past or to come.
    pub(super) fn instant(&mut self, moment: UnixMillis, now: Now) -> Instant {
        let elapsed = now.mono.saturating_duration_since(self.base.mono);
        let expected =
            self.base.wall.0.saturating_add(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        if expected.abs_diff(now.wall.0) >= u64::try_from(DRIFT.as_millis()).unwrap_or(u64::MAX) {
            self.base = now;
        }
        let Now { wall, part, mono, .. } = self.base;
        let ahead = mono + moment.saturating_since(wall);
        // A moment before this machine was started is as past as can be.
        ahead.checked_sub(wall.saturating_since(moment) + part).unwrap_or(mono)
    }
}

/// A step of the wall clock against the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It was set forward: waits end early by real time, not by this clock.
    Forward(Duration),
    /// It was set back: waits go by what was left.
    Back(Duration),
}

impl Default for StepDetector {
    fn default() -> Self {
        Self::new(now())
    }
}

impl StepDetector {
    fn new(now: Now) -> Self {
        Self { last: Mutex::new(now) }
    }

    /// The step since the last call, if there was one.
    pub(super) fn observe(&self, now: Now) -> Option<Step> {
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread has read the clocks later and was here first.
            if now.mono < last.mono {
                return None;
            }
            std::mem::replace(&mut *last, now)
        };
        let elapsed = now.mono.duration_since(last.mono);
        let expected = u128::from(last.wall.0) + elapsed.as_millis();
        let read = u128::from(now.wall.0);
        let millis = |n: u128| Duration::from_millis(u64::try_from(n).unwrap_or(u64::MAX));
        let (step, by) = if read >= expected {
            (Step::Forward as fn(Duration) -> Step, millis(read - expected))
        } else {
            (Step::Back as fn(Duration) -> Step, millis(expected - read))
        };
        (by > SLEW).then(|| step(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(start: Now, wall: u64, mono: Duration) -> Now {
        let wall = UnixMillis(start.wall.0 + wall);
        Now { wall, wall_ceil: wall, part: Duration::ZERO, mono: start.mono + mono }
    }

    #[test]
    fn a_moment_is_the_same_whenever_it_is_asked_for() {
        let start = Now { part: Duration::ZERO, ..now() };
        let mut reckoning = Reckoning::new(start);
        let due = UnixMillis(start.wall.0 + 100);
        let expected = start.mono + Duration::from_millis(100);
        // Between two milliseconds of the wall clock, and after the moment.
        for (wall, micros) in [(0, 0), (0, 900), (1, 1_000), (1, 1_999), (150, 150_500)] {
            assert_eq!(reckoning.instant(due, later(start, wall, Duration::from_micros(micros))), expected);
        }
        let past = UnixMillis(start.wall.0 - 1);
        assert!(reckoning.instant(past, start) < start.mono);
        // The clock was set forward by a second.
        let stepped = later(start, 1_010, Duration::from_millis(10));
        let due = UnixMillis(start.wall.0 + 2_000);
        assert_eq!(reckoning.instant(due, stepped), stepped.mono + Duration::from_millis(990));
    }

    #[test]
    fn a_moment_is_exact_within_the_millisecond() {
        let start = Now { part: Duration::from_micros(700), ..now() };
        let due = UnixMillis(start.wall.0 + 2);
        assert_eq!(start.until(due), Duration::from_micros(1_300));
        assert_eq!(start.until(start.wall), Duration::ZERO);
        assert_eq!(Reckoning::new(start).instant(due, start), start.mono + Duration::from_micros(1_300));
    }

    #[test]
    fn steps_are_told_from_slew() {
        let start = now();
        let after = |wall: u64, mono: u64| later(start, wall, Duration::from_millis(mono));
        let detector = StepDetector::new(start);
        assert_eq!(detector.observe(after(1_000, 1_000)), None);
        assert_eq!(detector.observe(after(2_100, 2_000)), None);
        assert_eq!(detector.observe(after(5_100, 2_000)), Some(Step::Forward(Duration::from_secs(3))));
        assert_eq!(detector.observe(after(5_100, 2_000)), None);
        // Read before, by a thread that was held up.
        assert_eq!(detector.observe(after(1_500, 1_500)), None);
        assert_eq!(detector.observe(after(1_100, 3_000)), Some(Step::Back(Duration::from_secs(5))));
    }
}
