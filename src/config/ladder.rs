//! The ladder's presets, and the level that is made for a usual delay.

use std::time::Duration;

use super::choice::Choice;

/// A ladder by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    Default,
    Rocketmq,
    /// No level of its own: only the extra ones.
    None,
}

impl Preset {
    /// The presets that are a ladder by themselves.
    pub(super) const NAMES: &'static [&'static str] = &["default", "rocketmq"];
    /// All of them.
    pub(super) const WITH_NONE: &'static [&'static str] = &["default", "rocketmq", "none"];
}

impl Choice for Preset {
    const ALL: &'static [(&'static str, Self)] =
        &[("default", Self::Default), ("rocketmq", Self::Rocketmq), ("none", Self::None)];
}

/// The TTLs of a preset, ascending.
pub(super) fn ladder_levels(preset: Preset) -> Vec<Duration> {
    match preset {
        Preset::Default => (0..25).map(|doublings| Duration::from_millis(125 << doublings)).collect(),
        Preset::Rocketmq => {
            let seconds =
                [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];
            seconds.map(Duration::from_secs).to_vec()
        }
        Preset::None => Vec::new(),
    }
}

/// The TTL of a level made for a usual delay: the delay less the room that a message needs, which has already spent
/// some milliseconds and still has to linger for its bundle. Rounded down to a round number.
pub(super) fn level_for_delay(delay: Duration) -> Duration {
    let linger = (delay / 64).clamp(Duration::from_millis(2), Duration::from_secs(1));
    let millis = delay.saturating_sub(linger + Duration::from_millis(100)).as_millis();
    let millis = millis - millis % if millis >= 10_000 { 1000 } else { 10 };
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn presets() {
        let default = ladder_levels(Preset::Default);
        assert_eq!(default.len(), 25);
        assert_eq!(default.first(), Some(&Duration::from_millis(125)));
        assert_eq!(default.last(), Some(&Duration::from_secs(2_097_152)));
        let rocketmq = ladder_levels(Preset::Rocketmq);
        assert_eq!(rocketmq.len(), 18);
        assert!(default.is_sorted() && rocketmq.is_sorted());
    }

    #[test]
    fn a_level_for_a_usual_delay_leaves_room() {
        assert_eq!(level_for_delay(Duration::from_secs(1800)), Duration::from_secs(1798));
        assert_eq!(level_for_delay(Duration::from_secs(5)), Duration::from_millis(4820));
        assert_eq!(level_for_delay(Duration::from_millis(50)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_level_is_at_least_its_room_shorter(millis in 0..400_000_000_000u64) {
            let delay = Duration::from_millis(millis);
            let level = level_for_delay(delay);
            prop_assert!(level.is_zero() || level + Duration::from_millis(102) <= delay);
        }
    }
}
