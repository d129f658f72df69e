//! Ladders as the file names them: a preset, a list of TTLs, or a preset with levels for usual delays.

use std::time::Duration;

use super::LadderConfig;
use super::choice::Choice;
use super::node::Value;
use super::reader::Field;
use crate::domain::duration::compact;
use crate::domain::ladder::{self, Ladder, LadderError};

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

    /// Its TTLs, ascending.
    pub(super) fn levels(self) -> Vec<Duration> {
        match self {
            Self::Default => ladder::default_levels(),
            Self::Rocketmq => ladder::rocketmq_levels(),
            Self::None => Vec::new(),
        }
    }
}

impl Choice for Preset {
    const ALL: &'static [(&'static str, Self)] =
        &[("default", Self::Default), ("rocketmq", Self::Rocketmq), ("none", Self::None)];
}

/// Reads a ladder; each level that cannot be is noted where it is written.
pub(super) fn read(field: &Field<'_>) -> LadderConfig {
    let mut levels = match field.value() {
        Some(Value::List(_)) => field.items().filter_map(|item| listed(&item)).collect(),
        Some(Value::Map(_)) => {
            let mut levels = field.at("preset").choice(Preset::Default).levels();
            levels.extend(field.at("extra").list().iter().filter_map(extra));
            levels
        }
        _ => field.choice(Preset::Default).levels(),
    };
    levels.sort_unstable();
    levels.dedup();
    match Ladder::new(&levels) {
        Ok(_) => {}
        Err(LadderError::Empty) => field
            .refuse("has no valid level: give a list of TTLs such as [1s, 5s], a preset, or extra levels"),
        Err(error) => field.refuse(error.to_string()),
    }
    LadderConfig { levels }
}

fn listed(item: &Field<'_>) -> Option<Duration> {
    let ttl = item.any_duration()?;
    ladder::check_ttl(ttl).map_err(|error| item.refuse(error.to_string())).ok()?;
    Some(ttl)
}

fn extra(item: &Field<'_>) -> Option<Duration> {
    let delay = item.any_duration()?;
    let ttl = ladder::level_for_usual_delay(delay);
    match ladder::check_ttl(ttl) {
        Ok(()) => Some(ttl),
        Err(LadderError::TooShort { .. }) => {
            let delay = compact(delay);
            item.refuse(format!("a delay of {delay} leaves no room for a level of its own: leave it out"));
            None
        }
        Err(error) => {
            item.refuse(error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_ladders_and_named_as_the_file_names_them() {
        for (name, preset) in Preset::ALL {
            assert!(Preset::WITH_NONE.contains(name));
            assert_eq!(Ladder::new(&preset.levels()).is_ok(), Preset::NAMES.contains(name), "{name}");
        }
    }
}
