//! Parked messages: how one is written to the parked queue, and how it is read back for another try.

use std::time::Duration;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use ulid::Ulid;

use super::dress::{fits, rebuild};
use crate::amqp::properties;
use crate::amqp::publisher::Outgoing;
use crate::domain::bundle;
use crate::domain::header;
use crate::domain::message::{Message, Text};
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
        Some(props) if fits(&props, frame_max) => (props, message.body.clone()),
        // Properties that leave no room for the reason, or that cannot be read: the message goes in as a bundle.
        _ => (envelope(headers(message, cause, now)), bundle::encode(std::slice::from_ref(message))),
    };
    outgoing(parked, properties, body)
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

fn envelope(headers: FieldTable) -> BasicProperties {
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

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn number(value: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(value).unwrap_or(i64::MAX))
}

fn clip(detail: &str) -> &str {
    let end = (0..=DETAIL_BYTES.min(detail.len())).rev().find(|at| detail.is_char_boundary(*at));
    detail.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// What the parked queue tells of one message.
#[derive(Debug, Clone)]
pub struct Parked {
    /// Leveret's id of the message, where it has one.
    pub id: Option<String>,
    /// The reason's name, as it was written.
    pub reason: String,
    /// The reason in words.
    pub detail: String,
    /// The bridge that took it.
    pub bridge: String,
    /// The exchange that it was meant for.
    pub target: Option<String>,
    /// Its own routing key.
    pub routing_key: String,
    /// When it was due.
    pub due: Option<UnixMillis>,
    /// When it was parked.
    pub parked_at: Option<UnixMillis>,
    /// Size of its body in the parked queue, in bytes.
    pub body_bytes: usize,
}

impl Parked {
    /// Reads the reason headers.
    #[must_use]
    pub fn read(props: &BasicProperties, body: &[u8]) -> Self {
        let said = |name: &str| properties::text_header(props, name).map(ToOwned::to_owned);
        let time = |name: &str| time(props, name);
        Self {
            id: said(header::ID),
            reason: said(header::REASON).unwrap_or_else(|| "unknown".to_owned()),
            detail: said(header::DETAIL).unwrap_or_default(),
            bridge: said(header::BRIDGE).unwrap_or_default(),
            target: said(header::EXCHANGE),
            routing_key: said(header::ROUTING_KEY).unwrap_or_default(),
            due: time(header::DUE),
            parked_at: time(header::PARKED_AT),
            body_bytes: body.len(),
        }
    }
}

fn time(props: &BasicProperties, name: &str) -> Option<UnixMillis> {
    let millis = properties::integer(properties::header(props, name)?)?;
    u64::try_from(millis).ok().map(UnixMillis)
}

/// The bundle that gives a parked message another try, due now. What came as a bundle goes back as one.
#[must_use]
pub fn retry_bundle(props: &BasicProperties, body: &Bytes, now: UnixMillis) -> Bytes {
    let enveloped = props.content_type().as_ref().is_some_and(|kind| kind.as_str() == bundle::CONTENT_TYPE);
    if !enveloped {
        return bundle::encode(&[restore(props, body.clone(), now)]);
    }
    match bundle::decode(body.clone()) {
        Ok(mut messages) => {
            messages.iter_mut().for_each(|message| due_now(message, now));
            bundle::encode(&messages)
        }
        // Still unreadable: it goes through as it is, and a newer Leveret may know it.
        Err(_) => body.clone(),
    }
}

fn due_now(message: &mut Message, now: UnixMillis) {
    message.due = message.due.min(now);
    message.left = Duration::ZERO;
    message.refused_since = None;
}

/// The message as it was before it was parked.
fn restore(props: &BasicProperties, body: Bytes, now: UnixMillis) -> Message {
    let said = |name: &str| Text::from(properties::text_header(props, name).unwrap_or_default());
    let id = Ulid::from_string(said(header::ID).as_str()).unwrap_or_else(|_| Ulid::new());
    let hops = properties::header(props, header::HOPS).and_then(properties::integer).unwrap_or_default();
    let published = published(props);
    let key = properties::text_header(&published, header::DELAY_KEY)
        .or_else(|| published.message_id().as_ref().map(ShortString::as_str))
        .unwrap_or_default()
        .into();
    Message {
        id,
        bridge: said(header::BRIDGE),
        exchange: said(header::ENTRY_EXCHANGE),
        routing_key: said(header::ROUTING_KEY),
        // A retry means "deliver now", also for a message that was parked before it had a due time; and what was
        // given up on for being overdue gets its whole time again.
        due: now,
        left: Duration::ZERO,
        accepted_at: time(props, header::ACCEPTED_AT).unwrap_or(now),
        hops: u32::try_from(hops).unwrap_or_default(),
        refused_since: None,
        key,
        properties: properties::encode(&published),
        body,
    }
}

fn published(props: &BasicProperties) -> BasicProperties {
    let moved = |name: &str| properties::text_header(props, name).map(ShortString::from);
    let mode = properties::header(props, header::DELIVERY_MODE).and_then(properties::integer);
    let restored = rebuild(props, |fields| {
        fields.expiration = moved(header::EXPIRATION);
        fields.user_id = moved(header::USER_ID);
        if let Some(mode) = mode {
            fields.delivery_mode = u8::try_from(mode).ok();
        }
    });
    // The table may have been there only for Leveret's headers; an empty one is the same to every consumer.
    properties::with_headers(restored, |headers| {
        headers.retain(|name, _| !name.as_str().starts_with(header::OWN_PREFIX));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let parked = Parked::read(&out.properties, &out.body);
        assert_eq!(parked.reason, "unroutable");
        assert_eq!(parked.target.as_deref(), Some("orders"));
        assert_eq!((parked.due, parked.parked_at), (Some(UnixMillis(2_000)), Some(UnixMillis(3_000))));
    }

    #[test]
    fn a_retried_message_is_as_it_was_published() {
        for props in [
            published(),
            BasicProperties::default().with_headers(FieldTable::default()).with_delivery_mode(2),
        ] {
            let before = message(&props);
            let out = park(&before, &cause(), "leveret.parked", UnixMillis(3_000), 131_072);
            let after = bundle::decode(retry_bundle(&out.properties, &out.body, UnixMillis(9_000))).unwrap();
            let expected = Message { due: UnixMillis(9_000), key: after[0].key.clone(), ..before };
            assert_eq!(after, [expected]);
        }
    }

    #[test]
    fn properties_without_room_for_the_reason_are_parked_as_a_bundle() {
        let before = message(&published());
        let out = park(&before, &cause(), "leveret.parked", UnixMillis(3_000), 64);
        assert_eq!(out.properties.content_type().as_ref().unwrap().as_str(), bundle::CONTENT_TYPE);
        let after = bundle::decode(retry_bundle(&out.properties, &out.body, UnixMillis(1_500))).unwrap();
        assert_eq!(after, [Message { due: UnixMillis(1_500), ..before }]);
    }
}
