//! The ladder: the ordered set of levels, each a queue with one fixed TTL. Decides which levels there are and what
//! each needs; which of them a message takes is the business of [`plan`](super::plan).

use std::time::Duration;

use super::duration::compact;

/// The shortest TTL of a level: below it a hop costs more time than it waits.
pub const MIN_TTL: Duration = Duration::from_millis(10);
/// The longest TTL of a level, 10 years: RabbitMQ refuses a longer one.
pub const MAX_TTL: Duration = Duration::from_millis(315_360_000_000);
/// The shortest level may be no longer than this, since all that is shorter waits in memory.
pub const MAX_SMALLEST_TTL: Duration = Duration::from_secs(60);
/// The most levels of one ladder: each is a queue, and on a cluster a Raft group.
pub const MAX_LEVELS: usize = 64;
/// What a hop takes besides its TTL and its linger, at least: to publish, to expire, to dead-letter and to read. Longer
/// levels leave more, up to [`MAX_LEAD`]: on a busy broker it takes longer, and the rest is waited in memory.
pub const MIN_LEAD: Duration = Duration::from_millis(30);
/// See [`MIN_LEAD`].
pub const MAX_LEAD: Duration = Duration::from_millis(100);

/// What a message has already spent by the time it is planned, at most, if it is to use the level made for its delay.
const USUAL_DELAY_MARGIN: Duration = Duration::from_millis(100);

/// Why a list of TTLs is no ladder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// No level at all.
    #[error("a ladder needs at least one level")]
    Empty,
    /// More levels than [`MAX_LEVELS`].
    #[error("a ladder of {count} levels is too long: {MAX_LEVELS} levels are the most")]
    TooMany {
        /// How many different levels were named.
        count: usize,
    },
    /// A TTL under [`MIN_TTL`].
    #[error("a level of {} is too short: {} is the least", compact(*ttl), compact(MIN_TTL))]
    TooShort {
        /// The TTL.
        ttl: Duration,
    },
    /// A TTL over [`MAX_TTL`].
    #[error("a level of {} is too long: RabbitMQ allows {} at most", compact(*ttl), compact(MAX_TTL))]
    TooLong {
        /// The TTL.
        ttl: Duration,
    },
    /// A TTL that RabbitMQ cannot express.
    #[error("a level of {} cannot be: RabbitMQ counts whole milliseconds", compact(*ttl))]
    FractionOfMillisecond {
        /// The TTL.
        ttl: Duration,
    },
    /// No level of at most [`MAX_SMALLEST_TTL`].
    #[error(
        "the shortest level of {} is too long, since all shorter waits are held in memory: add one of {} or less",
        compact(*ttl),
        compact(MAX_SMALLEST_TTL)
    )]
    SmallestTooLong {
        /// The shortest TTL.
        ttl: Duration,
    },
}

/// One level of a checked [`Ladder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// How long a bundle stays in the level's queue; whole milliseconds.
    pub ttl: Duration,
    /// How long a bundle may wait for more messages before it is published.
    pub linger: Duration,
    /// What is left for the rest of a hop: see [`MIN_LEAD`].
    pub lead: Duration,
    /// The TTL as the level's queue is named by it.
    pub label: String,
}

impl Level {
    fn new(ttl: Duration) -> Self {
        Self { ttl, linger: linger(ttl), lead: lead(ttl), label: compact(ttl) }
    }

    /// The longest that a hop through this level takes while nothing is slow: TTL, whole linger and lead.
    #[must_use]
    pub fn room(&self) -> Duration {
        self.ttl.saturating_add(self.linger).saturating_add(self.lead)
    }
}

/// Levels in ascending order of TTL, each TTL once; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    levels: Vec<Level>,
}

impl Ladder {
    /// The ladder of these TTLs; neither their order nor repetition matters.
    ///
    /// # Errors
    /// Where a TTL is not one by [`check_ttl`], or there is none, or too many, or no short one.
    pub fn new(ttls: &[Duration]) -> Result<Self, LadderError> {
        let mut ttls = ttls.to_vec();
        ttls.sort_unstable();
        ttls.dedup();
        ttls.iter().try_for_each(|ttl| check_ttl(*ttl))?;
        match ttls.first() {
            None => Err(LadderError::Empty),
            Some(smallest) if *smallest > MAX_SMALLEST_TTL => {
                Err(LadderError::SmallestTooLong { ttl: *smallest })
            }
            Some(_) if ttls.len() > MAX_LEVELS => Err(LadderError::TooMany { count: ttls.len() }),
            Some(_) => Ok(Self { levels: ttls.into_iter().map(Level::new).collect() }),
        }
    }

