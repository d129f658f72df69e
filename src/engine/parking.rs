//! Parking: how a message is written to the parked queue. How it is read back is the business of [`super::parked`].

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use ulid::Ulid;

use super::dress::{fits, rebuild};
use crate::amqp::properties;
use crate::amqp::publisher::Outgoing;
use crate::amqp::sieve::Unreadable;
use crate::domain::bundle;
use crate::domain::header;
use crate::domain::message::Message;
use crate::domain::park::Reason;
use crate::domain::time::UnixMillis;

const PERSISTENT: u8 = 2;

/// Longest text kept of a detail, in bytes: it may quote the broker, which may quote the message.
const DETAIL_BYTES: usize = 1_024;

/// Why a message is parked, and where it was going.
#[derive(Debug, Clone)]
pub struct Cause {
    /// The reason, from a fixed set.
    pub reason: Reason,
    /// The reason in words.
    pub detail: String,
    /// The exchange that the message was meant for, where that is known.
    pub target: Option<String>,
}

/// Writes a message for the parked queue: body and properties as published, with the reason as headers. What would
/// act on it while it is parked (`expiration`, `user_id`, a transient delivery mode) is moved to headers as well.
#[must_use]
pub fn park(message: &Message, cause: &Cause, parked: &str, now: UnixMillis, frame_max: usize) -> Outgoing {
    let whole = properties::decode(&message.properties).map(|props| set_aside(&props, message, cause, now));
    let (properties, body) = match whole {
        Some(props) if fits(&props, frame_max) && properties::are_for_rabbitmq(&props) => {
            (props, message.body.clone())
        }
        // Properties that leave no room for the reason, or that cannot be read: the message goes in as a bundle.
        _ => (bundled(headers(message, cause, now)), bundle::encode(std::slice::from_ref(message))),
    };
    outgoing(parked, properties, body)
}

/// Parks a message that the client library cannot read: its body, and what is known of it as headers. It has an id, so
/// that it can be named.
#[must_use]
pub fn park_unreadable_message(
    message: &Unreadable,
    bridge: &str,
    parked: &str,
    now: UnixMillis,
    frame_max: usize,
) -> Outgoing {
    let mut table = FieldTable::default();
    let mut set = |name: &str, value| {
        table.insert(name.into(), value);
    };
    set(header::REASON, text(Reason::UnreadableMessage.as_str()));
    set(header::DETAIL, text(clip(&message.fault)));
    set(header::ID, text(&Ulid::new().to_string()));
    set(header::BRIDGE, text(bridge));
    set(header::ENTRY_EXCHANGE, text(&String::from_utf8_lossy(&message.exchange)));
    set(header::ROUTING_KEY, text(&String::from_utf8_lossy(&message.routing_key)));
    set(header::PARKED_AT, number(now.0));
    if std::str::from_utf8(&message.routing_key).is_err() {
        set(header::RAW_ROUTING_KEY, AMQPValue::ByteArray(message.routing_key.as_slice().into()));
    }
    let bare = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(table);
    let whole = properties::with_headers(bare.clone(), |table| {
        let raw = AMQPValue::ByteArray(message.properties.as_slice().into());
        table.insert(header::RAW_PROPERTIES.into(), raw);
    });
    outgoing(parked, if fits(&whole, frame_max) { whole } else { bare }, message.body.clone())
}

/// Parks an envelope that cannot be read, as it came.
#[must_use]
pub fn park_unreadable(
    props: &BasicProperties,
    body: Bytes,
    detail: &str,
    parked: &str,
    now: UnixMillis,
    frame_max: usize,
) -> Outgoing {
    let add = |table: &mut std::collections::BTreeMap<ShortString, AMQPValue>| {
        table.insert(header::REASON.into(), text(Reason::UnreadableBundle.as_str()));
        table.insert(header::DETAIL.into(), text(clip(detail)));
        table.insert(header::PARKED_AT.into(), number(now.0));
    };
    let props = rebuild(props, |fields| {
        fields.expiration = None;
        fields.user_id = None;
        fields.delivery_mode = Some(PERSISTENT);
    });
    let marked = properties::with_headers(props.clone(), add);
    outgoing(parked, if fits(&marked, frame_max) { marked } else { props }, body)
}

fn outgoing(parked: &str, properties: BasicProperties, body: Bytes) -> Outgoing {
    Outgoing { exchange: parked.to_owned(), routing_key: String::new(), properties, body, mandatory: true }
}

pub(super) fn bundled(mut headers: FieldTable) -> BasicProperties {
    headers.insert(header::BUNDLE_VERSION.into(), AMQPValue::LongLongInt(bundle::VERSION.into()));
    BasicProperties::default()
        .with_content_type(bundle::CONTENT_TYPE.into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
}

fn set_aside(props: &BasicProperties, message: &Message, cause: &Cause, now: UnixMillis) -> BasicProperties {
    let mut moved: Vec<(&str, AMQPValue)> = Vec::new();
    let bare = rebuild(props, |fields| {
        if let Some(expiration) = fields.expiration.take() {
            moved.push((header::EXPIRATION, text(expiration.as_str())));
        }
        if let Some(user) = fields.user_id.take() {
            moved.push((header::USER_ID, text(user.as_str())));
        }
        // -1 says that there was none.
        let mode = fields.delivery_mode.replace(PERSISTENT).map_or(-1, i32::from);
        if mode != i32::from(PERSISTENT) {
            moved.push((header::DELIVERY_MODE, AMQPValue::LongInt(mode)));
        }
    });
    properties::with_headers(bare, |table| {
        table.extend(headers(message, cause, now).inner().clone());
        table.extend(moved.into_iter().map(|(name, value)| (name.into(), value)));
    })
}

fn headers(message: &Message, cause: &Cause, now: UnixMillis) -> FieldTable {
    let mut table = FieldTable::default();
    let mut set = |name: &str, value| {
        table.insert(name.into(), value);
    };
    set(header::REASON, text(cause.reason.as_str()));
    set(header::DETAIL, text(clip(&cause.detail)));
    set(header::ID, text(&message.id.to_string()));
    set(header::BRIDGE, text(message.bridge.as_str()));
    if let Some(target) = &cause.target {
        set(header::EXCHANGE, text(target));
    }
    set(header::ENTRY_EXCHANGE, text(message.exchange.as_str()));
    set(header::ROUTING_KEY, text(message.routing_key.as_str()));
    set(header::DUE, number(message.due.0));
    set(header::ACCEPTED_AT, number(message.accepted_at.0));
    set(header::HOPS, number(message.hops.into()));
    set(header::PARKED_AT, number(now.0));
    table
}

pub(super) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub(super) fn number(value: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(value).unwrap_or(i64::MAX))
}

fn clip(detail: &str) -> &str {
    let end = (0..=DETAIL_BYTES.min(detail.len())).rev().find(|at| detail.is_char_boundary(*at));
    detail.get(..end.unwrap_or_default()).unwrap_or_default()
}
