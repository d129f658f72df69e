//! What means nothing, and what is too long: parked with the reason, never "now", and no neighbour notices.

use std::collections::HashMap;

use super::scene::{ENTRY, INBOX, SOON, Scene, text};
use crate::harness::broker::Broker;
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, encode, prefixed};

pub(crate) const CASES: &[Case] = cases![
    shared: what_means_nothing_is_parked, what_is_too_long_is_parked,
        the_broker_itself_takes_no_number_that_is_not_finite
];

async fn what_means_nothing_is_parked(broker: &Broker) {
    let mut rows = Vec::new();
    for header in ["x-delay", "x-opt-delivery-delay", "x-deliver-at", "x-opt-delivery-time"] {
        rows.extend(nonsense(header));
    }
    for header in ["x-delay", "x-opt-delivery-delay"] {
        rows.push((Field::new(header, b'T', &1_700_000_000_u64.to_be_bytes()), "the timestamp 1700000000"));
        rows.push((Field::text(header, "2035-01-01T00:00:00Z"), "\"2035-01-01T00:00:00Z\""));
    }
    for header in ["x-deliver-at", "x-opt-delivery-time"] {
        for date in ["2035-01-01T00:00:00", "2035-01-01", "tomorrow", "90s", "12:00Z", "2035-02-30T00:00:00Z"]
        {
            rows.push((Field::text(header, date), date));
        }
    }
    let mut scene = Scene::start(broker).await;
    check(&mut scene, "invalid-delay", &rows).await;
}

/// What is neither a delay nor a moment, and how it is shown.
fn nonsense(header: &str) -> impl Iterator<Item = (Field, &'static str)> {
    let binary = prefixed(&[0xff, 0xfe]);
    let inner = encode(&[Field::int("x-delay", 1)]);
    [
        (Field::text(header, "abc"), "\"abc\""),
        (Field::text(header, ""), "\"\""),
        (Field::text(header, "5 minutes ago"), "\"5 minutes ago\""),
        (Field::text(header, "0x10"), "\"0x10\""),
        (Field::text(header, "1,000"), "\"1,000\""),
        (Field::text(header, "NaN"), "\"NaN\""),
        (Field::text(header, "inf"), "\"inf\""),
        (Field::text(header, "\u{1b}[2J"), "\"\\u{1b}[2J\""),
        (Field::new(header, b't', &[1]), "of type boolean"),
        (Field::new(header, b'F', &inner), "of type table"),
        (Field::texts(header, &["1000"]), "of type array"),
        (Field::new(header, b'V', &[]), "of type null"),
        (Field::new(header, b'S', &binary), "of type binary"),
        (Field::new(header, b'x', &binary), "of type binary"),
    ]
    .into_iter()
}

async fn what_is_too_long_is_parked(broker: &Broker) {
    let longest = 3_650 * 86_400_000_i64;
    let rows = [
        (Field::new("x-delay", b'l', &(longest + 1).to_be_bytes()), "315360000001"),
        (Field::new("x-delay", b'l', &i64::MAX.to_be_bytes()), "9223372036854775807"),
        (Field::new("x-delay", b'd', &1e300_f64.to_be_bytes()), "1e300"),
        (Field::text("x-delay", "99999999999999999999999999999999999999999999"), "\"9999999"),
        (Field::text("x-delay", "3651d"), "\"3651d\""),
        (Field::text("x-opt-delivery-delay", "1e40"), "\"1e40\""),
        (Field::text("x-deliver-at", "9999-12-31T23:59:59Z"), "9999-12-31"),
        (Field::new("x-deliver-at", b'T', &u64::MAX.to_be_bytes()), "the timestamp 18446744073709551615"),
        (Field::new("x-opt-delivery-time", b'l', &i64::MAX.to_be_bytes()), "9223372036854775807"),
    ];
    let mut scene = Scene::start(broker).await;
    check(&mut scene, "delay-too-long", &rows).await;
}

/// RabbitMQ closes the publisher's connection: what Leveret would do with such a number is for its unit tests.
async fn the_broker_itself_takes_no_number_that_is_not_finite(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let headers = [Field::new("x-delay", b'd', &number.to_be_bytes())];
        let mut publisher = RawClient::connect(scene.vhost.address(), scene.vhost.name()).await;
        let properties = RawProperties::of_headers(&headers);
        let refused = publisher.try_publish(ENTRY, INBOX, &properties, b"").await.unwrap_err();
        assert!(refused.contains("541"), "{number}: {refused}");
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// Publishes each row's message and a neighbour; the first must be parked, the other must come, and not early.
async fn check(scene: &mut Scene, reason: &str, rows: &[(Field, &str)]) {
    const NEIGHBOUR_MS: i32 = 250;
    let mut inbox = scene.app.consume(INBOX).await;
    let mut neighbours = HashMap::new();
    for (index, (field, _)) in rows.iter().enumerate() {
        let body = u32::try_from(index).unwrap().to_be_bytes();
        // A sound header of lower rank does not help.
        let headers = [field.clone(), Field::text("tenant", "a"), Field::int("y-delay", 1)];
        scene.send(&RawProperties::of_headers(&headers), &body).await;
        let neighbour = [Field::int("x-delay", NEIGHBOUR_MS)];
        neighbours.insert(body.to_vec(), scene.send(&RawProperties::of_headers(&neighbour), &body).await);
    }
    for _ in rows {
        let message = scene.parked().await;
        let index = u32::from_be_bytes(message.body.try_into().unwrap());
        let (field, shown) = &rows[usize::try_from(index).unwrap()];
        let properties = message.properties;
        let detail = text(&properties, "x-leveret-detail");
        assert_eq!(text(&properties, "x-leveret-reason"), reason, "{field:?}: {detail}");
        assert!(detail.contains(&field.name) && detail.contains(shown), "{field:?}: {detail}");
        assert_eq!(properties.header(&field.name).as_ref(), Some(field));
        assert_eq!(text(&properties, "tenant"), "a");
        assert_eq!(text(&properties, "x-leveret-routing-key"), INBOX);
        assert_eq!(text(&properties, "x-leveret-bridge"), "default");
    }
    for received in inbox.take(rows.len(), SOON).await {
        let before = neighbours.remove(&received.delivery.data).expect("one came twice");
        assert!(received.at_ms >= before + i64::from(NEIGHBOUR_MS), "a neighbour is early");
    }
    assert!(inbox.drain().is_empty());
    let parked = scene.leveret.metrics().sum("leveret_messages_parked_total", &[("reason", reason)]);
    assert_eq!(parked, rows.len() as f64);
    scene.never_reconnected();
}
