//! Properties to wire encoding and back.

use divan::Bencher;
use divan::counter::ItemsCount;
use lapin::BasicProperties;
use leveret::amqp::properties;

use crate::sample;

fn props(kind: &str) -> BasicProperties {
    if kind == "empty" { BasicProperties::default() } else { sample::props() }
}

#[divan::bench(args = ["empty", "usual"])]
fn encode(bencher: Bencher, kind: &str) {
    let props = props(kind);
    bencher.counter(ItemsCount::new(1_usize)).bench(|| properties::encode(&props));
}

#[divan::bench(args = ["empty", "usual"])]
fn decode(bencher: Bencher, kind: &str) {
    let encoded = properties::encode(&props(kind));
    bencher.counter(ItemsCount::new(1_usize)).bench(|| properties::decode(&encoded).unwrap());
}
