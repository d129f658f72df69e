//! Envelopes that cannot be read, wherever they turn up: parked whole as they came, counted, and nobody else is late
//! for them.

use bytes::Bytes;
use leveret::domain::bundle::{self, CONTENT_TYPE};
use leveret::domain::message::Message;
use leveret::domain::time::UnixMillis;
use std::time::Duration;
use ulid::Ulid;

use super::expected::assert_same;
use super::scene::{INBOX, SOON, Scene, number, text};
use crate::harness::broker::Broker;
use crate::harness::client::now_ms;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, property};

pub(crate) const CASES: &[Case] = cases![
    shared: what_is_no_bundle_is_parked_whole, a_message_that_cannot_be_delivered_costs_its_bundle_nothing
];

/// A message as Leveret itself would carry it.
fn message(key: &str, bridge: &str, properties: &'static [u8]) -> Message {
    let now = UnixMillis(u64::try_from(now_ms()).unwrap());
    Message {
        id: Ulid::new(),
        bridge: bridge.into(),
        exchange: "delay".into(),
        routing_key: key.into(),
        due: now,
        left: Duration::ZERO,
        accepted_at: now,
        hops: 1,
        refused_since: None,
        key: "".into(),
        properties: Bytes::from_static(properties),
        body: Bytes::from_static(b"carried"),
    }
}

/// With the checksum that belongs to these bytes.
fn sealed(content: &[u8]) -> Vec<u8> {
    [content, &crc32c::crc32c(content).to_be_bytes()].concat()
}

/// What is wrong, and what the reason says of it.
fn unreadable() -> Vec<(Vec<u8>, &'static str)> {
    let good = bundle::encode(&[message(INBOX, "default", &[0, 0])]).to_vec();
    let content = &good[..good.len() - 4];
    let changed = |at: usize, value: u8| {
        let mut bytes = content.to_vec();
        bytes[at] = value;
        bytes
    };
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut random = fastrand::Rng::with_seed(1);
    vec![
        (sealed(&changed(4, 200)), "version 200"),
        (sealed(&changed(5, 1)), "decompressed"),
        (sealed(&changed(5, 0x80)), "flags"),
        (sealed(&changed(9, 2)), "in the middle of message 1"),
        (sealed(&[content, b"more"].concat()), "4 bytes after its last message"),
        (damaged, "checksum"),
        (good[..good.len() - 1].to_vec(), "checksum"),
        (std::iter::repeat_with(|| random.u8(..)).take(10_000).collect(), "not a bundle"),
        (b"{\"json\": true}".to_vec(), "not a bundle"),
        (Vec::new(), "not a bundle"),
    ]
}

async fn what_is_no_bundle_is_parked_whole(broker: &Broker) {
    const NEIGHBOUR_MS: i32 = 1_500;
    let mut scene = Scene::start(broker).await;
    let mut inbox = scene.app.consume(INBOX).await;
    let bare = RawProperties::of_headers(&[Field::text("tenant", "a")])
        .with_text(property::CONTENT_TYPE, CONTENT_TYPE)
        .with_text(property::MESSAGE_ID, "m");
    let mut count = 0;
    let mut neighbours = Vec::new();
    for (exchange, key) in [("leveret.due", ""), ("leveret.level", "leveret.level.125ms")] {
        for (body, said) in unreadable() {
            let neighbour = RawProperties::of_headers(&[Field::int("x-delay", NEIGHBOUR_MS)]);
            neighbours.push(scene.send(&neighbour, b"neighbour").await);
            let before = now_ms();
            scene.raw.publish(exchange, key, &bare, &body).await;
            let parked = scene.parked().await;
            assert!(parked.body == body, "{said}: the body changed");
            let properties = parked.properties;
            assert_eq!(text(&properties, "x-leveret-reason"), "unreadable-bundle");
            let detail = text(&properties, "x-leveret-detail");
            assert!(detail.contains(said), "{detail:?} does not say {said:?}");
            assert!(number(&properties, "x-leveret-parked-at") >= before);
            assert_eq!(text(&properties, "tenant"), "a");
            // What the broker and Leveret add is headers alone; and what is parked is persistent.
            let without_headers = |properties: &RawProperties| properties.with(property::HEADERS, None);
            let persistent = bare.with(property::DELIVERY_MODE, Some(vec![2]));
            assert_same(&without_headers(&properties), &without_headers(&persistent));
            count += 1;
        }
    }
    // All are alike, so they come in the order of publishing.
    for (received, before) in inbox.take(neighbours.len(), SOON).await.into_iter().zip(neighbours) {
        assert_eq!(received.delivery.data, b"neighbour");
        assert!(received.at_ms >= before + i64::from(NEIGHBOUR_MS), "a neighbour is early");
    }
    assert!(inbox.drain().is_empty());
    let counted = scene.leveret.metrics().sum("leveret_bundles_unreadable_total", &[]);
    assert_eq!(counted, f64::from(count));
    scene.never_reconnected();
}

/// Each message of a bundle has its own fate.
async fn a_message_that_cannot_be_delivered_costs_its_bundle_nothing(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let messages = [
        message(INBOX, "default", &[0, 0]),
        message(INBOX, "of another time", &[0, 0]),
        message(INBOX, "default", b"these are no properties"),
        message("nowhere", "default", &[0, 0]),
        message(INBOX, "default", &[0, 0]),
    ];
    let envelope = RawProperties::default().with_text(property::CONTENT_TYPE, CONTENT_TYPE);
    scene.raw.publish("leveret.due", "", &envelope, &bundle::encode(&messages)).await;
    for _ in 0..2 {
        assert_eq!(scene.receive().await.message.body, b"carried");
    }
    let mut reasons = Vec::new();
    for _ in 0..3 {
        let parked = scene.parked().await;
        let id = text(&parked.properties, "x-leveret-id");
        let at = messages.iter().position(|message| message.id.to_string() == id).expect("not one of them");
        reasons.push((at, text(&parked.properties, "x-leveret-reason")));
        if at == 2 {
            let [inside] = bundle::decode(parked.body.into()).unwrap().try_into().unwrap();
            assert_eq!(inside, messages[2]);
        } else {
            assert_eq!(parked.body, b"carried");
        }
    }
    reasons.sort();
    let said = |at: usize, reason: &str| (at, reason.to_owned());
    assert_eq!(reasons, [said(1, "unknown-bridge"), said(2, "unreadable-bundle"), said(3, "unroutable")]);
    scene.nothing_more().await;
    scene.never_reconnected();
}