    /// The same levels with another linger and lead for each TTL, to compare with the usual ones. Neither may fall as the
    /// TTL rises: a longer level must not fit into less room than a shorter one.
    #[must_use]
    pub fn with_room(
        mut self,
        linger: impl Fn(Duration) -> Duration,
        lead: impl Fn(Duration) -> Duration,
    ) -> Self {
        for level in &mut self.levels {
            level.linger = linger(level.ttl);
            level.lead = lead(level.ttl);
        }
        self
    }

    /// The levels, shortest first.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }
}

/// Whether a level can have this TTL.
///
/// # Errors
/// Where it is under [`MIN_TTL`], over [`MAX_TTL`] or not in whole milliseconds.
pub fn check_ttl(ttl: Duration) -> Result<(), LadderError> {
    if ttl < MIN_TTL {
        Err(LadderError::TooShort { ttl })
    } else if ttl > MAX_TTL {
        Err(LadderError::TooLong { ttl })
    } else if !ttl.subsec_nanos().is_multiple_of(1_000_000) {
        Err(LadderError::FractionOfMillisecond { ttl })
    } else {
        Ok(())
    }
}

/// The preset `default`: 22 levels, doubling from a second to 24 days. What is shorter waits in memory: levels of
/// fractions of a second would cost more bundles than all others together.
#[must_use]
pub fn default_levels() -> Vec<Duration> {
    (0..22).map(|doublings| Duration::from_secs(1 << doublings)).collect()
}

/// The preset `rocketmq`: the 18 delay levels of RocketMQ.
#[must_use]
pub fn rocketmq_levels() -> Vec<Duration> {
    const SECONDS: [u64; 18] =
        [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200];
    SECONDS.into_iter().map(Duration::from_secs).collect()
}

/// The TTL of a level made for messages with exactly this delay: less what they have spent and will spend on the way,
/// in round numbers. For a delay of less than about 150 ms the result is too short to be a level.
#[must_use]
pub fn level_for_usual_delay(delay: Duration) -> Duration {
    // The linger of the whole delay is no less than that of the shorter TTL.
    let ttl = delay.saturating_sub(linger(delay) + lead(delay) + USUAL_DELAY_MARGIN);
    if ttl >= Duration::from_secs(10) {
        Duration::from_secs(ttl.as_secs())
    } else {
        Duration::new(ttl.as_secs(), ttl.subsec_millis() / 10 * 10_000_000)
    }
}

/// The usual lead of a level: see [`MIN_LEAD`].
#[must_use]
pub fn lead(ttl: Duration) -> Duration {
    (ttl / 8).clamp(MIN_LEAD, MAX_LEAD)
}

