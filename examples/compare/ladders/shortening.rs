//! How a day is simulated in minutes, and in its steady state.
//!
//! A level only keeps what it is given, so what comes out of it is what went in, a TTL before. While messages are
//! published at a steady rate, what meets in a level is the same in kind whether that was hours before or seconds, as
//! long as what went in together comes out together, and what went in apart meets others than it did there. So a long
//! level keeps its bundles for some seconds, takes its whole TTL off their waits all the same, and no two levels keep
//! them equally long. After minutes all levels are as full as they ever get.
//!
//! Without that, the steady state of delays up to a day comes after a day: 432 million messages at 5,000 a second. And
//! to follow the messages of one minute alone through their day would be to find them in emptier levels, and so in
//! smaller bundles, than they share with those of all other minutes.

use std::time::Duration;

use leveret::domain::ladder::Ladder;
use leveret::domain::plan::{self, Plan};

/// The shortest stay, in lingers: what lingers together must not blur when the next comes. No round number, so that
/// hardly any level has that TTL of its own.
const LINGERS: u32 = 11;

/// By how much each longer level keeps bundles longer. Stays that grow by steps would have sums that are equal, and
/// what has parted would meet again.
const GROWTH: f64 = 1.13;

/// A stay in a level.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Stay {
    /// How long it is in the simulation.
    pub(crate) lasts: Duration,
    /// By how much its TTL is longer; whole milliseconds.
    pub(crate) skipped: Duration,
}

/// The stays in each level, the long ones shortened.
pub(crate) fn shortened(ladder: &Ladder) -> Vec<Stay> {
    let longest_linger = ladder.levels().iter().map(|level| level.linger).max().unwrap_or_default();
    let mut lasts = longest_linger.max(Duration::from_secs(1)) * LINGERS;
    let stay = |ttl: Duration| {
        if ttl <= lasts {
            return Stay { lasts: ttl, skipped: Duration::ZERO };
        }
        let stay = Stay { lasts, skipped: ttl - lasts };
        lasts = Duration::from_millis((lasts.as_secs_f64() * GROWTH * 1_000.0).round() as u64);
        stay
    };
    ladder.levels().iter().map(|level| level.ttl).map(stay).collect()
}

/// How long a message with this delay is on its way in the simulation, where each hop takes all of its room.
pub(crate) fn way(ladder: &Ladder, stays: &[Stay], delay: Duration) -> Duration {
    let (mut left, mut skipped) = (delay, Duration::ZERO);
    while let Plan::Level(index) = plan::plan(ladder, left) {
        let (Some(level), Some(stay)) = (ladder.levels().get(index), stays.get(index)) else { break };
        left = left.saturating_sub(level.room());
        skipped += stay.skipped;
    }
    delay.saturating_sub(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladders::counts::Counts;
    use crate::ladders::settings::{Settings, ladders, others};
    use crate::ladders::simulation;
    use crate::ladders::workload::Workload;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn stays_are_whole_milliseconds_of_different_length_and_never_longer_than_the_ttl() {
        for settings in [ladders().unwrap(), others().unwrap()].concat() {
            let stays = shortened(&settings.ladder);
            for (stay, level) in stays.iter().zip(settings.ladder.levels()) {
                assert_eq!(stay.lasts + stay.skipped, level.ttl);
                assert_eq!(stay.skipped.subsec_nanos() % 1_000_000, 0);
            }
            let linger = settings.ladder.levels().last().unwrap().linger;
            let apart = |pair: &[Stay]| pair[1].lasts >= pair[0].lasts + linger || pair[1].skipped.is_zero();
            assert!(stays.windows(2).all(apart), "{}: {stays:?}", settings.name);
        }
    }

    #[test]
    fn a_way_is_the_delay_less_what_is_skipped_on_it() {
        let ladder = Ladder::new(&[secs(1), secs(100), secs(1_000)]).unwrap();
        let stays = shortened(&ladder);
        assert_eq!(
            stays.iter().map(|stay| stay.lasts.as_millis()).collect::<Vec<_>>(),
            [1_000, 11_000, 12_430]
        );
        assert_eq!(way(&ladder, &stays, secs(50)), secs(50));
        assert_eq!(way(&ladder, &stays, secs(105)), secs(105 - 89));
        assert_eq!(
            way(&ladder, &stays, secs(1_105)),
            secs(1_105 - 89 - 1_000) + Duration::from_millis(12_430)
        );
    }

    /// The reason to believe what days come to.
    #[test]
    fn what_is_shortened_comes_to_what_takes_its_whole_time() {
        let settings = Settings::defaults().unwrap();
        let workload = Workload::log(secs(1), secs(600)).unwrap();
        let run = |stays: &[Stay], from: u64| {
            let window = secs(from)..secs(from + 1_000);
            simulation::run(&settings, stays, workload.publications(20), window)
        };
        let whole: Vec<_> = settings.ladder.levels().iter().map(|level| level.ttl).collect();
        let whole: Vec<_> = whole.into_iter().map(|lasts| Stay { lasts, skipped: Duration::ZERO }).collect();
        let (whole, short) = (run(&whole, 610), run(&shortened(&settings.ladder), 150));
        let figures: [fn(&Counts) -> f64; 4] =
            [Counts::bundles_a_message, Counts::messages_a_bundle, Counts::hops_a_message, |counts| {
                counts.written(0).all()
            }];
        for figure in figures {
            let ratio = figure(&short) / figure(&whole);
            assert!((0.97..1.03).contains(&ratio), "{ratio}: {short:?}, {whole:?}");
        }
    }
}
