//! Bundles to bytes and back, for each way of storing them.

use std::fmt;

use divan::Bencher;
use divan::counter::ItemsCount;
use leveret::domain::codec::{Codec, KEY_BYTES, Key};

use crate::sample;

struct Case {
    storing: &'static str,
    size: usize,
    count: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} of {} B", self.storing, self.count, self.size)
    }
}

impl Case {
    fn codec(&self) -> Codec {
        let key = Key::new(&[7; KEY_BYTES]).unwrap();
        match self.storing {
            "plain" => Codec::default(),
            "zstd" => Codec::new(true, vec![]),
            "aes" => Codec::new(false, vec![key]),
            _ => Codec::new(true, vec![key]),
        }
    }
}

fn cases() -> impl Iterator<Item = Case> {
    ["plain", "zstd", "aes", "zstd+aes"].into_iter().flat_map(|storing| {
        [256, 1_024].into_iter().flat_map(move |size| [1, 10, 500].map(|count| Case { storing, size, count }))
    })
}

#[divan::bench(args = cases())]
fn encode(bencher: Bencher, case: &Case) {
    let codec = case.codec();
    let messages = sample::messages(case.count, case.size);
    bencher.counter(ItemsCount::new(case.count)).bench(|| codec.encode(&messages).unwrap());
}

#[divan::bench(args = cases())]
fn decode(bencher: Bencher, case: &Case) {
    let codec = case.codec();
    // As it comes from the client library: a buffer of its own for each delivery.
    let bytes = codec.encode(&sample::messages(case.count, case.size)).unwrap().to_vec();
    bencher
        .counter(ItemsCount::new(case.count))
        .with_inputs(|| bytes.clone())
        .bench_values(|bytes| codec.decode(bytes.into()).unwrap());
}
