//! A bad target costs only itself: what was meant for it is retried or parked, each message once, and what is meant for
//! others keeps coming meanwhile.

use std::collections::BTreeSet;

use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};
use serde_json::json;

use crate::harness::broker::Broker;
use crate::harness::client::{Client, table};
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{
    LIMIT, delayed, numbers, publish_numbered, take_numbered, take_parked, text_header, wait_for_metric,
};
use crate::harness::neighbour::{self, Neighbour};
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: a_target_that_never_existed_parks_each_message_once, a_target_may_go_while_messages_wait,
        of_a_target_with_half_its_keys_bound_the_other_half_is_parked,
        a_returned_message_of_any_properties_is_parked, what_no_queue_takes_is_dropped_where_configured,
        a_full_classic_target_is_retried, a_full_quorum_target_is_retried,
        a_target_that_stays_full_is_given_up, a_target_without_permission_is_parked,
        a_forbidden_routing_key_costs_only_its_own_messages, an_internal_exchange_is_parked,
        a_target_inside_leveret_is_parked;
    own_node: a_message_refused_for_its_size_costs_only_itself, bundles_over_the_limit_of_the_broker_are_taken_apart
];

const BAD: &str = "  - name: bad
    entry: { exchange: bad.delayed }
    target: { exchange: bad.target }
";

/// A good bridge, a bad one, and a few levels: each test has a virtual host with queues of its own.
fn config(bad: &str, more: &str) -> String {
    format!("ladder: [125ms, 500ms, 1s]\nbridges:\n{}{bad}{more}", neighbour::BRIDGE)
}

/// So many were parked for this reason, by the metrics, which may count a message a little after it came.
async fn assert_parked(leveret: &Leveret, reason: &str, count: f64) {
    let labels = [("bridge", "bad"), ("reason", reason)];
    wait_for_metric(leveret, "leveret_messages_parked_total", &labels, count).await;
    assert_eq!(leveret.metrics().sum("leveret_messages_parked_total", &labels), count);
}

/// A topic exchange with a queue that takes the keys of `pattern`.
async fn declare_target(client: &Client, pattern: &str, arguments: FieldTable) {
    client.declare_exchange("bad.target", ExchangeKind::Topic).await;
    client.declare_queue("bad", arguments).await;
    client.bind("bad", "bad.target", pattern, FieldTable::default()).await;
}

async fn nothing_is_left(client: &Client, vhost: &Vhost) {
    assert_eq!(client.depth("leveret.parked").await, 0);
    for queue in vhost.queue_names().iter().filter(|name| name.starts_with("leveret.")) {
        eventually(&format!("nothing is left in {queue}"), LIMIT, async || {
            (client.depth(queue).await == 0).then_some(())
        })
        .await;
    }
}

async fn a_target_that_never_existed_parks_each_message_once(broker: &Broker) {
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    publish_numbered(&client, "bad.delayed", 700, 0..100, |number| format!("key.{number}")).await;
    let mut parked = client.consume("leveret.parked").await;
    for one in take_parked(&mut parked, "exchange-missing", 0..100).await {
        let number = std::str::from_utf8(&one.delivery.data).unwrap();
        let said = |name: &str| text_header(&one.delivery, name).unwrap();
        assert_eq!(said("x-leveret-exchange"), "bad.target");
        assert_eq!(said("x-leveret-routing-key"), format!("key.{number}"));
        assert!(said("x-leveret-detail").contains("NOT_FOUND"), "{}", said("x-leveret-detail"));
    }
    assert_parked(&leveret, "exchange-missing", 100.0).await;
    neighbour.finish("target missing").await;
    assert!(parked.drain().is_empty());
    nothing_is_left(&client, &vhost).await;
}

