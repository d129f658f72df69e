//! Very many of anything: routing keys, names, messages. Nothing grows with their number, and nobody waits for them.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};

use super::{peak_mib, series};
use crate::harness::broker::Broker;
use crate::harness::client::{Client, table};
use crate::harness::leveret::Leveret;
use crate::harness::messages::{publish_numbered, take_numbered, take_parked, text_header, wait_for_metric};
use crate::harness::neighbour::{self, Neighbour};
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: ten_thousand_routing_keys, very_many_exchanges_that_are_missing, a_flood_on_one_bridge_stops_no_other
];

fn config() -> String {
    format!(
        "ladder: [125ms, 500ms, 1s]\nbridges:\n{}  - name: crowd\n    entry: {{ exchange: crowd.delayed }}\n    \
         target: {{ exchange: crowd.target, allow: ['missing.*'] }}\n",
        neighbour::BRIDGE
    )
}

/// A queue for every key that begins with `bound`.
async fn declare_target(client: &Client) {
    client.declare_exchange("crowd.target", ExchangeKind::Topic).await;
    client.declare_queue("crowd", FieldTable::default()).await;
    client.bind("crowd", "crowd.target", "bound.#", FieldTable::default()).await;
}

/// Every key is another, and one of ten as long as a key can be; the last tenth leads nowhere.
fn key(number: u32) -> String {
    let word = if number < BOUND { "bound" } else { "unbound" };
    let key = format!("{word}.{number}");
    if number.is_multiple_of(10) { format!("{key}.{}", "k".repeat(254 - key.len())) } else { key }
}

const KEYS: u32 = 10_000;
const BOUND: u32 = 9_000;

async fn ten_thousand_routing_keys(broker: &Broker) {
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config()).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    let before = series(&leveret);
    let (mut inbox, mut parked) = (client.consume("crowd").await, client.consume("leveret.parked").await);
    let publisher = Client::connect(&vhost.uri()).await;
    for first in (0..KEYS).step_by(1_000) {
        let publishing = (first..first + 1_000).map(async |number| {
            let headers = table([
                ("x-delay", AMQPValue::LongInt(fastrand::i32(0..2_000))),
                ("x-delay-key", AMQPValue::LongString(key(number).into())),
            ]);
            let properties =
                BasicProperties::default().with_headers(headers).with_message_id(key(number).into());
            publisher.publish("crowd.delayed", &key(number), properties, number.to_string().as_bytes()).await;
        });
        join_all(publishing).await;
    }
    take_numbered(&mut inbox, 0..BOUND).await;
    for one in take_parked(&mut parked, "unroutable", BOUND..KEYS).await {
        let number = std::str::from_utf8(&one.delivery.data).unwrap().parse().unwrap();
        assert_eq!(text_header(&one.delivery, "x-leveret-routing-key"), Some(key(number).as_str()));
    }
    neighbour.finish("10,000 keys").await;
    let labels = [("bridge", "crowd"), ("reason", "unroutable")];
    wait_for_metric(&leveret, "leveret_messages_parked_total", &labels, f64::from(KEYS - BOUND)).await;
    assert_eq!(series(&leveret), before);
    bounded(&leveret);
}

fn bounded(leveret: &Leveret) {
    let peak = peak_mib(leveret);
    println!("at most {peak} MiB resident");
    // What is taken may be 64 MiB, and be in memory three times.
    assert!(peak < 300, "{peak} MiB");
    assert_eq!(leveret.metrics().sum("leveret_reconnects_total", &[]), 0.0);
}

/// Each is tried by itself, and costs a channel.
async fn very_many_exchanges_that_are_missing(broker: &Broker) {
    const COUNT: u32 = 300;
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config()).await;
    let client = Client::connect(&vhost.uri()).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    let before = series(&leveret);
    let mut parked = client.consume("leveret.parked").await;
    let publishing = (0..COUNT).map(async |number| {
        let exchange = format!("missing.{number}");
        let headers = table([
            ("x-delay", AMQPValue::LongInt(700)),
            ("x-delay-exchange", AMQPValue::LongString(exchange.into())),
        ]);
        let properties = BasicProperties::default().with_headers(headers);
        client.publish("crowd.delayed", "k", properties, number.to_string().as_bytes()).await;
    });
    join_all(publishing).await;
    let names: BTreeSet<_> = take_parked(&mut parked, "exchange-missing", 0..COUNT)
        .await
        .iter()
        .map(|one| text_header(&one.delivery, "x-leveret-exchange").unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), COUNT as usize);
    neighbour.finish("missing exchanges").await;
    assert_eq!(series(&leveret), before);
    bounded(&leveret);
}

async fn a_flood_on_one_bridge_stops_no_other(broker: &Broker) {
    const FLOOD: u32 = 10_000;
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config()).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    let publisher = Client::connect(&vhost.uri()).await;
    for first in (0..FLOOD).step_by(2_000) {
        publish_numbered(&publisher, "crowd.delayed", 300, first..first + 2_000, |_| "bound".to_owned())
            .await;
    }
    let mut inbox = client.consume("crowd").await;
    take_numbered(&mut inbox, 0..FLOOD).await;
    neighbour.finish("a flood").await;
    assert!(inbox.drain().is_empty());
    assert_eq!(leveret.metrics().sum("leveret_messages_parked_total", &[]), 0.0);
    bounded(&leveret);
}
