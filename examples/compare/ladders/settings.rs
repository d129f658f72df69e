//! What is compared: the defaults, and settings that differ from them in one thing.

use std::f64::consts::SQRT_2;
use std::time::Duration;

use anyhow::{Context, Result};
use leveret::config::Config;
use leveret::domain::ladder::{Ladder, default_levels, lead, level_for_usual_delay, linger, rocketmq_levels};
use leveret::domain::packer::{Limits, OpenLimits};
use leveret::engine::budget::Budget;

/// The name of the defaults.
pub(crate) const DEFAULTS: &str = "default: ×2 from 1 s";
/// The name of the defaults with compression.
pub(crate) const COMPRESSED: &str = "compressed";

/// All that decides how messages are gathered.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Tells it from all others.
    pub(crate) name: &'static str,
    pub(crate) ladder: Ladder,
    pub(crate) limits: Limits,
    pub(crate) open: OpenLimits,
    pub(crate) compress: bool,
}

impl Settings {
    fn of(name: &'static str, config: &Config) -> Result<Self> {
        let limits = Limits { max_messages: config.bundle.max_messages, max_bytes: config.bundle.max_bytes };
        Ok(Self {
            name,
            ladder: Ladder::new(&config.ladder.levels).with_context(|| format!("{name} is no ladder"))?,
            limits,
            open: Budget::of(config).open,
            compress: false,
        })
    }

    fn changed(name: &'static str, change: impl FnOnce(&mut Config)) -> Result<Self> {
        let mut config = Config::default();
        change(&mut config);
        Self::of(name, &config)
    }

    /// The defaults.
    pub(crate) fn defaults() -> Result<Self> {
        Self::of(DEFAULTS, &Config::default())
    }

    /// The defaults with compression.
    pub(crate) fn compressed() -> Result<Self> {
        Ok(Self { name: COMPRESSED, compress: true, ..Self::defaults()? })
    }
}

/// Other ladders, the default one first.
pub(crate) fn ladders() -> Result<Vec<Settings>> {
    let ladder = |name, ttls| Settings::changed(name, |config| config.ladder.levels = ttls);
    let from = |millis, factor| by_factor(Duration::from_millis(millis), factor);
    let half_an_hour = [level_for_usual_delay(Duration::from_secs(1_800))];
    [
        Settings::defaults(),
        ladder("×2 from 125 ms", from(125, 2.0)),
        ladder("×2 from 250 ms", from(250, 2.0)),
        ladder("×2 from 2 s", from(2_000, 2.0)),
        ladder("×2 from 4 s", from(4_000, 2.0)),
        ladder("×√2 from 1 s", from(1_000, SQRT_2)),
        ladder("×4 from 1 s", from(1_000, 4.0)),
        ladder("`rocketmq`", rocketmq_levels()),
        ladder("default, `extra: [30m]`", [&default_levels()[..], &half_an_hour].concat()),
    ]
    .into_iter()
    .collect()
}

/// Levels as long as those of the default ladder.
fn by_factor(shortest: Duration, factor: f64) -> Vec<Duration> {
    let longest = default_levels().into_iter().max().unwrap_or_default();
    let ttls = (0..).map(|step| shortest.mul_f64(factor.powi(step)).as_secs_f64() * 1_000.0);
    ttls.map(|millis| Duration::from_millis(millis.round() as u64))
        .take_while(|ttl| *ttl <= longest)
        .collect()
}

/// The default ladder with other settings.
pub(crate) fn others() -> Result<Vec<Settings>> {
    const SECOND: Duration = Duration::from_secs(1);
    let lingers = |name, part: u32, most: Duration| {
        let defaults = Settings::defaults()?;
        let linger = |ttl: Duration| (ttl / part).clamp(Duration::from_millis(2).min(most), most);
        Ok(Settings { name, ladder: defaults.ladder.with_room(linger, lead), ..defaults })
    };
    let leads = |name, lead: Duration| {
        let defaults = Settings::defaults()?;
        Ok(Settings { name, ladder: defaults.ladder.with_room(linger, |_| lead), ..defaults })
    };
    let bundle = |config: &mut Config, messages, bytes| {
        config.bundle.max_messages = messages;
        config.bundle.max_bytes = bytes;
    };
    let wide = |config: &mut Config| config.intake.prefetch = 4_000;
    [
        lingers("no linger", 8, Duration::ZERO),
        lingers("linger TTL ÷ 32", 32, SECOND),
        lingers("linger TTL ÷ 16", 16, SECOND),
        lingers("linger TTL ÷ 4", 4, SECOND),
        lingers("linger at most 250 ms", 8, SECOND / 4),
        lingers("linger at most 4 s", 8, SECOND * 4),
        leads("no lead", Duration::ZERO),
        leads("lead 500 ms", SECOND / 2),
        Settings::changed("bundles of 125, 64 KiB", |config| bundle(config, 125, 64 << 10)),
        Settings::changed("`intake.prefetch` 250", |config| config.intake.prefetch = 250),
        Settings::changed("bundles of 2,000, 1 MiB", |config| bundle(config, 2_000, 1 << 20)),
        Settings::changed("`intake.prefetch` 4,000", wide),
        Settings::changed("both of these", |config| {
            wide(config);
            bundle(config, 2_000, 1 << 20);
        }),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_ladder_is_one_of_its_kind() {
        assert_eq!(by_factor(Duration::from_secs(1), 2.0), default_levels());
        let levels = |name: &str| {
            ladders().unwrap().iter().find(|settings| settings.name == name).unwrap().ladder.levels().len()
        };
        assert_eq!([DEFAULTS, "×2 from 125 ms", "×√2 from 1 s", "×4 from 1 s"].map(levels), [22, 25, 43, 11]);
    }

    #[test]
    fn every_setting_differs_from_the_defaults_and_has_a_name_of_its_own() {
        let defaults = Settings::defaults().unwrap();
        let same = |one: &Settings| {
            one.ladder == defaults.ladder && one.limits == defaults.limits && one.open == defaults.open
        };
        let all = [ladders().unwrap()[1..].to_vec(), others().unwrap()].concat();
        assert!(!all.iter().any(same));
        let names: std::collections::HashSet<_> = all.iter().map(|settings| settings.name).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn lingers_keep_to_their_part_and_their_most() {
        let others = others().unwrap();
        let linger = |name: &str, level: usize| {
            others.iter().find(|settings| settings.name == name).unwrap().ladder.levels()[level].linger
        };
        assert_eq!(linger("no linger", 21), Duration::ZERO);
        assert_eq!(linger("linger TTL ÷ 16", 0), Duration::from_micros(62_500));
        assert_eq!(linger("linger at most 250 ms", 21), Duration::from_millis(250));
    }
}
