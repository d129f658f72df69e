//! What the parked queue holds: read for a person, and given another try.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::ShortString;
use ulid::Ulid;

use super::dead_letter::DeadLetter;
use super::dress::rebuild;
use super::envelope;
use super::intake::REDELIVERY_HEADERS;
use crate::amqp::properties;
use crate::amqp::publisher::Outgoing;
use crate::amqp::topology::Names;
use crate::domain::bundle::{self, BundleError};
use crate::domain::codec::Codec;
use crate::domain::header;
use crate::domain::message::{Message, Text};
use crate::domain::park::Reason;
use crate::domain::time::UnixMillis;

/// The reason that is told of what the broker itself moved to the parked queue.
pub const DEAD_LETTERED: &str = "dead-lettered";

/// The reason that is told of what nobody knows, such as what another program published there.
pub const UNKNOWN: &str = "unknown";

/// What the parked queue tells of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Leveret's id of the message, where it has one.
    pub id: Option<String>,
    /// A reason's name, as it was written; [`DEAD_LETTERED`] or [`UNKNOWN`].
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
    /// Reads the reason headers, or else what the broker wrote.
    #[must_use]
    pub fn read(delivery: &Delivery, names: &Names) -> Self {
        let props = &delivery.properties;
        let body_bytes = delivery.data.len();
        if let Some(death) = dead_letter(delivery, names) {
            return Self {
                id: None,
                reason: DEAD_LETTERED.to_owned(),
                detail: format!("the broker moved it here from queue \"{}\": {}", death.queue, death.why),
                bridge: death.bridge.unwrap_or_default(),
                target: None,
                routing_key: death.routing_key,
                due: None,
                parked_at: death.at,
                body_bytes,
            };
        }
        let said = |name: &str| properties::text_header(props, name).map(ToOwned::to_owned);
        Self {
            id: said(header::ID),
            reason: said(header::REASON).unwrap_or_else(|| UNKNOWN.to_owned()),
            detail: said(header::DETAIL).unwrap_or_default(),
            bridge: said(header::BRIDGE).unwrap_or_default(),
            target: said(header::EXCHANGE),
            routing_key: said(header::ROUTING_KEY).unwrap_or_default(),
            due: time(props, header::DUE),
            parked_at: time(props, header::PARKED_AT),
            body_bytes,
        }
    }
}

/// Leveret parks without a routing key and with a reason: what has both is its own, and nothing else is believed.
fn dead_letter(delivery: &Delivery, names: &Names) -> Option<DeadLetter> {
    let reasoned = properties::header(&delivery.properties, header::REASON).is_some();
    if reasoned && delivery.routing_key.as_str().is_empty() {
        return None;
    }
    DeadLetter::read(&delivery.properties, names)
}

fn time(props: &BasicProperties, name: &str) -> Option<UnixMillis> {
    let millis = properties::integer(properties::header(props, name)?)?;
    u64::try_from(millis).ok().map(UnixMillis)
}

/// Why a parked message cannot be given another try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryError {
    /// It is a bundle that this version cannot read.
    #[error("by this version: {0}")]
    Bundle(#[from] BundleError),
    /// It cannot be published as it was.
    #[error(
        "at all: a text in its routing key, header names or properties is not UTF-8, which Leveret cannot publish; read \
         its detail, publish a corrected message, and discard this one"
    )]
    UnreadableMessage,
}

/// The publish that gives a parked message another try, now. What came as a bundle goes back as one.
///
/// # Errors
/// Where it is a bundle that this version cannot read, or a message that none can: it would only be parked again.
pub fn retry(
    delivery: Delivery,
    names: &Names,
    codec: &Codec,
    now: UnixMillis,
) -> Result<Outgoing, RetryError> {
    let death = dead_letter(&delivery, names);
    let reason = properties::text_header(&delivery.properties, header::REASON);
    if death.is_none() && reason == Some(Reason::UnreadableMessage.as_str()) {
        return Err(RetryError::UnreadableMessage);
    }
    let messages = if is_bundle(&delivery.properties, death.as_ref()) {
        // A bundle that the broker moved here was on its way: its messages may not be due yet.
        let on_its_way = death.is_some();
        let mut messages = codec.decode(delivery.data.into())?;
        if !on_its_way {
            messages.iter_mut().for_each(|message| due_now(message, now));
        }
        messages
    } else {
        vec![restore(delivery, names, now)]
    };
    Ok(Outgoing {
        exchange: names.due(),
        routing_key: String::new(),
        properties: envelope::properties(&messages, now),
        body: bundle::encode(&messages),
        mandatory: true,
    })
}

