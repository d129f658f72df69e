//! The harness itself, on each broker: what the other tests take for granted.

use std::time::{Duration, Instant};

use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};
use serde_json::json;

use crate::harness::broker::{Alarm, Broker};
use crate::harness::client::{Client, now_ms, table};
use crate::harness::eventually;
use crate::harness::proxy::{Proxy, Way};
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, encode};

const SOON: Duration = Duration::from_secs(20);

pub(crate) const CASES: &[Case] = cases![
    shared: a_client_publishes_and_consumes, every_header_type_comes_back_as_it_was, headers_keep_their_order_up_to_3,
        a_policy_acts_on_a_queue, a_user_is_held_to_its_permissions, connections_are_closed_by_the_broker,
        a_proxy_cuts_stalls_and_refuses, a_proxy_loses_one_way, a_narrow_proxy_takes_its_time;
    own_node: a_node_restarts_with_its_data, a_killed_node_comes_back, alarms_block_publishers,
        extra_configuration_counts
];

async fn a_client_publishes_and_consumes(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("shop", ExchangeKind::Topic).await;
    client.declare_queue("orders", table([("x-queue-type", AMQPValue::LongString("quorum".into()))])).await;
    client.bind("orders", "shop", "order.#", FieldTable::default()).await;

    let before = now_ms();
    let headers = table([("n", AMQPValue::LongInt(-1))]);
    let properties = BasicProperties::default().with_headers(headers.clone());
    client.publish("shop", "order.new", properties, b"hare").await;
    client.publish("shop", "order.paid", BasicProperties::default(), b"leveret").await;
    eventually("both are ready", SOON, async || (client.depth("orders").await == 2).then_some(())).await;
    let unroutable = client.try_publish("shop", "refund", BasicProperties::default(), b"").await.unwrap();
    assert!(unroutable.take_message().is_some());

    let mut inbox = client.consume("orders").await;
    let first = inbox.next(SOON).await;
    assert_eq!(first.delivery.data, b"hare");
    assert_eq!(first.delivery.routing_key.as_str(), "order.new");
    assert_eq!(first.delivery.properties.headers(), &Some(headers));
    assert!(first.at_ms >= before);
    let rest = inbox.take(1, SOON).await;
    assert_eq!(rest[0].delivery.data, b"leveret");
    assert!(inbox.drain().is_empty());

    assert_eq!(vhost.queue_names(), ["orders"]);
    vhost.delete_queue("orders");
    vhost.delete_exchange("shop");
    assert!(vhost.queue_names().is_empty());
}

async fn every_header_type_comes_back_as_it_was(broker: &Broker) {
    let mut fields = Field::of_every_type();
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(round_trip(broker, &fields).await, encode(&fields)[4..]);
}

/// What the broker itself does to headers, and nobody behind it can undo: the 4 series sorts them by name and keeps the
/// first of equal ones.
async fn headers_keep_their_order_up_to_3(broker: &Broker) {
    let [first, second, third] =
        [Field::text("z", "first"), Field::text("a", "second"), Field::text("z", "third")];
    let published = [first.clone(), second.clone(), third];
    let expected = if broker.version() < (4, 0) { published.to_vec() } else { vec![second, first] };
    assert_eq!(round_trip(broker, &published).await, encode(&expected)[4..]);
}

/// The headers' bytes after a stay in a queue.
async fn round_trip(broker: &Broker, fields: &[Field]) -> Vec<u8> {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let body = vec![7; 300_000];
    raw.publish("", "q", &RawProperties::of_headers(fields), &body).await;
    let message = raw.get("q").await.expect("the queue is empty");
    assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), ("", "q"));
    assert!(message.body == body, "the body changed");
    assert_eq!(raw.get("q").await, None);
    message.properties.header_bytes().expect("no headers")
}

async fn a_policy_acts_on_a_queue(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("short", FieldTable::default()).await;
    vhost.set_policy("limit", "^short$", "queues", &json!({ "max-length": 1, "overflow": "reject-publish" }));
    eventually("the policy is in force", SOON, async || {
        let stats = vhost.queue_stats("short")?;
        assert_eq!((stats.ready, stats.unacknowledged, stats.consumers), (0, 0, 0));
        (stats.details["policy"] == "limit").then_some(())
    })
    .await;
    client.publish("", "short", BasicProperties::default(), b"1").await;
    let full = client.try_publish("", "short", BasicProperties::default(), b"2").await.unwrap();
    assert!(full.is_nack());
    vhost.delete_policy("limit");
    eventually("there is room again", SOON, async || {
        client
            .try_publish("", "short", BasicProperties::default(), b"3")
            .await
            .unwrap()
            .is_ack()
            .then_some(())
    })
    .await;
    assert!(vhost.queue_stats("long").is_none());
}

async fn a_user_is_held_to_its_permissions(broker: &Broker) {
    let vhost = broker.create_vhost();
    let user = vhost.add_user("clerk", "", ["^mine$", "^(mine|amq.default)$", "^mine$"]);
    let client = Client::connect(&user.uri(vhost.name())).await;
    client.declare_queue("mine", FieldTable::default()).await;
    client.publish("", "mine", BasicProperties::default(), b"").await;
    let options = lapin::options::QueueDeclareOptions::default();
    let refused = client.channel().queue_declare("other".into(), options, FieldTable::default()).await;
    assert!(refused.unwrap_err().to_string().contains("ACCESS_REFUSED"));
}

