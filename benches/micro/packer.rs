//! Gathering messages into bundles.

use std::time::Instant;

use divan::Bencher;
use divan::counter::ItemsCount;
use leveret::domain::packer::{Destination, Limits, Packer, Stay};
use leveret::domain::plan::{self, Plan};

use crate::sample;

/// Messages with delays of every length over the default ladder; then everything is closed.
#[divan::bench(args = [1, 100, 10_000])]
fn add_and_close(bencher: Bencher, count: usize) {
    let ladder = sample::ladder();
    let message = sample::message(256, 1);
    let delays = sample::delays(count);
    let now = Instant::now();
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| {
            let stays = ladder.levels().iter().map(Stay::in_level);
            let limits = Limits { max_messages: 500, max_bytes: 256 << 10 };
            let messages: Vec<_> = delays.iter().map(|delay| (message.clone(), *delay)).collect();
            (Packer::new(limits, Stay::DUE, stays.collect()), messages)
        })
        .bench_local_values(|(mut packer, messages)| {
            let mut closed = Vec::new();
            for (number, (message, left)) in messages.into_iter().enumerate() {
                let destination = match plan::plan(&ladder, left) {
                    Plan::Level(level) => Destination::Level(level),
                    Plan::Deliver | Plan::Hold => Destination::Due,
                };
                packer.add(destination, message, left, number, now, &mut closed);
            }
            packer.close_all(now, &mut closed);
            closed
        });
}
