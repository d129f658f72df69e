use proptest::prelude::*;

use super::*;
use crate::domain::duration::parse;
use crate::domain::ladder::{self, MIN_LEAD};

const START: UnixMillis = UnixMillis(1_767_225_600_000);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn default_ladder() -> Ladder {
    Ladder::new(&ladder::default_levels()).unwrap()
}

#[test]
fn nothing_left_is_delivered_and_the_rest_below_the_ladder_is_held() {
    let ladder = default_ladder();
    let smallest = ladder.levels()[0].room();
    assert_eq!(plan(&ladder, Duration::ZERO), Plan::Deliver);
    assert_eq!(plan(&ladder, Duration::from_nanos(1)), Plan::Hold);
    assert_eq!(plan(&ladder, smallest - Duration::from_nanos(1)), Plan::Hold);
    assert_eq!(plan(&ladder, smallest), Plan::Level(0));
}

#[test]
fn a_level_needs_room_for_its_linger_and_the_way() {
    let ladder = Ladder::new(&[ms(1_000), ms(6_400)]).unwrap();
    assert_eq!(plan(&ladder, ms(6_400 + 800 + 100)), Plan::Level(1));
    assert_eq!(plan(&ladder, ms(6_400 + 800 + 99)), Plan::Level(0));
}

#[test]
fn what_is_longer_than_the_ladder_repeats_its_top() {
    assert_eq!(plan(&default_ladder(), Duration::MAX), Plan::Level(21));
}

#[test]
fn the_smaller_of_clock_and_service_counts() {
    let due = UnixMillis(START.0 + 500);
    assert_eq!(remaining(due, START, None), ms(500));
    assert_eq!(remaining(due, START, Some(ms(300))), ms(300));
    assert_eq!(remaining(due, START, Some(ms(700))), ms(500));
    assert_eq!(remaining(START, due, Some(ms(700))), Duration::ZERO);
}

#[test]
fn service_is_credited_with_caution() {
    assert_eq!(left_after_hop(ms(2_000), ms(1_024)), ms(2_000 - 1_024 + 1 + 2));
    assert_eq!(left_after_hop(ms(100), ms(1_024)), Duration::ZERO);
    assert_eq!(left_after_hop(ms(100), ms(1)), ms(100));
}

#[test]
fn the_hops_of_usual_delays() {
    let ladder = default_ladder();
    let hops = |delay| hop_count(&ladder, parse(delay).unwrap());
    assert_eq!(["0s", "100ms", "1s", "1m", "1h", "24h", "3650d"].map(hops), [0, 0, 0, 3, 6, 10, 156]);
    let ladder = Ladder::new(&[ms(10)]).unwrap();
    assert_eq!(hop_count(&ladder, ms(42 * 1_000)), 1_000);
}

/// What happens to a message in one hop, each as a part of 1,000 of what is allowed.
#[derive(Debug, Clone, Copy)]
struct Fate {
    linger_used: u32,
    transit: u32,
    early_expiry: u32,
    clock_steps_back_ms: u64,
}

fn any_fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = (0..=1_000_u32, 0..=1_000_u32, 0..=1_000_u32, 0..100_000_u64).prop_map(
        |(linger_used, transit, early_expiry, clock_steps_back_ms)| Fate {
            linger_used,
            transit,
            early_expiry,
            clock_steps_back_ms,
        },
    );
    prop::collection::vec(fate, 1..20)
}

/// A ladder without absurd gaps, and a delay that repeats its top level fifty times at most.
fn any_ladder_and_delay() -> impl Strategy<Value = (Ladder, Duration)> {
    let any_gap_in_percent = prop_oneof![101..300_u64, 101..2_000_u64];
    (10..=60_000_u64, prop::collection::vec(any_gap_in_percent, 0..12)).prop_flat_map(|(smallest, gaps)| {
        let longest = ladder::MAX_TTL.as_millis() as u64;
        let ttls = gaps.iter().scan(smallest, |ttl, percent| {
            *ttl = (*ttl * percent / 100).min(longest);
            Some(*ttl)
        });
        let ttls: Vec<_> = [smallest].into_iter().chain(ttls).map(ms).collect();
        let ladder = Ladder::new(&ttls).unwrap();
        let top = ladder.levels().last().unwrap().ttl.as_millis() as u64;
        (Just(ladder), prop_oneof![0..=top, 0..=top * 50].prop_map(ms))
    })
}

/// What broker and sidecar do with a message in the course of one simulation.
#[derive(Clone, Copy)]
struct World {
    /// The most that a hop takes besides TTL and linger.
    slowest_transit: Duration,
    /// Whether the broker's clock may run as fast as a sound clock can.
    broker_fast: bool,
    /// Whether Leveret's clock steps back.
    clock_steps: bool,
}

/// One message from intake to delivery. All durations are of real time.
struct Journey {
    waited: Duration,
    clock_at_delivery: Duration,
    hops: usize,
    overhead: Duration,
    slack: Duration,
}

fn part(of: Duration, thousandths: u32) -> Duration {
    of * thousandths / 1_000
}

