//! When a message is due: every value of every header that says so, seen where it cannot be mistaken.
//!
//! Each message is published twice. One copy reaches the inbox, and may not be early. The other has a routing key that
//! leads nowhere, so it is parked when it is due, and its headers tell the exact moment.

use std::collections::HashMap;

use jiff::Timestamp;
use leveret::domain::bundle;

use super::scene::{ENTRY, INBOX, LONG_LEVEL, SOON, Scene, number};
use crate::harness::broker::Broker;
use crate::harness::client::now_ms;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};

pub(crate) const CASES: &[Case] = cases![
    shared: every_delay, every_moment, the_first_header_decides, a_bridge_has_a_default_delay,
        the_clock_starts_when_the_broker_took_the_message, long_delays, at_once_means_without_a_bundle
];

/// When a message is expected to be due.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// So many milliseconds after it was accepted.
    After(u64),
    /// At this Unix time in milliseconds.
    At(i64),
    /// When it was accepted.
    AtOnce,
}

use Due::{After, At, AtOnce};

async fn every_delay(broker: &Broker) {
    let mut rows: Vec<_> = delays("x-delay").collect();
    rows.extend(delays("x-opt-delivery-delay"));
    rows.push((vec![], AtOnce));
    check(&mut Scene::start(broker).await, ENTRY, &rows).await;
}

/// Every way to write a short delay.
fn delays(header: &str) -> impl Iterator<Item = (Vec<Field>, Due)> {
    let value = |tag: char, value: &[u8]| Field::new(header, u8::try_from(tag).unwrap(), value);
    let bytes = [&3_u32.to_be_bytes(), b"300".as_slice()].concat();
    let mut rows = vec![
        (value('b', &100_i8.to_be_bytes()), After(100)),
        (value('B', &[200]), After(200)),
        (value('s', &300_i16.to_be_bytes()), After(300)),
        (value('u', &300_u16.to_be_bytes()), After(300)),
        (value('I', &300_i32.to_be_bytes()), After(300)),
        (value('i', &1_300_u32.to_be_bytes()), After(1_300)),
        (value('l', &300_i64.to_be_bytes()), After(300)),
        (value('f', &299.5_f32.to_be_bytes()), After(300)),
        (value('d', &299.2_f64.to_be_bytes()), After(300)),
        (value('d', &0.1_f64.to_be_bytes()), After(1)),
        (value('D', &[&[0], 300_u32.to_be_bytes().as_slice()].concat()), After(300)),
        (value('D', &[&[2], 29_901_u32.to_be_bytes().as_slice()].concat()), After(300)),
        (value('D', &[&[255], 1_u32.to_be_bytes().as_slice()].concat()), After(1)),
        (value('x', &bytes), After(300)),
        (value('b', &(-1_i8).to_be_bytes()), AtOnce),
        (value('s', &i16::MIN.to_be_bytes()), AtOnce),
        (value('I', &(-300_i32).to_be_bytes()), AtOnce),
        (value('l', &i64::MIN.to_be_bytes()), AtOnce),
        (value('I', &0_i32.to_be_bytes()), AtOnce),
        (value('d', &(-0.5_f64).to_be_bytes()), AtOnce),
        (value('f', &0_f32.to_be_bytes()), AtOnce),
        (value('D', &[0; 5]), AtOnce),
    ];
    rows.extend(
        [
            ("300", After(300)),
            ("+300", After(300)),
            (" 300 ", After(300)),
            ("300.5", After(301)),
            ("1500.5", After(1_501)),
            ("3e2", After(300)),
            ("300ms", After(300)),
            ("1s", After(1_000)),
            ("1s300ms", After(1_300)),
            ("0", AtOnce),
            ("-600", AtOnce),
            ("-1s", AtOnce),
            ("0s", AtOnce),
        ]
        .map(|(text, due)| (Field::text(header, text), due)),
    );
    rows.into_iter().map(|(field, due)| (vec![field], due))
}

async fn every_moment(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let mut rows = moments("x-deliver-at", now_ms());
    rows.extend(moments("x-opt-delivery-time", now_ms()));
    check(&mut scene, ENTRY, &rows).await;
}

