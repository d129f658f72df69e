//! Which acknowledgements are due.

use std::time::{Duration, Instant};

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use leveret::domain::settlement::Settlement;

const COUNT: u64 = 10_000;

/// How many are settled before acknowledgements are asked for.
const GATHERED: usize = 100;

#[divan::bench(args = ["in order", "out of order"])]
fn deliver_settle_acknowledge(bencher: Bencher, order: &str) {
    let mut tags: Vec<u64> = (1..=COUNT).collect();
    if order == "out of order" {
        // Neighbours in time are far apart in the queue: 10,000 has no divisor in common with 3,331.
        tags = tags.iter().map(|tag| tag * 3_331 % COUNT + 1).collect();
    }
    let now = Instant::now();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        let mut settlement = Settlement::default();
        (1..=COUNT).for_each(|tag| settlement.delivered(tag, 256));
        for gathered in tags.chunks(GATHERED) {
            gathered.iter().for_each(|tag| settlement.settled(*tag, now));
            black_box(settlement.take_acks(now, Duration::from_millis(50)));
        }
        assert_eq!(settlement.unsettled(), 0);
    });
}
