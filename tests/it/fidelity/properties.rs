//! Every property comes out byte for byte, whatever the delay; and none acts before delivery.

use std::collections::BTreeSet;

use lapin::types::{AMQPValue, FieldTable};

use super::expected::{assert_delivered, assert_same, sorted};
use super::scene::{ENTRY, INBOX, SOON, Scene, quorum, text};
use crate::harness::broker::Broker;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, encode, prefixed, property};

pub(crate) const CASES: &[Case] = cases![
    shared: every_property_comes_out_as_it_was, without_annotation_nothing_changes_at_all,
        headers_are_sorted_and_unique, expiration_runs_from_delivery, copies_are_made_once_and_at_delivery,
        copies_cannot_lead_back_into_leveret
];

/// At once, through the due queue alone, and through levels.
const DELAYS_MS: [i32; 3] = [0, 300, 1_500];

/// Bridge without any trace of Leveret.
const BARE: &str = "bridges: [{ name: bare, entry: { exchange: bare }, target: { exchange: '' }, default_delay: 300ms, \
                    annotate: false }]\n";

async fn every_property_comes_out_as_it_was(broker: &Broker) {
    let mut scene = Scene::of_impersonator(broker, "").await;
    let full = full(&scene.vhost.address().user);
    let mut published = Vec::new();
    for delay in DELAYS_MS {
        for base in variants(&full) {
            let headers = [base.headers(), vec![Field::int("x-delay", delay)]].concat();
            let properties = base.with_headers(&headers);
            let body = [b"body \0\xff".as_slice(), published.len().to_string().as_bytes()].concat();
            let before = scene.send(&properties, &body).await;
            published.push((properties, body, before + i64::from(delay)));
        }
    }
    for _ in 0..published.len() {
        let came = scene.receive().await;
        let at = published.iter().position(|(_, body, _)| *body == came.message.body);
        let (properties, _, due) = published.swap_remove(at.expect("not published, or twice"));
        assert!(came.at_ms >= due, "{} ms early: {properties:?}", due - came.at_ms);
        assert_eq!((came.message.exchange.as_str(), came.message.routing_key.as_str()), ("", INBOX));
        assert_delivered(&came.message.properties, &properties);
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// All properties at once.
fn full(user: &str) -> RawProperties {
    let deaths = encode(&[
        Field::new("count", b'l', &3_i64.to_be_bytes()),
        Field::text("reason", "rejected"),
        Field::text("queue", "work"),
        Field::new("time", b'T', &1_700_000_000_u64.to_be_bytes()),
        Field::text("exchange", ""),
        Field::texts("routing-keys", &["work"]),
    ]);
    let mut headers = Field::of_every_type();
    headers.push(Field::new("x-death", b'A', &prefixed(&[b"F", sorted_table(&deaths).as_slice()].concat())));
    headers.push(Field::text("x-first-death-reason", "rejected"));
    headers.push(Field::text("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    headers.push(Field::int(&"n".repeat(255), -1));
    RawProperties::of_headers(&headers)
        .with_text(property::CONTENT_TYPE, "application/x-hare; charset=utf-8")
        .with_text(property::CONTENT_ENCODING, "br")
        .with(property::DELIVERY_MODE, Some(vec![2]))
        .with(property::PRIORITY, Some(vec![7]))
        .with_text(property::CORRELATION_ID, &"c".repeat(255))
        .with_text(property::REPLY_TO, "replies.here")
        .with_text(property::EXPIRATION, "600000")
        .with_text(property::MESSAGE_ID, "naïve ☃")
        .with(property::TIMESTAMP, Some(u64::MAX.to_be_bytes().to_vec()))
        .with_text(property::KIND, "created")
        .with_text(property::USER_ID, user)
        .with_text(property::APP_ID, "shop")
        .with_text(property::CLUSTER_ID, "c1")
}

fn sorted_table(table: &[u8]) -> Vec<u8> {
    encode(&sorted(RawProperties { flags: property::HEADERS, bytes: table.to_vec() }.headers()))
}

/// All properties, none, and each on its own.
fn variants(full: &RawProperties) -> Vec<RawProperties> {
    let one = |flag| RawProperties::default().with(flag, full.get(flag));
    let mut all = vec![full.clone(), RawProperties::default()];
    all.extend((2..16).map(|bit| one(1 << bit)));
    all.push(full.with(property::DELIVERY_MODE, Some(vec![1])));
    all.push(RawProperties::default().with(property::DELIVERY_MODE, Some(vec![1])));
    all.push(full.with_text(property::CORRELATION_ID, "").with_text(property::MESSAGE_ID, ""));
    all.push(full.with(property::PRIORITY, Some(vec![255])));
    all
}

async fn without_annotation_nothing_changes_at_all(broker: &Broker) {
    let mut scene = Scene::of_impersonator(broker, BARE).await;
    let full = full(&scene.vhost.address().user);
    let full = full.with_headers(&sorted(full.headers()));
    let mut variants = variants(&full);
    variants.push(RawProperties::of_headers(&[]));
    for properties in variants {
        scene.raw.publish("bare", INBOX, &properties, b"").await;
        let came = scene.receive().await.message;
        assert_same(&came.properties, &properties);
        assert!(came.body.is_empty());
    }
}

/// What differs, and nobody may rely on: the order of headers, and which of two with the same name counts. RabbitMQ
/// itself sorts them from 4.0 on, and keeps the first of equal ones; before, the last one wins in Leveret.
async fn headers_are_sorted_and_unique(broker: &Broker) {
    let mut scene = Scene::with(broker, BARE).await;
    let inner = |fields: &[Field]| Field::new("inner", b'F', &encode(fields));
    let published = [
        Field::text("z", "first"),
        inner(&[Field::int("b", 1), Field::int("a", 2)]),
        Field::text("a", "second"),
        Field::text("z", "third"),
    ];
    scene.raw.publish("bare", INBOX, &RawProperties::of_headers(&published), b"").await;
    let kept = if broker.version() < (4, 0) { "third" } else { "first" };
    let expected = [
        Field::text("a", "second"),
        inner(&[Field::int("a", 2), Field::int("b", 1)]),
        Field::text("z", kept),
    ];
    assert_same(&scene.receive().await.message.properties, &RawProperties::of_headers(&expected));
}

/// It is shorter than the delay, and nevertheless counts only in the target's queue.
async fn expiration_runs_from_delivery(broker: &Broker) {
    let mut scene = Scene::prepared(broker, "", async |app| {
        app.declare_queue("expired", FieldTable::default()).await;
        let mut arguments = quorum();
        for (name, value) in [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", "expired")] {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        app.declare_queue("unread", arguments).await;
    })
    .await;
    let properties =
        RawProperties::of_headers(&[Field::int("x-delay", 1_500)]).with_text(property::EXPIRATION, "500");
    let mut inbox = scene.app.consume(INBOX).await;
    let before = scene.send(&properties, b"read").await;
    scene.raw.publish(ENTRY, "unread", &properties, b"unread").await;

    let read = inbox.next(SOON).await;
    assert!(read.at_ms >= before + 1_500);
    assert_eq!(read.delivery.properties.expiration().as_ref().map(|text| text.as_str()), Some("500"));
    let expired = scene.receive_from("expired").await;
    assert!(expired.at_ms >= before + 1_500 + 500, "it expired before it was delivered");
    assert_eq!(expired.message.body, b"unread");
    assert_eq!(text(&expired.message.properties, "x-first-death-queue"), "unread");
}

/// CC is honoured at the target, exactly once; BCC is taken off by the broker before Leveret sees it.
async fn copies_are_made_once_and_at_delivery(broker: &Broker) {
    const QUEUES: [&str; 3] = ["copy.a", "copy.b", "hidden"];
    let mut scene = Scene::prepared(broker, "", async |app| {
        for queue in QUEUES {
            app.declare_queue(queue, FieldTable::default()).await;
        }
    })
    .await;
    for delay in DELAYS_MS {
        let published = RawProperties::of_headers(&[
            Field::texts("CC", &["copy.a", "copy.b", "nowhere"]),
            Field::texts("BCC", &["hidden"]),
            Field::int("x-delay", delay),
        ]);
        let before = scene.send(&published, b"copied").await;
        let visible: Vec<_> = published.headers().into_iter().filter(|field| field.name != "BCC").collect();
        let mut ids = BTreeSet::new();
        for queue in [INBOX, "copy.a", "copy.b"] {
            let came = scene.receive_from(queue).await;
            assert!(came.at_ms >= before + i64::from(delay));
            assert_delivered(&came.message.properties, &published.with_headers(&visible));
            assert_eq!(came.message.routing_key, INBOX);
            ids.insert(text(&came.message.properties, "x-leveret-id"));
        }
        assert_eq!(ids.len(), 1, "copies of one message have one id: {ids:?}");
    }
    scene.nothing_more().await;
    for queue in QUEUES {
        assert_eq!(scene.raw.get(queue).await, None, "{queue}");
    }
}

/// A copy to an ingress queue would come back at once, copies and all, for ever.
async fn copies_cannot_lead_back_into_leveret(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for own in ["leveret.ingress.default", "leveret.due", "leveret.level.1s"] {
        let headers = [Field::texts("CC", &["elsewhere", own]), Field::int("x-delay", 200)];
        scene.send(&RawProperties::of_headers(&headers), own.as_bytes()).await;
        let parked = scene.parked().await;
        assert_eq!(text(&parked.properties, "x-leveret-reason"), "target-loops");
        assert!(text(&parked.properties, "x-leveret-detail").contains(own));
        assert_eq!(parked.body, own.as_bytes());
    }
    scene.nothing_more().await;
}
