//! What is done to a message on its way in and out: reading a delivery of an ingress queue, writing an envelope,
//! building a delivery to the target.

use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use lapin::message::Delivery;
use leveret::amqp::topology::Names;
use leveret::config::Config;
use leveret::domain::codec::Codec;
use leveret::domain::due::DueRules;
use leveret::domain::message::Text;
use leveret::domain::packer::{Destination, Packed};
use leveret::engine::dress::{Surroundings, dress};
use leveret::engine::{envelope, intake};

use crate::sample;

#[divan::bench]
fn take_in(bencher: Bencher) {
    let bridge = Text::from("orders");
    let rules = DueRules { default_delay: Duration::ZERO, max_delay: Duration::from_secs(3_650 * 86_400) };
    let (body, props) = (sample::body(256, 1), sample::props());
    bencher
        .counter(ItemsCount::new(1_usize))
        .with_inputs(|| {
            let (exchange, key) = ("orders.delayed".into(), "order.created.eu".into());
            let mut delivery = Delivery::mock(1, exchange, key, false, body.clone());
            delivery.properties = props.clone();
            delivery
        })
        .bench_local_values(|delivery| intake::read(delivery, &bridge, &rules, sample::NOW).unwrap());
}

#[divan::bench(args = [1, 10, 500])]
fn seal(bencher: Bencher, count: usize) {
    let (ladder, names, codec) = (sample::ladder(), Names::new("leveret"), Codec::default());
    let messages = sample::messages(count, 256);
    let packed = Packed { destination: Destination::Level(7), messages, tokens: vec![(); count] };
    bencher
        .counter(ItemsCount::new(count))
        .bench_local(|| envelope::seal(&packed, &ladder, &names, &codec, sample::NOW).unwrap());
}

#[divan::bench]
fn dress_for_target(bencher: Bencher) {
    let config = Config::default();
    let names = Names::new("leveret");
    let around = Surroundings { names, entries: vec!["delay".to_owned()], frame_max: 131_072 };
    let message = sample::message(256, 1);
    bencher
        .counter(ItemsCount::new(1_usize))
        .bench_local(|| dress(&message, &config.bridges[0], &around, |_| true).unwrap());
}
