//! What comes out: the message as it was published, with the few changes that the README lists.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};

use crate::amqp::properties;
use crate::amqp::publisher::Outgoing;
use crate::amqp::topology::Names;
use crate::config::{BridgeConfig, DeliveredHeader};
use crate::domain::due;
use crate::domain::header::{self, HeaderValue};
use crate::domain::message::Message;
use crate::domain::park::Reason;

/// Bytes of a content header frame beside the encoded properties, which begin with their flags.
const HEADER_FRAME_OVERHEAD: usize = 20;

/// Longest name of an exchange, in bytes, whose characters take several: with it, the broker's answer is never cut off
/// unless the virtual host's name is as long.
const LONGEST_NON_ASCII: usize = 100;

/// Annotations may add this much: below it there is no need to measure.
const ANNOTATION_ROOM: usize = 1_024;

/// What the delivery needs to know of its surroundings.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Leveret's own names.
    pub names: Names,
    /// Every bridge's entry exchange.
    pub entries: Vec<String>,
    /// Largest frame of the publishing connection.
    pub frame_max: usize,
}

/// Why a message cannot be dressed for delivery.
#[derive(Debug)]
pub struct Undeliverable {
    /// Why it is parked instead.
    pub reason: Reason,
    /// The reason in words.
    pub detail: String,
}

/// Builds the delivery. `may_restore` tells whether a `user_id` may be published as it is.
pub fn dress(
    message: &Message,
    bridge: &BridgeConfig,
    around: &Surroundings,
    may_restore: impl FnOnce(&str) -> bool,
) -> Result<Outgoing, Undeliverable> {
    let Some(props) = properties::decode(&message.properties) else {
        return Err(undeliverable(
            Reason::UnreadableBundle,
            "its properties are not AMQP properties".to_owned(),
        ));
    };
    if !properties::are_for_rabbitmq(&props) {
        let detail = "RabbitMQ takes no number in headers that is not finite, and no CC that is not an array"
            .to_owned();
        return Err(undeliverable(Reason::Refused, detail));
    }
    let exchange = target(&props, bridge)?;
    let routing_key = message.routing_key.as_str().to_owned();
    check_loop(&exchange, &routing_key, copies(&props), around)?;
    let restore_user = props.user_id().as_ref().is_none_or(|user| may_restore(user.as_str()));
    let properties = annotate(props, message, bridge, around.frame_max, restore_user)?;
    Ok(Outgoing { exchange, routing_key, properties, body: message.body.clone(), mandatory: true })
}

fn undeliverable(reason: Reason, detail: String) -> Undeliverable {
    Undeliverable { reason, detail }
}

/// The bridge's target exchange, or the one that the message names where the bridge allows it.
fn target(props: &BasicProperties, bridge: &BridgeConfig) -> Result<String, Undeliverable> {
    let Some(asked) = properties::header(props, header::DELAY_EXCHANGE) else {
        return Ok(bridge.target.exchange.clone());
    };
    let allowed = |name: &&str| {
        is_answerable(name)
            && (*name == bridge.target.exchange
                || bridge.target.allow.iter().any(|pattern| pattern.matches(name)))
    };
    properties::text(asked).filter(allowed).map(ToOwned::to_owned).ok_or_else(|| {
        let asked = properties::text(asked).unwrap_or("a value that is not text");
        undeliverable(
            Reason::ExchangeNotAllowed,
            format!(
                "header {} names exchange {asked:?}, which no pattern in target.allow of bridge \"{}\" matches, or which is too long",
                header::DELAY_EXCHANGE,
                bridge.name
            ),
        )
    })
}

/// Whether an exchange of that name can be asked for. Of one that is missing, the broker's answer repeats the name, cut off
/// at 255 bytes: in the middle of a character the client could not read that, nor go on. Control characters are at odds with
/// the answer as well; and no name is longer than 255 bytes.
fn is_answerable(name: &str) -> bool {
    let longest = if name.is_ascii() { usize::from(u8::MAX) } else { LONGEST_NON_ASCII };
    name.len() <= longest && !name.chars().any(char::is_control)
}

/// The routing keys of the copies that the broker will make.
fn copies(props: &BasicProperties) -> impl Iterator<Item = &str> {
    // No broker delivers a BCC: it can only have been forged.
    let keys = [header::CC, header::BCC].map(|name| match properties::header(props, name) {
        Some(AMQPValue::FieldArray(keys)) => keys.as_slice(),
        _ => &[],
    });
    keys.into_iter().flatten().filter_map(properties::text)
}

