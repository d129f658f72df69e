//! Sizes at the edges: of headers, bodies and routing keys.

use leveret::domain::bundle;

use super::expected::{assert_delivered, assert_same};
use super::scene::{ENTRY, INBOX, Scene, text};
use crate::harness::broker::Broker;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};

pub(crate) const CASES: &[Case] = cases![
    shared: a_header_of_100_000_bytes, properties_that_fill_a_frame, full_properties_are_parked_whole, bodies_of_8_mib,
        bodies_of_16_mib, a_routing_key_of_255_bytes
];

/// At once, through the due queue alone, and through levels.
const DELAYS_MS: [i32; 3] = [0, 300, 1_500];
const MIB: usize = 1 << 20;
/// What RabbitMQ's frames leave for properties: 131,072 bytes without the rest of a content header.
const FULL: usize = 131_072 - 22;
/// What the header `x-leveret-id` takes.
const ID: usize = 44;

fn delayed(delay_ms: i32) -> RawProperties {
    RawProperties::of_headers(&[Field::int("x-delay", delay_ms)])
}

/// Properties of exactly so many bytes.
fn filled(delay: &Field, bytes: usize) -> RawProperties {
    let with = |length: usize| {
        RawProperties::of_headers(&[Field::text("filler", &"f".repeat(length)), delay.clone()])
    };
    let properties = with(bytes - with(0).bytes.len());
    assert_eq!(properties.bytes.len(), bytes);
    properties
}

/// Sends what is expected to come, and returns what came.
async fn through(scene: &mut Scene, properties: &RawProperties, delay_ms: i32, body: &[u8]) -> RawProperties {
    let before = scene.send(properties, body).await;
    let came = scene.receive().await;
    assert!(came.at_ms >= before + i64::from(delay_ms), "early");
    assert!(came.message.body == body, "the body changed");
    came.message.properties
}

async fn a_header_of_100_000_bytes(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for delay in DELAYS_MS {
        let properties = filled(&Field::int("x-delay", delay), 100_000);
        assert_delivered(&through(&mut scene, &properties, delay, b"").await, &properties);
    }
    scene.never_reconnected();
}

/// Where there is no room for Leveret's annotation, the message goes without it.
async fn properties_that_fill_a_frame(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for delay in DELAYS_MS {
        let with_room = filled(&Field::int("x-delay", delay), FULL - ID);
        assert_delivered(&through(&mut scene, &with_room, delay, b"room").await, &with_room);
        for bytes in [FULL - ID + 1, FULL] {
            let full = filled(&Field::int("x-delay", delay), bytes);
            let negated = full.with_headers(&[full.header("filler").unwrap(), Field::int("x-delay", -delay)]);
            assert_same(&through(&mut scene, &full, delay, b"full").await, &negated);
        }
    }
    // The negated delay is an int32, for which there is no room: it stays as it was.
    let tight = filled(&Field::new("x-delay", b'b', &[100]), FULL);
    assert_same(&through(&mut scene, &tight, 100, b"tight").await, &tight);
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// The reason has no room beside them, so they go inside.
async fn full_properties_are_parked_whole(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for delay in DELAYS_MS {
        let full = filled(&Field::int("x-delay", delay), FULL);
        scene.raw.publish(ENTRY, "nowhere", &full, b"full").await;
        let parked = scene.parked().await;
        assert_eq!(text(&parked.properties, "x-leveret-reason"), "unroutable");
        let [message] = bundle::decode(parked.body.into()).unwrap().try_into().unwrap();
        assert_eq!((message.routing_key.as_str(), &*message.body), ("nowhere", b"full".as_slice()));
        // The flags stand before the properties.
        assert!(message.properties[2..] == full.bytes, "the properties changed");
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

async fn bodies_of_8_mib(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for delay in DELAYS_MS {
        let properties = delayed(delay);
        assert_delivered(&through(&mut scene, &properties, delay, &noise(8 * MIB)).await, &properties);
    }
    scene.never_reconnected();
}

/// The most that RabbitMQ takes from 4.0 on. There, the bundle around such a body is over the limit, so what cannot be
/// delivered at once is parked; before, it is delayed as any other.
async fn bodies_of_16_mib(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let body = noise(16 * MIB);
    for delay in [0, 300] {
        let properties = delayed(delay);
        if delay == 0 || broker.version() < (4, 0) {
            assert_delivered(&through(&mut scene, &properties, delay, &body).await, &properties);
        } else {
            scene.send(&properties, &body).await;
            let parked = scene.parked().await;
            assert_eq!(text(&parked.properties, "x-leveret-reason"), "refused");
            let detail = text(&parked.properties, "x-leveret-detail");
            assert!(detail.contains("max"), "{detail}");
            assert!(parked.body == body, "the body changed");
        }
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// Bytes that no compression and no text encoding would leave alone.
fn noise(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

async fn a_routing_key_of_255_bytes(broker: &Broker) {
    let key = "é".repeat(127) + "k";
    let mut scene = Scene::prepared(broker, "", async |app| {
        app.declare_queue(&key, lapin::types::FieldTable::default()).await;
    })
    .await;
    for delay in DELAYS_MS {
        scene.raw.publish(ENTRY, &key, &delayed(delay), INBOX.as_bytes()).await;
        let came = scene.receive_from(&key).await.message;
        assert_eq!(came.routing_key, key);
        assert_delivered(&came.properties, &delayed(delay));
    }
}