/// The usual linger of a level, which can afford to wait for company in proportion to its TTL. Fuller bundles cost the
/// broker less, most of all at some hundred messages a second; beyond an eighth, nothing more is saved.
#[must_use]
pub fn linger(ttl: Duration) -> Duration {
    (ttl / 8).clamp(Duration::from_millis(2), Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_default_doubles_from_a_second_to_24_days() {
        let ladder = Ladder::new(&default_levels()).unwrap();
        let labels: Vec<_> = ladder.levels().iter().map(|level| level.label.as_str()).collect();
        assert_eq!(labels.len(), 22);
        assert_eq!(&labels[..5], ["1s", "2s", "4s", "8s", "16s"]);
        assert_eq!(labels[21], "24d6h32m32s");
        assert!(ladder.levels().windows(2).all(|pair| pair[1].ttl == pair[0].ttl * 2));
    }

    #[test]
    fn rocketmq_has_its_eighteen_levels() {
        let ladder = Ladder::new(&rocketmq_levels()).unwrap();
        let labels: Vec<_> = ladder.levels().iter().map(|level| level.label.as_str()).collect();
        let expected = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";
        assert_eq!(labels.join(" "), expected);
    }

    #[test]
    fn linger_is_an_eighth_within_limits() {
        let lingers = |ttl| Ladder::new(&[ms(10), ttl]).unwrap().levels()[1].linger;
        assert_eq!(lingers(ms(15)), ms(2));
        assert_eq!(lingers(ms(1_600)), ms(200));
        assert_eq!(lingers(ms(8_000)), ms(1_000));
        assert_eq!(lingers(MAX_TTL), ms(1_000));
    }

    #[test]
    fn other_lingers_and_leads_take_other_room() {
        let usual = Ladder::new(&[ms(1_000), ms(64_000)]).unwrap();
        assert_eq!(usual.clone().with_room(linger, lead), usual);
        let none = usual.with_room(|_| Duration::ZERO, |ttl| ttl / 10);
        let rooms: Vec<_> = none.levels().iter().map(Level::room).collect();
        assert_eq!(rooms, [ms(1_100), ms(70_400)]);
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        let ladder = Ladder::new(&[ms(2_000), ms(1_000), ms(2_000)]);
        assert_eq!(ladder, Ladder::new(&[ms(1_000), ms(2_000)]));
    }

    #[test]
    fn limits_belong_to_what_is_allowed() {
        assert!(Ladder::new(&[MIN_TTL, MAX_TTL]).is_ok());
        assert!(Ladder::new(&[MAX_SMALLEST_TTL]).is_ok());
        let most: Vec<_> = (1..=64).map(|n| ms(n * 10)).collect();
        assert!(Ladder::new(&most).is_ok());
    }

    #[test]
    fn what_is_no_ladder_is_refused_with_its_reason() {
        let too_many: Vec<_> = (1..=65).map(|n| ms(n * 10)).collect();
        let above = |ttl: Duration| ttl + ms(1);
        for (ttls, error) in [
            (vec![], LadderError::Empty),
            (too_many, LadderError::TooMany { count: 65 }),
            (vec![ms(9), ms(1_000)], LadderError::TooShort { ttl: ms(9) }),
            (vec![Duration::ZERO], LadderError::TooShort { ttl: Duration::ZERO }),
            (vec![ms(10), above(MAX_TTL)], LadderError::TooLong { ttl: above(MAX_TTL) }),
            (vec![above(MAX_SMALLEST_TTL)], LadderError::SmallestTooLong { ttl: above(MAX_SMALLEST_TTL) }),
            (
                vec![Duration::from_micros(10_500)],
                LadderError::FractionOfMillisecond { ttl: Duration::from_micros(10_500) },
            ),
        ] {
            assert_eq!(Ladder::new(&ttls), Err(error));
        }
        assert_eq!(
            LadderError::TooShort { ttl: ms(9) }.to_string(),
            "a level of 9ms is too short: 10ms is the least"
        );
    }

    #[test]
    fn usual_delays_get_levels_in_round_numbers() {
        for (delay, ttl) in [
            ("1s", "670ms"),
            ("5s", "4s170ms"),
            ("1m", "58s"),
            ("30m", "29m58s"),
            ("24h", "23h59m58s"),
            ("100ms", "0s"),
        ] {
            let delay = super::super::duration::parse(delay).unwrap();
            assert_eq!(compact(level_for_usual_delay(delay)), ttl);
        }
    }

    proptest! {
        #[test]
        fn a_usual_delay_fits_its_level_after_what_it_has_spent(delay in 200_u64..=315_360_000_000) {
            let delay = ms(delay);
            let ttl = level_for_usual_delay(delay);
            let level = Level::new(ttl);
            prop_assert_eq!(check_ttl(ttl), Ok(()));
            prop_assert!(level.room() <= delay - USUAL_DELAY_MARGIN);
        }

        #[test]
        fn levels_ascend_in_ttl_and_in_room(ttls in prop::collection::vec(10_u64..=315_360_000_000, 1..=63)) {
            let ttls: Vec<_> = ttls.into_iter().chain([10]).map(ms).collect();
            let ladder = Ladder::new(&ttls).unwrap();
            prop_assert!(ladder.levels().windows(2).all(|p| p[0].ttl < p[1].ttl && p[0].room() < p[1].room()));
        }

        #[test]
        fn any_list_is_a_ladder_or_an_error(ttls in prop::collection::vec(any::<Duration>(), 0..5), usual in any::<Duration>()) {
            let _ = Ladder::new(&ttls);
            let _ = level_for_usual_delay(usual);
        }
    }
}