/// Every way to write a moment that is near, or past.
fn moments(header: &str, now: i64) -> Vec<(Vec<Field>, Due)> {
    let soon = now + 1_500;
    let seconds = now / 1_000 + 2;
    let timestamp = |seconds: i64| Field::new(header, b'T', &seconds.to_be_bytes());
    let text = |text: &str| Field::text(header, text);
    let iso = |ms: i64| Timestamp::from_millisecond(ms).unwrap().to_string();
    let elsewhere =
        Timestamp::from_millisecond(soon + 2 * 3_600_000).unwrap().to_string().replace('Z', "+02:00");
    // A microsecond after the millisecond: rounded up.
    let finer = iso(soon / 1_000 * 1_000 + 500).replace(".5Z", ".500001Z");
    let rows = [
        (timestamp(seconds), At(seconds * 1_000)),
        (Field::new(header, b'l', &soon.to_be_bytes()), At(soon)),
        (Field::new(header, b'd', &(soon as f64 - 0.5).to_be_bytes()), At(soon)),
        (text(&soon.to_string()), At(soon)),
        (text(&iso(soon)), At(soon)),
        (text(&elsewhere), At(soon)),
        (text(&finer), At(soon / 1_000 * 1_000 + 501)),
        (timestamp(1), AtOnce),
        (Field::int(header, 1), AtOnce),
        (Field::int(header, -1), AtOnce),
        (Field::new(header, b'l', &(now - 1_000).to_be_bytes()), AtOnce),
        (text("2020-02-29T12:00:00Z"), AtOnce),
        (text("1969-12-31T23:59:59.5-08:00"), AtOnce),
    ];
    rows.map(|(field, due)| (vec![field], due)).into()
}

async fn the_first_header_decides(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let soon = now_ms() + 1_000;
    let deliver_at = |ms: i64| Field::new("x-deliver-at", b'l', &ms.to_be_bytes());
    let delivery_time = |ms: i64| Field::new("x-opt-delivery-time", b'l', &ms.to_be_bytes());
    let delay = |ms| Field::int("x-delay", ms);
    let delivery_delay = |ms| Field::int("x-opt-delivery-delay", ms);
    let rows = [
        (
            vec![deliver_at(soon), delivery_time(soon + 50_000), delay(50_000), delivery_delay(50_000)],
            At(soon),
        ),
        (vec![delivery_delay(50_000), delay(50_000), delivery_time(soon)], At(soon)),
        (vec![delivery_delay(50_000), delay(300)], After(300)),
        (vec![delay(0), delivery_delay(50_000)], AtOnce),
        (vec![deliver_at(1), delay(50_000)], AtOnce),
        (vec![Field::int("X-Delay", 50_000), Field::int("x-delays", 50_000)], AtOnce),
    ];
    check(&mut scene, ENTRY, &rows).await;
}

async fn a_bridge_has_a_default_delay(broker: &Broker) {
    let config = "bridges: [{ name: late, entry: { exchange: late }, target: { exchange: '' }, default_delay: 400ms }]";
    let rows = [
        (vec![], After(400)),
        (vec![Field::text("tenant", "a")], After(400)),
        (vec![Field::int("x-delay", 0)], AtOnce),
        (vec![Field::int("x-delay", 200)], After(200)),
        (vec![Field::int("x-delay", 700)], After(700)),
    ];
    check(&mut Scene::with(broker, config).await, "late", &rows).await;
}

/// As RabbitMQ's interceptor says it in a header.
async fn the_clock_starts_when_the_broker_took_the_message(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let taken = now_ms() - 700;
    let stamp = |ms: i64| Field::new("timestamp_in_ms", b'l', &ms.to_be_bytes());
    let delay = |ms| Field::int("x-delay", ms);
    let rows = [
        (vec![stamp(taken), delay(2_000)], At(taken + 2_000)),
        (vec![stamp(taken), delay(0)], At(taken)),
        (vec![stamp(taken), delay(1)], At(taken + 1)),
        (vec![stamp(taken)], At(taken)),
        // A broker that is ahead, and what cannot be a broker's clock: the sidecar's own counts.
        (vec![stamp(taken + 3_600_000), delay(300)], After(300)),
        (vec![stamp(taken / 1_000), delay(300)], After(300)),
        (vec![stamp(-1), delay(300)], After(300)),
        (vec![Field::text("timestamp_in_ms", "now"), delay(300)], After(300)),
    ];
    check(&mut scene, ENTRY, &rows).await;
}

