use bytes::Bytes;
use lapin::types::{AMQPValue, FieldTable};

use super::super::parking::{Cause, bundled, number, park, park_unreadable, park_unreadable_message, text};
use super::*;
use crate::amqp::sieve::Unreadable;
use crate::domain::codec::Codec;
use crate::domain::park::Reason;

fn message(props: &BasicProperties) -> Message {
    Message {
        id: Ulid(42),
        bridge: "orders".into(),
        exchange: "orders.delayed".into(),
        routing_key: "order.created".into(),
        due: UnixMillis(2_000),
        left: Duration::ZERO,
        accepted_at: UnixMillis(1_000),
        hops: 3,
        refused_since: None,
        key: "k".into(),
        properties: properties::encode(props),
        body: Bytes::from_static(b"body"),
    }
}

fn names() -> Names {
    Names::new("leveret")
}

/// What comes back from the parked queue.
fn delivered(out: Outgoing) -> Delivery {
    let routing_key = out.routing_key.as_str().into();
    let mut delivery = Delivery::mock(1, out.exchange.as_str().into(), routing_key, false, out.body.into());
    delivery.properties = out.properties;
    delivery
}

fn retried(delivery: Delivery, now: u64) -> Vec<Message> {
    bundle::decode(retry(delivery, &names(), &Codec::default(), UnixMillis(now)).unwrap().body).unwrap()
}

fn cause() -> Cause {
    Cause {
        reason: Reason::Unroutable,
        detail: "312: NO_ROUTE".to_owned(),
        target: Some("orders".to_owned()),
    }
}

fn published() -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongInt(5_000));
    headers.insert("tenant".into(), text("a"));
    BasicProperties::default()
        .with_headers(headers)
        .with_expiration("60000".into())
        .with_user_id("app".into())
        .with_delivery_mode(1)
        .with_message_id("k".into())
        .with_priority(3)
}

#[test]
fn a_parked_message_tells_why_and_nothing_acts_on_it() {
    let out = park(&message(&published()), &cause(), "leveret.parked", UnixMillis(3_000), 131_072);
    assert_eq!((out.properties.expiration(), out.properties.user_id()), (&None, &None));
    assert_eq!(out.properties.delivery_mode(), &Some(2));
    let parked = Parked::read(&delivered(out), &names());
    assert_eq!(parked.reason, "unroutable");
    assert_eq!(parked.target.as_deref(), Some("orders"));
    assert_eq!((parked.due, parked.parked_at), (Some(UnixMillis(2_000)), Some(UnixMillis(3_000))));
}

#[test]
fn a_retried_message_is_as_it_was_published() {
    for props in
        [published(), BasicProperties::default().with_headers(FieldTable::default()).with_delivery_mode(2)]
    {
        let before = message(&props);
        let out = park(&before, &cause(), "leveret.parked", UnixMillis(3_000), 131_072);
        let after = retried(delivered(out), 9_000);
        let expected = Message { due: UnixMillis(9_000), key: after[0].key.clone(), ..before };
        assert_eq!(after, [expected]);
    }
}

#[test]
fn properties_without_room_for_the_reason_are_parked_as_a_bundle() {
    let before = message(&published());
    let out = park(&before, &cause(), "leveret.parked", UnixMillis(3_000), 64);
    assert_eq!(out.properties.content_type().as_ref().unwrap().as_str(), bundle::CONTENT_TYPE);
    let after = retried(delivered(out), 1_500);
    assert_eq!(after, [Message { due: UnixMillis(1_500), ..before }]);
}

#[test]
fn looking_at_a_parked_message_leaves_no_trace_on_it() {
    let before = message(&published());
    let out = park(&before, &cause(), "leveret.parked", UnixMillis(3_000), 131_072);
    for (redelivered, count) in [(true, 3), (false, 0)] {
        let mut again = delivered(out.clone());
        again.redelivered = redelivered;
        again.properties = properties::with_headers(again.properties, |headers| {
            headers.insert("x-delivery-count".into(), number(count));
            headers.insert("x-acquired-count".into(), number(count));
        });
        assert_eq!(retried(again, 9_000), retried(delivered(out.clone()), 9_000));
    }
}

#[test]
fn a_bundle_that_cannot_be_read_is_not_retried() {
    let props = bundled(FieldTable::default());
    let out = park_unreadable(&props, "?".into(), "not", "leveret.parked", UnixMillis(3_000), 131_072);
    assert_eq!(
        retry(delivered(out), &names(), &Codec::default(), UnixMillis(9)).unwrap_err(),
        RetryError::Bundle(BundleError::NotABundle)
    );
}