/// Whether it is an envelope of Leveret's. An application's message may claim the content type, but not Leveret's mark;
/// both together it can claim only where nothing of Leveret's has read it.
fn is_bundle(props: &BasicProperties, death: Option<&DeadLetter>) -> bool {
    let reason = properties::text_header(props, header::REASON);
    let marked = properties::header(props, header::BUNDLE_VERSION).is_some()
        || reason == Some(Reason::UnreadableBundle.as_str());
    let enveloped = props.content_type().as_ref().is_some_and(|kind| kind.as_str() == bundle::CONTENT_TYPE);
    enveloped && marked && death.is_none_or(|death| death.bridge.is_none())
}

/// A retry means "deliver now", also for a message that was parked before it had a due time; and what was given up on
/// for being overdue gets its whole time again.
fn due_now(message: &mut Message, now: UnixMillis) {
    message.due = now;
    message.left = Duration::ZERO;
    message.refused_since = None;
}

/// The message as it was before it was parked.
fn restore(delivery: Delivery, names: &Names, now: UnixMillis) -> Message {
    let death = dead_letter(&delivery, names);
    let Delivery { properties: props, data, redelivered, .. } = delivery;
    let props = without_redelivery(props, redelivered);
    let published = match &death {
        Some(death) => published_before(props.clone(), death),
        None => published(&props),
    };
    let said = |name: &str| Text::from(properties::text_header(&props, name).unwrap_or_default());
    let (bridge, exchange, routing_key) = match &death {
        Some(death) => (
            death.bridge.as_deref().unwrap_or_default().into(),
            death.exchange.as_str().into(),
            death.routing_key.as_str().into(),
        ),
        None => (said(header::BRIDGE), said(header::ENTRY_EXCHANGE), said(header::ROUTING_KEY)),
    };
    // Nothing of Leveret's is on what the broker dead-lettered: such headers would be an application's.
    let own =
        |name| Some(&props).filter(|_| death.is_none()).and_then(|props| properties::header(props, name));
    let id = own(header::ID).and_then(properties::text).and_then(|id| Ulid::from_string(id).ok());
    let accepted_at = own(header::ACCEPTED_AT).and_then(properties::integer);
    let hops = own(header::HOPS).and_then(properties::integer);
    Message {
        id: id.unwrap_or_else(Ulid::new),
        bridge,
        exchange,
        routing_key,
        due: now,
        left: Duration::ZERO,
        accepted_at: accepted_at.and_then(|at| u64::try_from(at).ok()).map_or(now, UnixMillis),
        hops: hops.and_then(|hops| u32::try_from(hops).ok()).unwrap_or_default(),
        refused_since: None,
        key: key(&published).into(),
        properties: properties::encode(&published),
        body: data.into(),
    }
}

fn key(published: &BasicProperties) -> &str {
    properties::text_header(published, header::DELAY_KEY)
        .or_else(|| published.message_id().as_ref().map(ShortString::as_str))
        .unwrap_or_default()
}

/// Looking at the parked queue returns what was looked at: then the broker counts, and the count is not the
/// application's. RabbitMQ 3.10 writes a count of 0 at the first delivery too.
fn without_redelivery(props: BasicProperties, redelivered: bool) -> BasicProperties {
    properties::with_headers(props, |headers| {
        headers.retain(|name, count| {
            let counted = redelivered || properties::integer(count) == Some(0);
            !(counted && REDELIVERY_HEADERS.contains(&name.as_str()))
        });
    })
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
    without_own(restored)
}

fn published_before(props: BasicProperties, death: &DeadLetter) -> BasicProperties {
    let restored = rebuild(&DeadLetter::undo(props), |fields| {
        if let Some(expiration) = &death.expiration {
            fields.expiration = Some(expiration.as_str().into());
        }
    });
    without_own(restored)
}

/// The table may have been there only for Leveret's headers; an empty one is the same to every consumer.
fn without_own(props: BasicProperties) -> BasicProperties {
    properties::with_headers(props, |headers| {
        headers.retain(|name, _| !name.as_str().starts_with(header::OWN_PREFIX));
    })
}

#[cfg(test)]
mod tests;
