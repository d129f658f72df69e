//! Takes out of a queue what the client library cannot read.
//!
//! The library ends a whole connection over one such message, which the broker then delivers again. So this looks at
//! each message as bytes, with the library's own parsers of what is in a frame. What can be read is kept unacknowledged,
//! so that the next one comes, and is returned at the end.

use bytes::Bytes;
use lapin::protocol::basic::{AMQPMethod, Ack, Get, Nack, Publish};
use lapin::protocol::{AMQPClass, parse_class};
use tokio::io::{AsyncRead, AsyncWrite};

use super::properties;
use super::publisher::Outgoing;
use super::wire::{self, Wire, WireError};
use crate::config::AmqpConfig;

/// Class and method of `basic.get-ok`.
const GET_OK: [u8; 4] = [0, 60, 0, 71];

/// Class, weight and size of the body come before the properties in a content header.
const CLASS_AND_WEIGHT: usize = 4;

/// A message that the client library cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its delivery tag.
    pub tag: u64,
    /// The exchange that it was published to, as it came.
    pub exchange: Vec<u8>,
    /// Its routing key, as it came.
    pub routing_key: Vec<u8>,
    /// Its properties in wire encoding, as they came.
    pub properties: Vec<u8>,
    /// Its body.
    pub body: Bytes,
    /// What cannot be read, in words.
    pub fault: String,
}

/// A connection that looks through queues. What it has passed over is in the queues again when it is dropped.
pub struct Sieve {
    wire: Wire,
}

/// What a queue gives.
enum Got {
    Nothing,
    Readable,
    Unreadable(Unreadable),
}

impl Sieve {
    /// Connects.
    ///
    /// # Errors
    /// Where no endpoint can be connected to.
    pub async fn open(config: &AmqpConfig) -> Result<Self, WireError> {
        Ok(Self { wire: Wire::open(config, "rescue").await? })
    }

    /// A sieve over a stream on which the connection is open already: for tests that play the broker.
    #[doc(hidden)]
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { wire: Wire::over(Box::new(stream)) }
    }

    /// Largest frame that both sides accept, in bytes.
    #[must_use]
    pub fn frame_max(&self) -> usize {
        self.wire.frame_max
    }

    /// The next unreadable message of the queue, kept until it is [replaced](Self::replace). Passes over at most
    /// `most` messages, and counts it down by each.
    ///
    /// # Errors
    /// Where the connection is lost, or the broker refuses access to the queue.
    pub async fn next(&mut self, queue: &str, most: &mut usize) -> Result<Option<Unreadable>, WireError> {
        while *most > 0 {
            match self.get(queue).await? {
                Got::Nothing => return Ok(None),
                Got::Readable => *most -= 1,
                Got::Unreadable(message) => return Ok(Some(message)),
            }
        }
        Ok(None)
    }

    /// Publishes `replacement`, and only when the broker has confirmed it, removes `message`.
    ///
    /// # Errors
    /// Where the broker did not take the replacement: the message is then still in its queue.
    pub async fn replace(&mut self, message: &Unreadable, replacement: &Outgoing) -> Result<(), WireError> {
        let publish = AMQPMethod::Publish(Publish {
            exchange: replacement.exchange.as_str().into(),
            routing_key: replacement.routing_key.as_str().into(),
            mandatory: replacement.mandatory,
            immediate: false,
        });
        self.wire.send(AMQPClass::Basic(publish)).await?;
        self.wire.send_content(replacement).await?;
        let exchange = || replacement.exchange.clone();
        match self.wire.method().await? {
            AMQPClass::Basic(AMQPMethod::Ack(_)) => {}
            // Its confirm would follow, which says nothing more.
            AMQPClass::Basic(AMQPMethod::Return(_)) => return Err(WireError::Returned(exchange())),
            AMQPClass::Basic(AMQPMethod::Nack(_)) => return Err(WireError::Nacked(exchange())),
            _ => return Err(WireError::Unexpected("no confirm")),
        }
        let ack = AMQPMethod::Ack(Ack { delivery_tag: message.tag, multiple: false });
        self.wire.send(AMQPClass::Basic(ack)).await
    }

    /// Returns what was passed over, in order, and waits until the broker has handled it.
    ///
    /// # Errors
    /// Where the connection is lost: the broker then returns it by itself.
    pub async fn end(mut self) -> Result<(), WireError> {
        let everything = AMQPMethod::Nack(Nack { delivery_tag: 0, multiple: true, requeue: true });
        self.wire.send(AMQPClass::Basic(everything)).await?;
        self.wire.close().await
    }

    async fn get(&mut self, queue: &str) -> Result<Got, WireError> {
        let get = AMQPMethod::Get(Get { queue: queue.into(), no_ack: false });
        self.wire.send(AMQPClass::Basic(get)).await?;
        let answer = self.wire.frame().await?;
        if !answer.payload.starts_with(&GET_OK) {
            return match wire::method(&answer)? {
                AMQPClass::Basic(AMQPMethod::GetEmpty(_)) => Ok(Got::Nothing),
                _ => Err(WireError::Unexpected("no answer to basic.get")),
            };
        }
        let header = self.wire.frame().await?.into_header()?;
        let mut fields = Fields(&header);
        let (Some(_), Some(size)) = (fields.take(CLASS_AND_WEIGHT), fields.number()) else {
            return Err(WireError::Unexpected("a header that is too short"));
        };
        let Fields(raw) = fields;
        let fault = fault(&answer.payload, raw);
        let body = self.body(size, fault.is_some()).await?;
        let Some(fault) = fault else { return Ok(Got::Readable) };
        let mut fields = Fields(answer.payload.get(GET_OK.len()..).unwrap_or_default());
        let (Some(tag), Some(_redelivered), Some(exchange), Some(routing_key)) =
            (fields.number(), fields.take(1), fields.short(), fields.short())
        else {
            return Err(WireError::Unexpected("an answer to basic.get that is too short"));
        };
        Ok(Got::Unreadable(Unreadable {
            tag,
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            properties: raw.to_owned(),
            body: body.into(),
            fault,
        }))
    }

    async fn body(&mut self, size: u64, is_wanted: bool) -> Result<Vec<u8>, WireError> {
        let (mut body, mut read) = (Vec::new(), 0_u64);
        while read < size {
            let part = self.wire.frame().await?.into_body()?;
            read += part.len() as u64;
            if is_wanted {
                body.extend(part);
            }
        }
        Ok(body)
    }
}

