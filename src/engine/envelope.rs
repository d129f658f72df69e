//! The envelope: how a closed bundle is published, and what it tells when it is back.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::amqp::properties as amqp_properties;
use crate::amqp::publisher::Outgoing;
use crate::amqp::topology::Names;
use crate::domain::bundle;
use crate::domain::codec::{Codec, EncryptError};
use crate::domain::header;
use crate::domain::ladder::Ladder;
use crate::domain::message::Message;
use crate::domain::packer::{Destination, Packed};
use crate::domain::time::UnixMillis;

const PERSISTENT: u8 = 2;
/// Set by the broker on what it dead-letters.
const DEATHS: &str = "x-death";

/// Writes a closed bundle for its destination.
///
/// # Errors
/// Where it cannot be encrypted.
pub fn seal<T>(
    packed: &Packed<T>,
    ladder: &Ladder,
    names: &Names,
    codec: &Codec,
    now: UnixMillis,
) -> Result<Outgoing, EncryptError> {
    let level = match packed.destination {
        Destination::Level(index) => ladder.levels().get(index),
        Destination::Due => None,
    };
    let (exchange, routing_key) = match level {
        Some(level) => (names.level_exchange(), names.level(&level.label)),
        None => (names.due(), String::new()),
    };
    Ok(Outgoing {
        exchange,
        routing_key,
        properties: properties(&packed.messages, now),
        body: codec.encode(&packed.messages)?,
        mandatory: true,
    })
}

/// The envelope's properties: for the eyes of an operator, and for the broker's answer to how old a queue's head is.
/// Leveret itself does not read them.
pub fn properties(messages: &[Message], now: UnixMillis) -> BasicProperties {
    let due = || messages.iter().map(|message| message.due.0);
    let number = |n: u64| AMQPValue::LongLongInt(i64::try_from(n).unwrap_or(i64::MAX));
    let mut headers = FieldTable::default();
    headers.insert(header::BUNDLE_VERSION.into(), number(bundle::VERSION.into()));
    headers.insert("x-leveret-count".into(), number(messages.len() as u64));
    headers.insert("x-leveret-first-due".into(), number(due().min().unwrap_or_default()));
    headers.insert("x-leveret-last-due".into(), number(due().max().unwrap_or_default()));
    BasicProperties::default()
        .with_content_type(bundle::CONTENT_TYPE.into())
        .with_delivery_mode(PERSISTENT)
        .with_timestamp(now.0 / 1_000)
        .with_headers(headers)
}

/// Whether a bundle that came from the due queue has served the hop that it was sealed for. One that somebody took out of
/// its level before the TTL was over, to move it to another broker, has not.
///
/// The broker dead-letters what has served its TTL, and says so. What was sealed for the due queue itself has no routing
/// key, and no hop to serve.
pub(super) fn has_served(routing_key: &str, properties: &BasicProperties) -> bool {
    routing_key.is_empty() || amqp_properties::header(properties, DEATHS).is_some()
}