async fn a_target_may_go_while_messages_wait(broker: &Broker) {
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", FieldTable::default()).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    // So that the channel to it was in use and good.
    let mut inbox = client.consume("bad").await;
    publish_numbered(&client, "bad.delayed", 0, 0..10, |_| "k".to_owned()).await;
    take_numbered(&mut inbox, 0..10).await;

    publish_numbered(&client, "bad.delayed", 3000, 0..100, |_| "k".to_owned()).await;
    wait_for_metric(&leveret, "leveret_messages_accepted_total", &[("bridge", "bad")], 110.0).await;
    vhost.delete_exchange("bad.target");
    let mut parked = client.consume("leveret.parked").await;
    take_parked(&mut parked, "exchange-missing", 0..100).await;

    // It comes back, and what is published from then on arrives.
    declare_target(&client, "#", FieldTable::default()).await;
    publish_numbered(&client, "bad.delayed", 300, 0..10, |_| "k".to_owned()).await;
    take_numbered(&mut inbox, 0..10).await;
    neighbour.finish("target deleted").await;
    assert!(parked.drain().is_empty() && inbox.drain().is_empty());
    nothing_is_left(&client, &vhost).await;
}

/// Bound and unbound keys share bundles and batches; but for their keys the messages are all alike.
async fn of_a_target_with_half_its_keys_bound_the_other_half_is_parked(broker: &Broker) {
    let vhost = broker.create_vhost();
    let bad = format!("{BAD}    annotate: false\n");
    let leveret = Leveret::start(&vhost.uri(), &config(&bad, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "bound.*", FieldTable::default()).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    let mut inbox = client.consume("bad").await;
    let mut parked = client.consume("leveret.parked").await;
    for number in 0..200 {
        let key = format!("{}.{}", if number % 2 == 0 { "bound" } else { "unbound" }, number / 2);
        client.publish("bad.delayed", &key, delayed(800), b"").await;
    }
    let keys = |prefix: &str| (0..100).map(|n| format!("{prefix}.{n}")).collect::<BTreeSet<_>>();
    let arrived = inbox.take(100, LIMIT).await;
    let arrived: BTreeSet<_> = arrived.iter().map(|one| one.delivery.routing_key.to_string()).collect();
    assert_eq!(arrived, keys("bound"));
    let returned = parked.take(100, LIMIT).await;
    for one in &returned {
        assert_eq!(text_header(&one.delivery, "x-leveret-reason"), Some("unroutable"));
    }
    let returned: BTreeSet<_> = returned
        .iter()
        .map(|one| text_header(&one.delivery, "x-leveret-routing-key").unwrap().to_owned())
        .collect();
    assert_eq!(returned, keys("unbound"));
    assert_parked(&leveret, "unroutable", 100.0).await;
    let bundle_messages = |what: &str| leveret.metrics().sum(&format!("leveret_bundle_messages_{what}"), &[]);
    assert!(bundle_messages("sum") > bundle_messages("count"), "no two messages ever shared a bundle");
    neighbour.finish("half unbound").await;
    assert!(parked.drain().is_empty() && inbox.drain().is_empty());
    nothing_is_left(&client, &vhost).await;
}

/// The broker returns what it made of the message, and that must still be recognised.
async fn a_returned_message_of_any_properties_is_parked(broker: &Broker) {
    let vhost = broker.create_vhost();
    let bad = format!("{BAD}    annotate: false\n");
    let _leveret = Leveret::start(&vhost.uri(), &config(&bad, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("bad.target", ExchangeKind::Headers).await;
    let mut parked = client.consume("leveret.parked").await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let mut tables = vec![Field::of_every_type()];
    tables.extend(Field::of_every_type().into_iter().map(|field| vec![field]));
    let cc = Field::new("CC", b'A', b"\0\0\0\x0aS\0\0\0\x05other");
    tables.extend([
        vec![],
        vec![Field::text("z", "1"), Field::text("a", "2"), Field::text("z", "3")],
        vec![cc],
    ]);
    for fields in &tables {
        raw.publish("bad.delayed", "k", &RawProperties::of_headers(fields), b"body").await;
    }
    let all = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("identity".into())
        .with_delivery_mode(1)
        .with_priority(7)
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_expiration("60000".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000)
        .with_type("t".into())
        .with_user_id("guest".into())
        .with_app_id("a".into())
        .with_cluster_id("cl".into());
    client.publish("bad.delayed", "k", all, b"").await;
    for one in parked.take(tables.len() + 1, LIMIT).await {
        assert_eq!(text_header(&one.delivery, "x-leveret-reason"), Some("unroutable"), "{:?}", one.delivery);
    }
    nothing_is_left(&client, &vhost).await;
}

async fn what_no_queue_takes_is_dropped_where_configured(broker: &Broker) {
    let vhost = broker.create_vhost();
    let bad = format!("{BAD}    unroutable: drop\n");
    let leveret = Leveret::start(&vhost.uri(), &config(&bad, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "bound", FieldTable::default()).await;
    let mut inbox = client.consume("bad").await;
    let key = |number: u32| if number < 50 { "bound" } else { "unbound" }.to_owned();
    publish_numbered(&client, "bad.delayed", 300, 0..100, key).await;
    take_numbered(&mut inbox, 0..50).await;
    wait_for_metric(&leveret, "leveret_messages_dropped_total", &[("bridge", "bad")], 50.0).await;
    nothing_is_left(&client, &vhost).await;
    assert_eq!(leveret.metrics().sum("leveret_messages_dropped_total", &[]), 50.0);
    assert_eq!(leveret.metrics().sum("leveret_messages_parked_total", &[]), 0.0);
    assert!(inbox.drain().is_empty());
}

async fn a_full_classic_target_is_retried(broker: &Broker) {
    a_full_target_is_retried(broker, "classic").await;
}

async fn a_full_quorum_target_is_retried(broker: &Broker) {
    a_full_target_is_retried(broker, "quorum").await;
}

/// A queue that holds one message, and refuses more.
fn one_at_most(queue_type: &str) -> FieldTable {
    table([
        ("x-queue-type", AMQPValue::LongString(queue_type.into())),
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ])
}

/// Publishes to the target until it refuses; tells how many it took.
async fn fill(client: &Client) -> usize {
    let mut taken = 0;
    // A quorum queue's limit comes into force a little late.
    eventually("the target refuses", LIMIT, async || {
        let confirmation =
            client.try_publish("bad.target", "filler", BasicProperties::default(), b"0").await.unwrap();
        taken += usize::from(confirmation.is_ack());
        confirmation.is_nack().then_some(())
    })
    .await;
    taken
}

async fn a_full_target_is_retried(broker: &Broker, queue_type: &str) {
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", one_at_most(queue_type)).await;
    let fillers = fill(&client).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    publish_numbered(&client, "bad.delayed", 300, 0..20, |_| "k".to_owned()).await;
    // Each was refused at least twice: from memory, and after that out of a level.
    wait_for_metric(&leveret, "leveret_deliveries_retried_total", &[("bridge", "bad")], 80.0).await;
    assert_eq!(leveret.metrics().sum("leveret_messages_delivered_total", &[("bridge", "bad")]), 0.0);

    let mut inbox = client.consume("bad").await;
    let all = inbox.take(fillers + 20, LIMIT).await;
    let delayed: Vec<_> = all.into_iter().filter(|one| one.delivery.routing_key.as_str() == "k").collect();
    assert_eq!(numbers(&delayed), (0..20).collect());
    neighbour.finish(&format!("{queue_type} target full")).await;
    assert!(inbox.drain().is_empty());
    assert_eq!(leveret.metrics().sum("leveret_messages_parked_total", &[]), 0.0);
    nothing_is_left(&client, &vhost).await;
}

async fn a_target_that_stays_full_is_given_up(broker: &Broker) {
    let vhost = broker.create_vhost();
    let config = config(BAD, "delivery: { give_up_after: 1500ms }\n");
    let leveret = Leveret::start(&vhost.uri(), &config).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", one_at_most("classic")).await;
    let fillers = fill(&client).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    publish_numbered(&client, "bad.delayed", 300, 0..100, |_| "k".to_owned()).await;
    let mut parked = client.consume("leveret.parked").await;
    for one in take_parked(&mut parked, "target-full", 0..100).await {
        let detail = text_header(&one.delivery, "x-leveret-detail").unwrap();
        assert!(detail.contains("bad.target") && detail.contains("full"), "{detail}");
    }
    assert_parked(&leveret, "target-full", 100.0).await;
    assert_eq!(usize::try_from(client.depth("bad").await).unwrap(), fillers);
    neighbour.finish("target stays full").await;
    assert!(parked.drain().is_empty());
}

async fn a_target_without_permission_is_parked(broker: &Broker) {
    let vhost = broker.create_vhost();
    let own = "^(leveret\\..*|(good|bad)\\.delayed)$";
    let user = vhost.add_user("sidecar", "", [own, "^(leveret\\..*|good\\.target)$", own]);
    let leveret = Leveret::start(&user.uri(vhost.name()), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", FieldTable::default()).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    publish_numbered(&client, "bad.delayed", 300, 0..100, |_| "k".to_owned()).await;
    let mut parked = client.consume("leveret.parked").await;
    for one in take_parked(&mut parked, "access-refused", 0..100).await {
        let detail = text_header(&one.delivery, "x-leveret-detail").unwrap();
        assert!(detail.contains("ACCESS_REFUSED") && detail.contains("bad.target"), "{detail}");
    }
    assert_parked(&leveret, "access-refused", 100.0).await;
    neighbour.finish("access refused").await;
    assert_eq!(client.depth("bad").await, 0);
    nothing_is_left(&client, &vhost).await;
}

async fn a_forbidden_routing_key_costs_only_its_own_messages(broker: &Broker) {
    let vhost = broker.create_vhost();
    let user = vhost.add_user("sidecar", "", [".*", ".*", ".*"]);
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", FieldTable::default()).await;
    let permissions = json!({ "exchange": "bad.target", "write": "^allowed\\.", "read": ".*" });
    broker.management().put(&format!("/topic-permissions/{}/{}", vhost.name(), user.user), &permissions);
    let _leveret = Leveret::start(&user.uri(vhost.name()), &config(BAD, "")).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    let mut inbox = client.consume("bad").await;
    let mut parked = client.consume("leveret.parked").await;
    // They alternate, so that they share bundles and batches. The first refusal teaches which must not: what it shared
    // a channel with may come twice.
    let mut missing: BTreeSet<_> = (0..30).map(|number: u32| number.to_string()).collect();
    for number in 0..60 {
        let key = if number % 2 == 0 { "allowed.k" } else { "denied.k" };
        client.publish("bad.delayed", key, delayed(500), (number / 2).to_string().as_bytes()).await;
    }
    take_parked(&mut parked, "access-refused", 0..30).await;
    while !missing.is_empty() {
        let came = inbox.next(LIMIT).await.delivery;
        assert_eq!(came.routing_key.as_str(), "allowed.k");
        missing.remove(std::str::from_utf8(&came.data).unwrap());
    }
    // The levels do not empty while the neighbour publishes.
    neighbour.finish("routing key refused").await;
    nothing_is_left(&client, &vhost).await;
    inbox.drain();
    for number in 0..60 {
        let key = if number % 2 == 0 { "allowed.k" } else { "denied.k" };
        client.publish("bad.delayed", key, delayed(500), (number / 2).to_string().as_bytes()).await;
    }
    take_numbered(&mut inbox, 0..30).await;
    take_parked(&mut parked, "access-refused", 0..30).await;
    assert!(parked.drain().is_empty() && inbox.drain().is_empty());
    nothing_is_left(&client, &vhost).await;
}

async fn an_internal_exchange_is_parked(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    let exchange = json!({ "type": "topic", "durable": true, "internal": true });
    broker.management().put(&format!("/exchanges/{}/bad.target", vhost.name()), &exchange);
    publish_numbered(&client, "bad.delayed", 300, 0..10, |_| "k".to_owned()).await;
    let mut parked = client.consume("leveret.parked").await;
    take_parked(&mut parked, "access-refused", 0..10).await;
    nothing_is_left(&client, &vhost).await;
}

async fn a_target_inside_leveret_is_parked(broker: &Broker) {
    let vhost = broker.create_vhost();
    let bad = "  - name: bad\n    entry: { exchange: bad.delayed }\n    target: { allow: [\"leveret*\"] }\n";
    let leveret = Leveret::start(&vhost.uri(), &config(bad, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    let mut parked = client.consume("leveret.parked").await;
    // The default exchange takes every queue's name for a key.
    let queues = ["leveret.due", "leveret.parked", "leveret.ingress.bad", "leveret.level.125ms", "leveret."];
    for queue in queues {
        client.publish("bad.delayed", queue, delayed(300), b"0").await;
    }
    // And by a header a message may choose an exchange.
    for exchange in ["leveret.due", "leveret.level"] {
        let mut headers = table([("x-delay", AMQPValue::LongInt(300))]);
        headers.insert("x-delay-exchange".into(), AMQPValue::LongString(exchange.into()));
        client.publish("bad.delayed", "k", BasicProperties::default().with_headers(headers), b"0").await;
    }
    for one in parked.take(queues.len() + 2, LIMIT).await {
        assert_eq!(
            text_header(&one.delivery, "x-leveret-reason"),
            Some("target-loops"),
            "{:?}",
            one.delivery
        );
    }
    assert_eq!(leveret.metrics().sum("leveret_bundles_unreadable_total", &[]), 0.0);
    nothing_is_left(&client, &vhost).await;
}

/// A message of the largest size that the broker takes does not fit into a bundle, which it shares with nobody.
async fn a_message_refused_for_its_size_costs_only_itself(broker: &Broker) {
    const MOST: usize = 5 * 1024 * 1024;
    let node = broker.dedicated_with(&format!("max_message_size = {MOST}\n"));
    let vhost = node.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", FieldTable::default()).await;
    let neighbour = Neighbour::start(&vhost.uri()).await;
    let mut inbox = client.consume("bad").await;
    let mut parked = client.consume("leveret.parked").await;
    let largest = vec![b'x'; MOST];
    publish_numbered(&client, "bad.delayed", 700, 0..50, |_| "k".to_owned()).await;
    client.publish("bad.delayed", "k", delayed(700), &largest).await;
    publish_numbered(&client, "bad.delayed", 700, 50..100, |_| "k".to_owned()).await;
    take_numbered(&mut inbox, 0..100).await;
    let refused = parked.next(LIMIT).await;
    assert_eq!(text_header(&refused.delivery, "x-leveret-reason"), Some("refused"));
    assert!(refused.delivery.data == largest);
    // Without a delay it needs no bundle.
    client.publish("bad.delayed", "k", BasicProperties::default(), &largest).await;
    assert!(inbox.next(LIMIT).await.delivery.data == largest);
    assert_parked(&leveret, "refused", 1.0).await;
    neighbour.finish("message too large").await;
    assert!(parked.drain().is_empty() && inbox.drain().is_empty());
    nothing_is_left(&client, &vhost).await;
}

/// Where the broker's limit is so low that whole bundles exceed it, they are taken apart. Nothing is lost; what shared
/// a channel with a refused bundle may come twice.
async fn bundles_over_the_limit_of_the_broker_are_taken_apart(broker: &Broker) {
    let node = broker.dedicated_with("max_message_size = 65536\n");
    let vhost = node.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), &config(BAD, "")).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "#", FieldTable::default()).await;
    let mut inbox = client.consume("bad").await;
    let mut missing = BTreeSet::new();
    for number in 0..30 {
        let body = format!("{number:030000}");
        client.publish("bad.delayed", "k", delayed(1000), body.as_bytes()).await;
        missing.insert(body.into_bytes());
    }
    while !missing.is_empty() {
        missing.remove(&inbox.next(LIMIT).await.delivery.data);
    }
    assert_eq!(leveret.metrics().sum("leveret_messages_parked_total", &[]), 0.0);
    nothing_is_left(&client, &vhost).await;
}
