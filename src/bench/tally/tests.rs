//! What the figures of a measurement mean.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;

/// All confirmed, each delivered at its moment: `(sequence, due, now)` in microseconds.
fn tally(messages: usize, deliveries: &[(u64, u64, u64)]) -> Tally {
    let mut tally = Tally::new(messages);
    for sequence in 0..messages as u64 {
        tally.published();
        tally.confirmed(sequence);
    }
    for (sequence, due_us, now_us) in deliveries.iter().copied() {
        tally.delivered(sequence, due_us, now_us);
    }
    tally
}

#[test]
fn lost_is_what_was_confirmed_and_did_not_come() {
    let mut tally = Tally::new(4);
    tally.published();
    tally.published();
    tally.published();
    // Confirmed and delivered, in either order; only confirmed; only delivered; only published.
    tally.confirmed(0);
    tally.delivered(0, 5, 5);
    tally.confirmed(1);
    tally.delivered(2, 5, 5);
    assert_eq!((tally.count_published(), tally.count_confirmed()), (3, 2));
    assert_eq!((tally.count_delivered(), tally.count_lost()), (2, 1));
    tally.delivered(1, 5, 5);
    assert_eq!(tally.count_lost(), 0);
    tally.confirmed(1);
    assert_eq!(tally.count_confirmed(), 2, "confirmed twice is confirmed once");
}

#[test]
fn a_second_delivery_is_a_duplicate_and_tells_nothing_about_lateness() {
    let tally = tally(2, &[(0, 0, 1_000), (0, 0, 900_000), (1, 0, 3_000), (0, 0, 900_000)]);
    assert_eq!((tally.count_delivered(), tally.count_duplicates()), (2, 2));
    assert_eq!(tally.lateness().unwrap().max, 3.0);
}

#[test]
fn early_is_before_due_and_not_at_it() {
    let tally = tally(3, &[(0, 1_000, 999), (1, 1_000, 1_000), (2, 1_000, 1_001), (2, 1_000, 5)]);
    assert_eq!(tally.count_early(), 2, "a duplicate can be early too");
    assert_eq!(tally.lateness().unwrap().max, 0.001);
}

#[test]
fn what_somebody_else_sent_counts_nowhere_else() {
    let mut tally = tally(1, &[(0, 0, 1_000), (1, 0, 9_000_000), (u64::MAX, 9, 0)]);
    tally.confirmed(1);
    assert_eq!((tally.count_foreign(), tally.count_delivered(), tally.count_confirmed()), (3, 1, 1));
    assert_eq!((tally.count_early(), tally.count_duplicates(), tally.count_lost()), (0, 0, 0));
    assert_eq!(tally.lateness().unwrap().max, 1.0);
}

#[test]
fn percentiles_are_of_the_nearest_rank() {
    let deliveries: Vec<_> = (0..1_000).map(|n| (n, 0, (n + 1) * 1_000)).collect();
    let expected = Lateness { mean: 500.5, p50: 500.0, p90: 900.0, p99: 990.0, p99_9: 999.0, max: 1_000.0 };
    assert_eq!(tally(1_000, &deliveries).lateness(), Some(expected));
    let one = Lateness { mean: 7.0, p50: 7.0, p90: 7.0, p99: 7.0, p99_9: 7.0, max: 7.0 };
    assert_eq!(tally(1, &[(0, 0, 7_000)]).lateness(), Some(one));
}

#[test]
fn nothing_that_came_has_no_lateness() {
    let tally = tally(5, &[]);
    assert_eq!((tally.lateness(), tally.drained_ms(), tally.delivery_rate()), (None, None, 0.0));
    assert_eq!((tally.timeline(), tally.distribution(), tally.count_lost()), (vec![], vec![], 5));
}

#[test]
fn seconds_count_from_the_first_delivery_and_empty_ones_are_left_out() {
    let start = 77 * SECOND;
    let tally = tally(
        4,
        &[
            (0, start, start + 1_000),
            (1, start, start + 3_000),
            (2, start + 3 * SECOND, start + 3 * SECOND + 5_000),
            // The clock steps back: this did not come before the others.
            (3, start, start + 2_000),
        ],
    );
    let late =
        |second, delivered, p50_ms, max_ms| Second { second, delivered, p50_ms, p99_ms: max_ms, max_ms };
    assert_eq!(tally.timeline(), [late(0, 2, 1.0, 3.0), late(3, 2, 2.0, 5.0)]);
}

#[test]
fn rates_and_draining_are_between_moments() {
    let tally = tally(3, &[(0, SECOND, SECOND), (1, SECOND, 2 * SECOND), (2, 2 * SECOND, 5 * SECOND)]);
    assert_eq!(tally.delivery_rate(), 0.5, "two in the four seconds after the first");
    assert_eq!(tally.drained_ms(), Some(3_000.0));
}

#[test]
fn buckets_are_the_same_in_every_measurement() {
    let distribution = tally(3, &[(0, 0, 0), (1, 0, 100), (2, 0, 1_000)]).distribution();
    let counts: Vec<_> = distribution.iter().map(|bucket| bucket.count).collect();
    assert_eq!(counts, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(distribution[0].up_to_ms, 0.1);
    assert!((distribution[10].up_to_ms - 1.0).abs() < 1e-9);
}

proptest! {
    /// Whatever comes in whatever order, every delivery is counted once, and the views of lateness agree.
    #[test]
    fn all_is_counted(
        messages in 0..50usize,
        confirms in proptest::collection::vec(0..60u64, 0..60),
        deliveries in proptest::collection::vec((0..60u64, any::<u32>(), any::<u32>()), 0..100),
    ) {
        let mut tally = Tally::new(messages);
        for sequence in &confirms {
            tally.confirmed(*sequence);
        }
        for (sequence, due_us, now_us) in &deliveries {
            tally.delivered(*sequence, u64::from(*due_us), u64::from(*now_us));
        }
        let known = |sequence: &u64| (*sequence as usize) < messages;
        let came: std::collections::BTreeSet<_> = deliveries.iter().map(|d| d.0).filter(known).collect();
        let lost = confirms.iter().filter(|&c| known(c) && !came.contains(c));
        prop_assert_eq!(tally.count_lost(), lost.collect::<std::collections::BTreeSet<_>>().len() as u64);
        prop_assert_eq!(tally.count_delivered(), came.len() as u64);

        let foreign_confirms = confirms.iter().filter(|&c| !known(c)).count() as u64;
        let counted = tally.count_delivered() + tally.count_duplicates() + tally.count_foreign();
        prop_assert_eq!(counted, deliveries.len() as u64 + foreign_confirms);

        let (timeline, distribution) = (tally.timeline(), tally.distribution());
        prop_assert_eq!(timeline.iter().map(|second| second.delivered).sum::<u64>(), tally.count_delivered());
        prop_assert!(timeline.is_sorted_by(|one, next| one.second < next.second));
        prop_assert_eq!(distribution.iter().map(|bucket| bucket.count).sum::<u64>(), tally.count_delivered());
        if let Some(lateness) = tally.lateness() {
            let Lateness { mean, p50, p90, p99, p99_9, max } = lateness;
            prop_assert!([0.0, p50, p90, p99, p99_9, max].is_sorted() && mean <= max);
            prop_assert_eq!(timeline.iter().map(|second| second.max_ms).fold(0.0, f64::max), max);
            let limits: Vec<_> = distribution.iter().rev().map(|bucket| bucket.up_to_ms).take(2).collect();
            prop_assert!(max <= limits[0] && limits.get(1).is_none_or(|below| *below < max));
        }
    }
}
