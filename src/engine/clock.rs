//! The one reader of the clocks: wall time for due times, monotonic time for waiting.

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
    /// Monotonic time.
    pub(super) mono: Instant,
}

/// Reads both clocks.
pub(super) fn now() -> Now {
    // A wall clock before 1970 counts as 1970: everything with a due time is then far away, and nothing early.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    let part = u64::from(!wall.subsec_nanos().is_multiple_of(1_000_000));
    // Tokio's clock, so that tests can pause it.
    let mono = tokio::time::Instant::now().into_std();
    Now { wall: UnixMillis(millis), wall_ceil: UnixMillis(millis.saturating_add(part)), mono }
}

/// Wall time, in milliseconds since the Unix epoch, rounded down.
#[must_use]
pub fn wall_clock() -> UnixMillis {
    now().wall
}

/// Notices when the wall clock is set while this runs.
#[derive(Debug)]
pub(super) struct StepDetector {
    last: Now,
}

/// A step of the wall clock against the monotonic one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It was set forward: waits end early by real time, not by this clock.
    Forward(Duration),
    /// It was set back: waits go by what was left.
    Back(Duration),
}

impl StepDetector {
    pub(super) fn new(now: Now) -> Self {
        Self { last: now }
    }

    /// The step since the last call, if there was one.
    pub(super) fn observe(&mut self, now: Now) -> Option<Step> {
        let elapsed = now.mono.saturating_duration_since(self.last.mono);
        let expected = u128::from(self.last.wall.0) + elapsed.as_millis();
        let read = u128::from(now.wall.0);
        self.last = now;
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

    #[test]
    fn steps_are_told_from_slew() {
        let start = now();
        let after = |wall: u64, mono: u64| Now {
            wall: UnixMillis(start.wall.0 + wall),
            wall_ceil: UnixMillis(start.wall.0 + wall),
            mono: start.mono + Duration::from_millis(mono),
        };
        let mut detector = StepDetector::new(start);
        assert_eq!(detector.observe(after(1_000, 1_000)), None);
        assert_eq!(detector.observe(after(2_100, 2_000)), None);
        assert_eq!(detector.observe(after(5_100, 2_000)), Some(Step::Forward(Duration::from_secs(3))));
        assert_eq!(detector.observe(after(5_100, 2_000)), None);
        assert_eq!(detector.observe(after(1_100, 3_000)), Some(Step::Back(Duration::from_secs(5))));
    }
}