/// A target that leads back into Leveret would turn the message round for ever.
fn check_loop<'a>(
    exchange: &str,
    routing_key: &'a str,
    mut copies: impl Iterator<Item = &'a str>,
    around: &Surroundings,
) -> Result<(), Undeliverable> {
    let owned = |key: &&str| exchange.is_empty() && around.names.owns(key);
    let own_exchange = around.names.owns(exchange) || around.entries.iter().any(|entry| entry == exchange);
    let looping = Some(routing_key).filter(|key| own_exchange || owned(key)).or_else(|| copies.find(owned));
    looping.map_or(Ok(()), |key| {
        let detail = format!("exchange \"{exchange}\" with routing key \"{key}\" leads back into Leveret");
        Err(undeliverable(Reason::TargetLoops, detail))
    })
}

fn annotate(
    props: BasicProperties,
    message: &Message,
    bridge: &BridgeConfig,
    frame_max: usize,
    restore_user: bool,
) -> Result<BasicProperties, Undeliverable> {
    if message.properties.len() + HEADER_FRAME_OVERHEAD + ANNOTATION_ROOM <= frame_max {
        return Ok(with_changes(props, message, bridge, restore_user, bridge.annotate));
    }
    let full = with_changes(props.clone(), message, bridge, restore_user, bridge.annotate);
    if fits(&full, frame_max) {
        return Ok(full);
    }
    // Properties must fit one frame, or the broker closes the whole connection. What Leveret would add goes first.
    let bare = with_changes(props.clone(), message, bridge, restore_user, false);
    if fits(&bare, frame_max) {
        return Ok(bare);
    }
    // A delay may take more bytes when it is negated.
    if restore_user && fits(&props, frame_max) {
        return Ok(props);
    }
    Err(undeliverable(
        Reason::Refused,
        format!(
            "its properties of {} bytes do not fit a frame of {frame_max} bytes",
            message.properties.len()
        ),
    ))
}

/// Whether properties fit one frame.
pub(super) fn fits(props: &BasicProperties, frame_max: usize) -> bool {
    properties::encode(props).len() + HEADER_FRAME_OVERHEAD <= frame_max
}

fn with_changes(
    props: BasicProperties,
    message: &Message,
    bridge: &BridgeConfig,
    restore_user: bool,
    annotate: bool,
) -> BasicProperties {
    let moved_user = if restore_user { None } else { props.user_id().clone() };
    let delay = properties::header(&props, header::DELAY).cloned();
    let remove_delay = delay.is_some() && bridge.delivered_header == DeliveredHeader::Remove;
    let negated =
        delay.filter(|_| bridge.delivered_header == DeliveredHeader::Negate).and_then(|d| negated(&d));
    if moved_user.is_none() && !remove_delay && negated.is_none() && !annotate {
        return props;
    }
    let props = if moved_user.is_some() { rebuild(&props, |fields| fields.user_id = None) } else { props };
    properties::with_headers(props, |headers| {
        let mut set = |name: &str, value| headers.insert(ShortString::from(name), value);
        if let Some(user) = moved_user {
            set(header::USER_ID, AMQPValue::LongString(user.as_str().into()));
        }
        if annotate {
            set(header::ID, AMQPValue::LongString(message.id.to_string().into()));
        }
        if let Some(negated) = negated {
            set(header::DELAY, negated);
        }
        if remove_delay {
            headers.remove(header::DELAY);
        }
    })
}

/// The delay negated, in the narrowest signed integer that every client reads; `None` where it did not delay.
fn negated(delay: &AMQPValue) -> Option<AMQPValue> {
    let millis = match properties::header_value(delay) {
        HeaderValue::Integer(millis) => millis,
        other => due::delay_millis(&other)?,
    };
    if millis <= 0 {
        return None;
    }
    let negated = -millis;
    i32::try_from(negated)
        .map(AMQPValue::LongInt)
        .or_else(|_| i64::try_from(negated).map(AMQPValue::LongLongInt))
        .ok()
}

/// The properties that may have to be taken off: the client's type can only set them.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) expiration: Option<ShortString>,
    pub(super) user_id: Option<ShortString>,
    pub(super) delivery_mode: Option<u8>,
}

