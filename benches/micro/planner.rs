//! Where a message goes next.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use leveret::domain::plan;

use crate::sample;

const COUNT: usize = 1_000;

#[divan::bench]
fn plan_millisecond_to_year(bencher: Bencher) {
    let (ladder, delays) = (sample::ladder(), sample::delays(COUNT));
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for delay in &delays {
            black_box(plan::plan(&ladder, black_box(*delay)));
        }
    });
}
