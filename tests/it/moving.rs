//! What waits is moved to another broker, as docs/operations.md says: nothing is lost, and nothing comes before its time.

use std::time::Duration;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::FieldTable;
use leveret::domain::bundle;
use leveret::domain::message::Message;
use leveret::domain::time::UnixMillis;
use serde_json::json;
use ulid::Ulid;

use crate::harness::broker::Broker;
use crate::harness::client::{Client, now_ms};
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, delayed};
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: a_bundle_that_was_taken_out_of_its_level_waits_by_the_clock, what_was_served_counts_against_the_clock;
    own_node: shovels_move_what_waits
];

/// A bundle of one message for the queue `q`, which is due so long from now; after its hop, it would say that nothing is left.
fn bundle_due_in(wait: Duration) -> (i64, Vec<u8>) {
    let now = u64::try_from(now_ms()).unwrap();
    let due = now + u64::try_from(wait.as_millis()).unwrap();
    let message = Message {
        id: Ulid::new(),
        bridge: "default".into(),
        exchange: "delay".into(),
        routing_key: "q".into(),
        due: UnixMillis(due),
        left: Duration::ZERO,
        accepted_at: UnixMillis(now),
        hops: 1,
        refused_since: None,
        key: "".into(),
        properties: Bytes::from_static(&[0, 0]),
        body: Bytes::from_static(b"carried"),
    };
    (i64::try_from(due).unwrap(), bundle::encode(&[message]).to_vec())
}

/// What it says of the rest of its wait was reckoned for the end of a hop that it has not served.
async fn a_bundle_that_was_taken_out_of_its_level_waits_by_the_clock(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), "").await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    // Shovels to a queue, and to an exchange by the key that it had.
    for (exchange, key) in [("", "leveret.due"), ("leveret.due", "leveret.level.34m8s")] {
        let (due, bundle) = bundle_due_in(Duration::from_secs(4));
        client.publish(exchange, key, BasicProperties::default(), &bundle).await;
        let came = inbox.next(LIMIT).await;
        assert!(came.at_ms >= due, "{} ms early, by {exchange:?} {key:?}", due - came.at_ms);
    }
}

/// By its due time it would wait for an hour more: as if the clock had been set back while it was in the level.
async fn what_was_served_counts_against_the_clock(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), "").await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let (_due, bundle) = bundle_due_in(Duration::from_secs(3_600));
    client.publish("leveret.level", "leveret.level.1s", BasicProperties::default(), &bundle).await;
    client.consume("q").await.next(LIMIT).await;
}

/// One node with two virtual hosts stands for two brokers.
async fn shovels_move_what_waits(broker: &Broker) {
    const WAITING: usize = 400;
    const NOT_TAKEN: usize = 50;
    let broker = broker.dedicated();
    broker.enable_plugin("rabbitmq_shovel");
    let (old, new) = (broker.create_vhost(), broker.create_vhost());
    let ledger = Ledger::open();
    let mut collecting = Vec::new();
    for vhost in [&old, &new] {
        declare_target(&vhost.uri(), "q").await;
        collecting.push(ledger.collect(&vhost.uri(), "q"));
    }

    let mut leveret = Leveret::start(&old.uri(), "").await;
    // Most wait in a level that would not let them go before the move; a slow machine may deliver the first.
    let load = |count| random_delays("q", 6_000..14_000).take(count);
    Load::start(ledger, &old.uri(), 1_000, load(WAITING)).finish().await;
    let client = Client::connect(&old.uri()).await;
    client.publish("delay", "nowhere", delayed(0), b"to be parked").await;
    wait_for_depth(&old, "leveret.parked", 1).await;
    leveret.sigterm();
    assert_eq!(leveret.wait().await.code(), Some(0));
    Load::start(ledger, &old.uri(), 1_000, load(NOT_TAKEN)).finish().await;

    let _leveret = Leveret::start(&new.uri(), "ladder: rocketmq").await;
    let queues: Vec<_> = old.queue_names().into_iter().filter(|name| name.starts_with("leveret.")).collect();
    assert!(queues.len() > 20, "{queues:?}");
    for queue in &queues {
        let destination = match queue.as_str() {
            "leveret.ingress.default" => json!({ "dest-exchange": "delay" }),
            "leveret.parked" => json!({ "dest-queue": "leveret.parked" }),
            _ => json!({ "dest-queue": "leveret.due" }),
        };
        shovel(&broker, &old, queue, &new, &destination);
    }
    let report = ledger.close(LIMIT).await.exactly_once("moved by shovels");
    assert_eq!(report.confirmed, WAITING + NOT_TAKEN);
    wait_for_depth(&new, "leveret.parked", 1).await;
    for queue in &queues {
        wait_for_depth(&old, queue, 0).await;
    }
}

async fn wait_for_depth(vhost: &Vhost, queue: &str, depth: u32) {
    let client = Client::connect(&vhost.uri()).await;
    eventually(&format!("{queue} has {depth}"), LIMIT, async || {
        (client.depth(queue).await == depth).then_some(())
    })
    .await;
}

fn shovel(broker: &Broker, from: &Vhost, queue: &str, to: &Vhost, destination: &serde_json::Value) {
    let mut value = json!({
        "src-protocol": "amqp091", "src-uri": from.uri(), "src-queue": queue,
        "dest-protocol": "amqp091", "dest-uri": to.uri(), "ack-mode": "on-confirm",
    });
    value.as_object_mut().unwrap().extend(destination.as_object().unwrap().clone());
    let path = format!("/parameters/shovel/{}/{queue}", to.name());
    broker.management().put(&path, &json!({ "value": value }));
}
