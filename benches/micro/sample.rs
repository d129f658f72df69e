//! Messages as applications publish them.

use std::time::Duration;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use leveret::amqp::properties;
use leveret::domain::ladder::{Ladder, default_levels};
use leveret::domain::message::Message;
use leveret::domain::time::UnixMillis;
use ulid::Ulid;

pub(crate) const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// A JSON body of about that size, each another one.
pub(crate) fn body(size: usize, number: usize) -> Vec<u8> {
    let mut body = String::with_capacity(size + 64);
    body.push('[');
    let mut item = number * 7_919;
    while body.len() < size {
        item = item.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        body.push_str(&format!(
            r#"{{"sku":"{:08x}","quantity":{},"price":"{}.99"}},"#,
            item as u32,
            item % 9,
            item % 97
        ));
    }
    body.truncate(size);
    body.into_bytes()
}

/// A few headers, and what clients usually set.
pub(crate) fn props() -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongInt(30_000));
    headers.insert("tenant".into(), AMQPValue::LongString("acme".into()));
    headers.insert(
        "traceparent".into(),
        AMQPValue::LongString("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    );
    BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2)
        .with_message_id("8a4c2f6e-5d0b-4f53-9a51-0f5f2a3d7c11".into())
        .with_headers(headers)
}

pub(crate) fn message(size: usize, number: usize) -> Message {
    Message {
        id: Ulid(number as u128),
        bridge: "orders".into(),
        exchange: "orders.delayed".into(),
        routing_key: "order.created.eu".into(),
        due: UnixMillis(NOW.0 + 30_000),
        left: Duration::from_secs(14),
        accepted_at: NOW,
        hops: 1,
        refused_since: None,
        key: "8a4c2f6e-5d0b-4f53-9a51-0f5f2a3d7c11".into(),
        properties: properties::encode(&props()),
        body: Bytes::from(body(size, number)),
    }
}

pub(crate) fn messages(count: usize, size: usize) -> Vec<Message> {
    (0..count).map(|number| message(size, number)).collect()
}

pub(crate) fn ladder() -> Ladder {
    Ladder::new(&default_levels()).unwrap()
}

/// Delays of every order of magnitude from a millisecond to a year.
pub(crate) fn delays(count: usize) -> Vec<Duration> {
    const YEAR_MS: f64 = 365.0 * 86_400_000.0;
    (0..count).map(|n| Duration::from_millis(YEAR_MS.powf(n as f64 / count as f64) as u64)).collect()
}
