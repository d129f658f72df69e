//! The planner: where a message goes next, from what is left of its wait alone. Errors of one hop never add up, since
//! each hop is planned anew from the due time.

use std::time::Duration;

use super::ladder::Ladder;
use super::time::UnixMillis;

/// What a TTL of any length may be short of, since the broker counts whole milliseconds at both its ends.
const SERVICE_ROUNDING: Duration = Duration::from_millis(2);
/// The part of a TTL by which two clocks may disagree without either of them having stepped: 1/1024, about 0.1 %.
const SERVICE_DRIFT_PART: u32 = 1024;

/// Where a message goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// It is due: to its target.
    Deliver,
    /// No level is short enough: the rest is waited in memory.
    Hold,
    /// Into the level of this index in [`Ladder::levels`].
    Level(usize),
}

/// The way of a message that has `remaining` to wait: the longest level that brings it back in time.
#[must_use]
pub fn plan(ladder: &Ladder, remaining: Duration) -> Plan {
    if remaining.is_zero() {
        return Plan::Deliver;
    }
    let fitting = ladder.levels().partition_point(|level| level.room() <= remaining);
    fitting.checked_sub(1).map_or(Plan::Hold, Plan::Level)
}

/// What is left of the wait: by the clock, or by service ([`left_after_hop`]) where that is less, so that a clock that
/// steps back does not lengthen the wait.
#[must_use]
pub fn remaining(due: UnixMillis, now: UnixMillis, left: Option<Duration>) -> Duration {
    let by_clock = due.saturating_since(now);
    left.map_or(by_clock, |left| left.min(by_clock))
}

/// What is left by service after a hop through a level of `ttl`, for a message that had `remaining` when the hop was
/// planned.
///
/// The broker's clock measured that TTL. It is trusted only within what two sound clocks may disagree by: otherwise a
/// broker whose clock runs a little fast would make every long wait end early.
#[must_use]
pub fn left_after_hop(remaining: Duration, ttl: Duration) -> Duration {
    let certainly_served = ttl.saturating_sub(ttl / SERVICE_DRIFT_PART).saturating_sub(SERVICE_ROUNDING);
    remaining.saturating_sub(certainly_served)
}

/// How many levels a message passes through in a delay of this length, if every hop takes all the room it is given.
#[must_use]
pub fn hop_count(ladder: &Ladder, delay: Duration) -> usize {
    let mut rest = delay.as_nanos();
    let mut hops: u128 = 0;
    for level in ladder.levels().iter().rev() {
        let room = level.room().as_nanos();
        hops = hops.saturating_add(rest / room);
        rest %= room;
    }
    usize::try_from(hops).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