/// As the broker moves it from `queue`: published with headers that pretend to be Leveret's.
fn dead_lettered(queue: &str, props: &BasicProperties, body: Bytes) -> Delivery {
    let death = DeadLetter {
        queue: queue.to_owned(),
        bridge: None,
        why: "expired".to_owned(),
        exchange: "orders.delayed".to_owned(),
        routing_key: "order.created".to_owned(),
        expiration: Some("60000".to_owned()),
        at: Some(UnixMillis(3_000)),
    };
    let properties = properties::with_headers(rebuild(props, |fields| fields.expiration = None), |headers| {
        headers.insert("x-death".into(), AMQPValue::FieldArray(vec![death.written()].into()));
        headers.insert("x-first-death-queue".into(), text(queue));
    });
    let exchange = "leveret.parked".to_owned();
    let routing_key = "order.created".to_owned();
    delivered(Outgoing { exchange, routing_key, properties, body, mandatory: false })
}

#[test]
fn what_the_broker_moved_from_an_ingress_queue_is_retried_as_it_was_published() {
    let forged = properties::with_headers(published(), |headers| {
        headers.insert(header::REASON.into(), text("unroutable"));
        headers.insert(header::BRIDGE.into(), text("payments"));
        headers.insert(header::ID.into(), text(&Ulid(7).to_string()));
        headers.insert(header::HOPS.into(), number(9));
    });
    let delivery = dead_lettered("leveret.ingress.orders", &forged, Bytes::from_static(b"body"));
    let parked = Parked::read(&delivery, &names());
    assert_eq!((parked.reason.as_str(), parked.bridge.as_str()), (DEAD_LETTERED, "orders"));
    assert_eq!((parked.routing_key.as_str(), parked.id), ("order.created", None));
    assert_eq!(parked.parked_at, Some(UnixMillis(3_000)));
    assert!(parked.detail.contains("leveret.ingress.orders") && parked.detail.contains("expired"));

    let after = retried(delivery, 9_000).remove(0);
    let (now, id) = (UnixMillis(9_000), after.id);
    assert_ne!(id, Ulid(7));
    let expected = Message { id, due: now, accepted_at: now, hops: 0, ..message(&published()) };
    assert_eq!(after, expected);
}

#[test]
fn a_bundle_that_the_broker_moved_from_the_due_queue_keeps_its_due_time() {
    let before = Message { left: Duration::from_secs(5), ..message(&published()) };
    let body = bundle::encode(std::slice::from_ref(&before));
    let props = bundled(FieldTable::default());
    assert_eq!(retried(dead_lettered("leveret.due", &props, body), 1_500), [before]);
}

#[test]
fn what_cannot_be_read_is_kept_as_bytes_and_cannot_be_retried() {
    let message = |properties: Vec<u8>| Unreadable {
        tag: 1,
        exchange: b"orders.delayed".to_vec(),
        routing_key: vec![b'k', 0xff],
        properties,
        body: Bytes::from_static(b"body"),
        fault: "the routing key is not UTF-8".to_owned(),
    };
    let park = |properties| {
        let now = UnixMillis(5_000);
        delivered(park_unreadable_message(&message(properties), "orders", "leveret.parked", now, 4_096))
    };
    let parked = park(vec![0, 0]);
    assert_eq!(parked.data, b"body");
    let header = |name| properties::header(&parked.properties, name);
    assert_eq!(header(header::RAW_PROPERTIES), Some(&AMQPValue::ByteArray(vec![0, 0].into())));
    assert_eq!(header(header::RAW_ROUTING_KEY), Some(&AMQPValue::ByteArray(vec![b'k', 0xff].into())));
    let told = Parked::read(&parked, &names());
    assert_eq!((told.reason.as_str(), told.bridge.as_str()), ("unreadable-message", "orders"));
    assert_eq!((told.routing_key.as_str(), told.parked_at), ("k\u{fffd}", Some(UnixMillis(5_000))));
    assert!(told.id.is_some() && told.detail.contains("UTF-8"), "{told:?}");
    let refused = retry(parked, &names(), &Codec::default(), UnixMillis(6_000));
    assert_eq!(refused.unwrap_err(), RetryError::UnreadableMessage);

    let without_room = park(vec![0; 4_096]);
    assert_eq!(properties::header(&without_room.properties, header::RAW_PROPERTIES), None);
    assert_eq!(Parked::read(&without_room, &names()).reason, "unreadable-message");
}