async fn connections_are_closed_by_the_broker(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    eventually("the broker lists the connection", SOON, async || {
        (vhost.connection_count() == 1).then_some(())
    })
    .await;
    assert_eq!(vhost.close_connections(), 1);
    eventually("the client sees it", SOON, async || (!client.is_connected()).then_some(())).await;
}

async fn a_proxy_cuts_stalls_and_refuses(broker: &Broker) {
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    let uri = vhost.uri_through(proxy.port());
    let client = Client::connect(&uri).await;
    client.declare_queue("q", FieldTable::default()).await;
    client.publish("", "q", BasicProperties::default(), b"passes").await;

    proxy.stall();
    let mut stalled = Box::pin(client.try_publish("", "q", BasicProperties::default(), b"waits"));
    let waited = tokio::time::timeout(Duration::from_millis(300), &mut stalled).await;
    assert!(waited.is_err(), "published through a stalled proxy");
    proxy.resume();
    assert!(stalled.await.unwrap().is_ack());

    proxy.refuse();
    proxy.cut();
    eventually("the client sees the cut", SOON, async || (!client.is_connected()).then_some(())).await;
    assert!(Client::try_connect(&uri).await.is_err());
    proxy.resume();
    assert_eq!(Client::connect(&uri).await.depth("q").await, 2);
}

async fn a_proxy_loses_one_way(broker: &Broker) {
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    let near = Client::connect(&vhost.uri()).await;
    near.declare_queue("q", FieldTable::default()).await;
    for (way, arrives) in [(Way::FromBroker, 1), (Way::ToBroker, 0)] {
        let client = Client::connect(&vhost.uri_through(proxy.port())).await;
        let before = near.depth("q").await;
        proxy.lose(way);
        let mut unanswered = Box::pin(client.try_publish("", "q", BasicProperties::default(), b"once"));
        let waited = tokio::time::timeout(Duration::from_millis(500), &mut unanswered).await;
        assert!(waited.is_err(), "confirmed over a network that loses what goes {way:?}");
        if arrives > 0 {
            eventually("it arrives", SOON, async || {
                (near.depth("q").await == before + arrives).then_some(())
            })
            .await;
        }
        proxy.resume();
        eventually("the client sees the end", SOON, async || (!client.is_connected()).then_some(())).await;
        assert_eq!(near.depth("q").await, before + arrives);
    }
}

async fn a_narrow_proxy_takes_its_time(broker: &Broker) {
    const SIZE: usize = 20_000;
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    let client = Client::connect(&vhost.uri_through(proxy.port())).await;
    client.declare_queue("q", FieldTable::default()).await;
    proxy.narrow(SIZE);
    let began = Instant::now();
    client.publish("", "q", BasicProperties::default(), &[0; SIZE]).await;
    assert!(began.elapsed() > Duration::from_millis(900), "took {:?}", began.elapsed());
    proxy.resume();
}

async fn a_node_restarts_with_its_data(broker: &Broker) {
    let node = broker.dedicated();
    survives(&node, || node.restart()).await;
}

async fn a_killed_node_comes_back(broker: &Broker) {
    let node = broker.dedicated();
    survives(&node, || {
        node.flush_declarations();
        node.kill();
        node.start_again();
    })
    .await;
}

async fn survives(node: &Broker, interruption: impl FnOnce()) {
    let vhost = node.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", table([("x-queue-type", AMQPValue::LongString("quorum".into()))])).await;
    client.publish("", "q", BasicProperties::default().with_delivery_mode(2), b"kept").await;
    interruption();
    eventually("the client sees it", SOON, async || (!client.is_connected()).then_some(())).await;
    let client = Client::connect(&vhost.uri()).await;
    assert_eq!(client.consume("q").await.next(SOON).await.delivery.data, b"kept");
}

async fn alarms_block_publishers(broker: &Broker) {
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    Client::connect(&vhost.uri()).await.declare_queue("q", FieldTable::default()).await;
    for alarm in [Alarm::Memory, Alarm::Disk] {
        node.set_alarm(alarm, true).await;
        let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
        let properties = RawProperties::default();
        let mut publishing = Box::pin(raw.publish("", "q", &properties, b"blocked"));
        let waited = tokio::time::timeout(Duration::from_millis(500), &mut publishing).await;
        assert!(waited.is_err(), "published in spite of the alarm");
        node.set_alarm(alarm, false).await;
        publishing.await;
    }
}

async fn extra_configuration_counts(broker: &Broker) {
    let node = broker.dedicated_with("channel_max = 7\n");
    assert_eq!(node.version(), broker.version());
    let configuration = std::fs::read_to_string(node.directory().join("rabbitmq.conf")).unwrap();
    assert!(configuration.ends_with("channel_max = 7\n"));
    let vhost = node.create_vhost();
    let connection =
        lapin::Connection::connect(&vhost.uri(), lapin::ConnectionProperties::default()).await.unwrap();
    assert_eq!(connection.configuration().channel_max(), 7);
    connection.close(200, "done".into()).await.unwrap();
    let management = node.management().find("/overview").unwrap();
    assert!(management["rabbitmq_version"].is_string());
}