/// What the client library cannot read of a message, in words; `None` where it can read all of it. Both parsers are
/// those that it has for what is in a frame.
fn fault(method: &[u8], raw: &[u8]) -> Option<String> {
    if !matches!(parse_class(method), Ok(([], _))) {
        return Some("the routing key is not UTF-8".to_owned());
    }
    if properties::decode(raw).is_some() {
        return None;
    }
    Some(property_at_fault(raw).unwrap_or_else(|| "the properties cannot be read".to_owned()))
}

/// How a property is encoded.
#[derive(Clone, Copy)]
enum Shape {
    Short,
    Table,
    Bytes(usize),
}

/// The properties, in the order of their flags from the highest on.
const PROPERTIES: [(&str, Shape); 14] = [
    ("content_type", Shape::Short),
    ("content_encoding", Shape::Short),
    ("headers", Shape::Table),
    ("delivery_mode", Shape::Bytes(1)),
    ("priority", Shape::Bytes(1)),
    ("correlation_id", Shape::Short),
    ("reply_to", Shape::Short),
    ("expiration", Shape::Short),
    ("message_id", Shape::Short),
    ("timestamp", Shape::Bytes(8)),
    ("type", Shape::Short),
    ("user_id", Shape::Short),
    ("app_id", Shape::Short),
    ("cluster_id", Shape::Short),
];

/// The first short property that is not UTF-8; else the headers are at fault, where there are some.
fn property_at_fault(raw: &[u8]) -> Option<String> {
    let mut fields = Fields(raw);
    let flags = fields.take(2)?.iter().fold(0_u16, |flags, byte| (flags << 8) | u16::from(*byte));
    let mut has_headers = false;
    for ((name, shape), bit) in PROPERTIES.into_iter().zip((2..16).rev()) {
        if flags & (1 << bit) == 0 {
            continue;
        }
        match shape {
            Shape::Short if std::str::from_utf8(fields.short()?).is_err() => {
                return Some(format!("the property {name} is not UTF-8"));
            }
            Shape::Short => {}
            Shape::Bytes(length) => drop(fields.take(length)?),
            Shape::Table => {
                has_headers = true;
                fields.long()?;
            }
        }
    }
    has_headers.then(|| "the headers hold a name that is not UTF-8, or a value of an unknown type".to_owned())
}

/// What is left of some bytes of fields.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of 64 bits.
    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().map(u64::from_be_bytes).ok()
    }

    /// What a length of one byte stands before.
    fn short(&mut self) -> Option<&'b [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(length.into())
    }

    /// What a length of four bytes stands before.
    fn long(&mut self) -> Option<&'b [u8]> {
        let length = self.take(4)?.try_into().map(u32::from_be_bytes).ok()?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use lapin::BasicProperties;
    use lapin::types::{AMQPValue, FieldTable};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn get_ok(routing_key: &[u8]) -> Vec<u8> {
        let length = u8::try_from(routing_key.len()).unwrap();
        [&GET_OK, [0; 8].as_slice(), &[0], &[1, b'x'], &[length], routing_key, &[0; 4]].concat()
    }

    /// Properties with `sane` in them, which is then made what is no UTF-8.
    fn broken(props: &BasicProperties) -> Vec<u8> {
        let mut raw = properties::encode(props).to_vec();
        let at = raw.windows(4).position(|bytes| bytes == b"sane").unwrap();
        raw[at] = 0xff;
        raw
    }

    fn headers() -> FieldTable {
        let mut headers = FieldTable::default();
        headers.insert("text".into(), AMQPValue::LongString(vec![0xff].into()));
        headers
    }

    #[test]
    fn what_can_be_read_has_no_fault() {
        let props = BasicProperties::default().with_headers(headers()).with_message_id("é".into());
        assert_eq!(fault(&get_ok("é".as_bytes()), &properties::encode(&props)), None);
    }

    #[test]
    fn the_field_at_fault_is_named() {
        let fine = properties::encode(&BasicProperties::default());
        assert!(fault(&get_ok(&[0xff]), &fine).unwrap().contains("routing key"));
        let props = BasicProperties::default().with_headers(headers()).with_timestamp(1).with_priority(1);
        let found = |props: BasicProperties| fault(&get_ok(b"k"), &broken(&props)).unwrap();
        assert!(found(props.clone().with_message_id("sane".into())).contains("message_id"));
        assert!(found(props.clone().with_cluster_id("sane".into())).contains("cluster_id"));
        let mut table = headers();
        table.insert("sane".into(), AMQPValue::Void);
        assert!(found(props.with_headers(table)).contains("headers"));
        assert!(fault(&get_ok(b"k"), &[0, 0, 0]).unwrap().contains("properties"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(method in vec(any::<u8>(), 0..40), raw in vec(any::<u8>(), 0..60)) {
            let _ = fault(&method, &raw);
            let _ = property_at_fault(&raw);
        }
    }
}