/// Publishes each row's message twice, and looks at what comes and what is parked.
async fn check(scene: &mut Scene, entry: &str, rows: &[(Vec<Field>, Due)]) {
    let mut inbox = scene.app.consume(INBOX).await;
    let mut published = HashMap::new();
    for (index, (headers, due)) in rows.iter().enumerate() {
        let (properties, body) = (RawProperties::of_headers(headers), index.to_string());
        let before = now_ms();
        for key in [INBOX, "nowhere"] {
            scene.raw.publish(entry, key, &properties, body.as_bytes()).await;
        }
        published.insert(body, (headers, *due, before));
    }
    let mut parked = HashMap::new();
    for _ in rows {
        let message = scene.parked().await;
        parked.insert(String::from_utf8(message.body).unwrap(), message.properties);
    }
    assert_eq!(parked.len(), rows.len());
    let mut come = HashMap::new();
    for received in inbox.take(rows.len(), SOON).await {
        let body = String::from_utf8(received.delivery.data).unwrap();
        assert_eq!(come.insert(body, received.at_ms), None, "one came twice");
    }
    for (body, (headers, due, before)) in published {
        let properties = &parked[&body];
        let [accepted, said, parked_at] = ["x-leveret-accepted-at", "x-leveret-due", "x-leveret-parked-at"]
            .map(|name| number(properties, name));
        let expected = match due {
            After(delay) => accepted + i64::try_from(delay).unwrap(),
            At(moment) => moment.max(accepted),
            AtOnce => accepted,
        };
        assert_eq!(said, expected, "due of {headers:?}, accepted at {accepted}, expected {due:?}");
        let earliest = match due {
            After(delay) => before + i64::try_from(delay).unwrap(),
            At(moment) => moment,
            AtOnce => before,
        };
        for (at, what) in [(come[&body], "came"), (parked_at, "was parked")] {
            assert!(at >= earliest, "{headers:?} {what} at {at}, before {earliest}");
        }
    }
    assert!(inbox.drain().is_empty());
    scene.never_reconnected();
}

/// Too long to wait for: the bundles in the longest level tell when they are due.
async fn long_delays(broker: &Broker) {
    const LONGEST: u64 = 3_650 * 86_400_000;
    let mut scene = Scene::start(broker).await;
    let longest = i64::try_from(LONGEST).unwrap();
    let timestamp = now_ms() / 1_000 + 86_400;
    let rows = [
        (Field::new("x-delay", b'i', &u32::MAX.to_be_bytes()), After(u32::MAX.into())),
        (Field::int("x-delay", i32::MAX), After(2_147_483_647)),
        (Field::new("x-delay", b'l', &longest.to_be_bytes()), After(LONGEST)),
        (Field::new("x-delay", b'd', &5e10_f64.to_be_bytes()), After(50_000_000_000)),
        (Field::text("x-delay", "4294967297.5"), After(4_294_967_298)),
        (Field::text("x-delay", "1h30m"), After(5_400_000)),
        (Field::text("x-delay", "3650d"), After(LONGEST)),
        (Field::text("x-opt-delivery-delay", "90000s"), After(90_000_000)),
        (Field::new("x-deliver-at", b'T', &timestamp.to_be_bytes()), At(timestamp * 1_000)),
        (Field::text("x-opt-delivery-time", "2035-07-31T12:00:00+05:30"), At(2_069_476_200_000)),
    ];
    for (index, (field, _)) in rows.iter().enumerate() {
        scene
            .send(&RawProperties::of_headers(std::slice::from_ref(field)), &[u8::try_from(index).unwrap()])
            .await;
    }
    let mut waiting = Vec::new();
    while waiting.len() < rows.len() {
        let envelope = scene.receive_from(LONG_LEVEL).await.message;
        waiting.extend(bundle::decode(envelope.body.into()).unwrap());
    }
    assert_eq!(waiting.len(), rows.len());
    for message in waiting {
        let (field, due) = &rows[usize::from(message.body[0])];
        let expected = match *due {
            After(delay) => message.accepted_at.0 + delay,
            At(moment) => u64::try_from(moment).unwrap(),
            AtOnce => message.accepted_at.0,
        };
        assert_eq!(message.due.0, expected, "due of {field:?}");
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// What need not wait makes no way through Leveret's own queues.
async fn at_once_means_without_a_bundle(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let past = Field::new("x-deliver-at", b'T', &1_u64.to_be_bytes());
    for headers in [vec![], vec![Field::int("x-delay", 0)], vec![Field::text("x-delay", "-1s")], vec![past]] {
        for _ in 0..5 {
            scene.send(&RawProperties::of_headers(&headers), b"").await;
        }
    }
    for _ in 0..20 {
        scene.receive().await;
    }
    assert_eq!(scene.leveret.metrics().sum("leveret_level_bundles_total", &[]), 0.0);
}