/// How much too early a level may end by a broker whose clock is sound but runs fast: 0.05 % and its rounding.
fn fastest(ttl: Duration) -> Duration {
    ttl / 2_000 + ms(2)
}

/// The most by which one hop may lengthen the wait while the clock steps back.
fn slack(ttl: Duration) -> Duration {
    ttl / 1_000 + ms(2)
}

/// Runs a message through the ladder. Time is in nanoseconds; the clock shows milliseconds, as the real one does.
fn travel(ladder: &Ladder, delay: Duration, fates: &[Fate], world: World) -> Result<Journey, TestCaseError> {
    let due = START.saturating_add(delay);
    let mut journey = Journey {
        waited: Duration::ZERO,
        clock_at_delivery: Duration::ZERO,
        hops: 0,
        overhead: Duration::ZERO,
        slack: Duration::ZERO,
    };
    let mut stepped_back = Duration::ZERO;
    let mut left = None;
    let mut fates = fates.iter().cycle();
    let most_hops = most_hops(ladder, delay);
    loop {
        let clock = ms(START.0) + journey.waited - stepped_back;
        let now = UnixMillis(clock.as_millis().try_into().unwrap());
        let rest = remaining(due, now, left);
        match plan(ladder, rest) {
            Plan::Deliver => {
                journey.clock_at_delivery = clock;
                return Ok(journey);
            }
            Plan::Hold => {
                prop_assert!(rest < ladder.levels()[0].room());
                journey.waited += rest;
                left = Some(Duration::ZERO);
            }
            Plan::Level(index) => {
                let level = &ladder.levels()[index];
                prop_assert!(level.ttl + level.linger + MIN_LEAD <= rest);
                prop_assert!(ladder.levels().get(index + 1).is_none_or(|next| next.room() > rest));
                let fate = fates.next().unwrap();
                let early = if world.broker_fast {
                    part(fastest(level.ttl), fate.early_expiry)
                } else {
                    Duration::ZERO
                };
                let stayed = level.ttl - early;
                let overhead =
                    part(level.linger, fate.linger_used) + part(world.slowest_transit, fate.transit);
                journey.waited += stayed + overhead;
                journey.overhead += overhead;
                journey.slack += slack(level.ttl);
                journey.hops += 1;
                prop_assert!(journey.hops <= most_hops, "more than {} hops", most_hops);
                if world.clock_steps {
                    stepped_back += ms(fate.clock_steps_back_ms);
                }
                left = Some(left_after_hop(rest, level.ttl));
            }
        }
    }
}

/// A level is taken only while less than the next level's room is left, and each hop is worth at least its TTL less the
/// slack.
fn most_hops(ladder: &Ladder, delay: Duration) -> usize {
    let rooms = ladder.levels().iter().skip(1).map(|next| next.room()).chain([delay]);
    let hops = ladder.levels().iter().zip(rooms).map(|(level, most)| {
        let worth = level.ttl - slack(level.ttl);
        usize::try_from(most.as_nanos() / worth.as_nanos()).unwrap() + 1
    });
    hops.sum()
}

proptest! {
    #[test]
    fn never_early_and_on_time_while_every_hop_keeps_to_its_room(
        (ladder, delay) in any_ladder_and_delay(),
        fates in any_fates(),
    ) {
        let world = World { slowest_transit: MIN_LEAD, broker_fast: false, clock_steps: false };
        let journey = travel(&ladder, delay, &fates, world)?;
        prop_assert!(journey.waited >= delay);
        prop_assert!(journey.waited < delay + ms(1));
    }

    #[test]
    fn never_early_and_late_by_no_more_than_the_last_hop_was_slow(
        (ladder, delay) in any_ladder_and_delay(),
        fates in any_fates(),
        slow in 0..10_000_u64,
    ) {
        let world = World { slowest_transit: MIN_LEAD + ms(slow), broker_fast: false, clock_steps: false };
        let journey = travel(&ladder, delay, &fates, world)?;
        prop_assert!(journey.waited >= delay);
        prop_assert!(journey.waited < delay + ms(slow) + ms(1));
    }

    #[test]
    fn never_early_though_the_broker_runs_fast((ladder, delay) in any_ladder_and_delay(), fates in any_fates()) {
        let world = World { slowest_transit: MIN_LEAD, broker_fast: true, clock_steps: false };
        let journey = travel(&ladder, delay, &fates, world)?;
        prop_assert!(journey.clock_at_delivery >= ms(START.0) + delay);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_lengthen_the_wait(
        (ladder, delay) in any_ladder_and_delay(),
        fates in any_fates(),
    ) {
        let world = World { slowest_transit: MIN_LEAD, broker_fast: false, clock_steps: true };
        let journey = travel(&ladder, delay, &fates, world)?;
        prop_assert!(journey.waited <= delay + journey.overhead + journey.slack + ms(1));
    }

    #[test]
    fn the_number_of_hops_is_what_the_planner_makes((ladder, delay) in any_ladder_and_delay()) {
        let mut rest = delay;
        let mut hops = 0;
        while let Plan::Level(index) = plan(&ladder, rest) {
            rest -= ladder.levels()[index].room();
            hops += 1;
        }
        prop_assert_eq!(hop_count(&ladder, delay), hops);
    }
}