/// A copy of `props` with some fields changed.
pub(super) fn rebuild(props: &BasicProperties, change: impl FnOnce(&mut Fields)) -> BasicProperties {
    let mut fields = Fields {
        expiration: props.expiration().clone(),
        user_id: props.user_id().clone(),
        delivery_mode: *props.delivery_mode(),
    };
    change(&mut fields);
    let mut out = BasicProperties::default();
    macro_rules! copy {
        ($($get:ident => $set:ident),* $(,)?) => {
            $(if let Some(value) = props.$get().clone() { out = out.$set(value); })*
        };
    }
    copy!(
        content_type => with_content_type,
        content_encoding => with_content_encoding,
        headers => with_headers,
        priority => with_priority,
        correlation_id => with_correlation_id,
        reply_to => with_reply_to,
        message_id => with_message_id,
        timestamp => with_timestamp,
        kind => with_type,
        app_id => with_app_id,
        cluster_id => with_cluster_id,
    );
    if let Some(mode) = fields.delivery_mode {
        out = out.with_delivery_mode(mode);
    }
    if let Some(expiration) = fields.expiration {
        out = out.with_expiration(expiration);
    }
    if let Some(user) = fields.user_id {
        out = out.with_user_id(user);
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lapin::types::{FieldArray, FieldTable};
    use ulid::Ulid;

    use super::*;
    use crate::config::Config;
    use crate::domain::time::UnixMillis;

    const FRAME_MAX: usize = 8_192;

    fn headers(fields: Vec<(&str, AMQPValue)>) -> BasicProperties {
        let mut table = FieldTable::default();
        for (name, value) in fields {
            table.insert(name.into(), value);
        }
        BasicProperties::default().with_headers(table)
    }

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn dressed(props: &BasicProperties) -> Result<BasicProperties, Undeliverable> {
        let message = Message {
            id: Ulid(1),
            bridge: "default".into(),
            exchange: "delay".into(),
            routing_key: "inbox".into(),
            due: UnixMillis(2_000),
            left: std::time::Duration::ZERO,
            accepted_at: UnixMillis(1_000),
            hops: 0,
            refused_since: None,
            key: "".into(),
            properties: properties::encode(props),
            body: Bytes::new(),
        };
        let config = Config::default();
        let around = Surroundings {
            names: Names::new("leveret"),
            entries: vec!["delay".to_owned()],
            frame_max: FRAME_MAX,
        };
        dress(&message, &config.bridges[0], &around, |_| true).map(|outgoing| outgoing.properties)
    }

    #[test]
    fn properties_that_fill_a_frame_go_with_what_has_room() {
        let filled = |delay: AMQPValue, length: usize| {
            let with =
                |length| headers(vec![("filler", text(&"f".repeat(length))), ("x-delay", delay.clone())]);
            with(length - properties::encode(&with(0)).len())
        };
        let most = FRAME_MAX - HEADER_FRAME_OVERHEAD;
        let id = 44;
        for (delay, length, named, negated) in [
            (AMQPValue::LongInt(100), most - id, true, true),
            (AMQPValue::LongInt(100), most - id + 1, false, true),
            (AMQPValue::LongInt(100), most, false, true),
            // Negated, it takes three bytes more.
            (AMQPValue::ShortShortInt(100), most - 3, false, true),
            (AMQPValue::ShortShortInt(100), most - 2, false, false),
            (AMQPValue::ShortShortInt(100), most, false, false),
        ] {
            let out = dressed(&filled(delay.clone(), length)).unwrap();
            assert!(fits(&out, FRAME_MAX));
            assert_eq!(properties::header(&out, header::ID).is_some(), named);
            let expected = if negated { AMQPValue::LongInt(-100) } else { delay };
            assert_eq!(properties::header(&out, header::DELAY), Some(&expected));
        }
        assert_eq!(dressed(&filled(AMQPValue::Void, most + 1)).unwrap_err().reason, Reason::Refused);
    }

    #[test]
    fn what_would_end_the_connection_is_not_published() {
        let refused = dressed(&headers(vec![("n", AMQPValue::Double(f64::NAN))])).unwrap_err();
        assert_eq!(refused.reason, Reason::Refused);
        assert!(refused.detail.contains("not finite"), "{}", refused.detail);
    }

    #[test]
    fn copies_to_own_queues_are_a_loop() {
        for name in [header::CC, header::BCC] {
            let copied = |key: &str| {
                let keys = vec![text("elsewhere"), text(key)];
                dressed(&headers(vec![(name, AMQPValue::FieldArray(FieldArray::from(keys)))]))
            };
            assert!(copied("leverets").is_ok());
            let looping = copied("leveret.ingress.default").unwrap_err();
            assert_eq!(looping.reason, Reason::TargetLoops);
            assert!(looping.detail.contains("leveret.ingress.default"), "{}", looping.detail);
        }
    }
}
