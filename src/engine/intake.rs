//! Reads what applications publish: resolves the due time, keeps everything else as it is.

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, ShortString};
use ulid::Ulid;

use crate::amqp::properties;
use crate::domain::due::{self, DueRules};
use crate::domain::header::{self, HeaderValue};
use crate::domain::message::{Message, Text};
use crate::domain::park::Reason;
use crate::domain::time::UnixMillis;

/// Headers that a quorum queue adds when it delivers again.
pub(super) const REDELIVERY_HEADERS: [&str; 2] = ["x-delivery-count", "x-acquired-count"];

/// A message that cannot be given a due time; its `due` is the moment of intake.
#[derive(Debug)]
pub struct Refused {
    /// The message.
    pub message: Message,
    /// Why it is parked.
    pub reason: Reason,
    /// The reason in words.
    pub detail: String,
}

/// Turns a delivery of an ingress queue into a message. `read_at` is rounded up.
pub fn read(
    delivery: Delivery,
    bridge: &Text,
    rules: &DueRules,
    read_at: UnixMillis,
) -> Result<Message, Box<Refused>> {
    let Delivery { exchange, routing_key, redelivered, properties: props, data, .. } = delivery;
    let lookup = |name: &str| properties::header(&props, name).map(properties::header_value);
    let stamp = lookup(header::TIMESTAMP_IN_MS).filter(|stamp| !is_copied(&props, stamp));
    let accepted_at = due::accepted_at(stamp.as_ref(), read_at);
    let due = due::resolve(rules, lookup, accepted_at);
    let key = properties::text_header(&props, header::DELAY_KEY)
        .or_else(|| props.message_id().as_ref().map(ShortString::as_str))
        .unwrap_or_default();
    let message = Message {
        id: Ulid::new(),
        bridge: bridge.clone(),
        exchange: exchange.as_str().into(),
        routing_key: routing_key.as_str().into(),
        due: *due.as_ref().unwrap_or(&accepted_at),
        left: std::time::Duration::ZERO,
        accepted_at,
        hops: 0,
        refused_since: None,
        key: key.into(),
        properties: properties::encode(&as_published(props, redelivered)),
        body: data.into(),
    };
    match due {
        Ok(_) => Ok(message),
        Err(error) => Err(Box::new(Refused { message, reason: error.reason(), detail: error.to_string() })),
    }
}

/// Whether the broker's stamp belongs to an earlier publish: a consumer that publishes what it received, with all its
/// headers, copies the stamp too where no interceptor overwrites it. The copied id tells when that earlier publish was
/// read, and the stamp of this one must be later.
fn is_copied(props: &BasicProperties, stamp: &HeaderValue) -> bool {
    let earlier = properties::text_header(props, header::ID).and_then(|id| Ulid::from_string(id).ok());
    let stamp = match stamp {
        HeaderValue::Integer(millis) => *millis,
        HeaderValue::Timestamp(seconds) => i128::from(*seconds) * 1_000,
        _ => return false,
    };
    earlier.is_some_and(|id| stamp <= i128::from(id.timestamp_ms()))
}

/// Takes off what is not the application's: Leveret's own headers, and those of a redelivery.
fn as_published(props: BasicProperties, redelivered: bool) -> BasicProperties {
    let foreign = |name: &str| {
        name.starts_with(header::OWN_PREFIX) || (redelivered && REDELIVERY_HEADERS.contains(&name))
    };
    let touched =
        props.headers().as_ref().is_some_and(|table| table.inner().keys().any(|name| foreign(name.as_str())));
    if !touched {
        return props;
    }
    properties::with_headers(props, |headers| {
        headers.retain(|name, _: &mut AMQPValue| !foreign(name.as_str()))
    })
}
