//! The bundle: one AMQP message body that carries delayed messages whole.
//!
//! Layout of version 1, integers big-endian:
//!
//! | bytes | field |
//! | --- | --- |
//! | 4 | magic `LVRT` |
//! | 1 | version |
//! | 1 | flags: 1 compressed, 2 encrypted |
//! | … | content: the count of messages (4), then the messages, one after another |
//! | 4 | CRC32C of all that precedes it |
//!
//! Compression and encryption, in that order, replace the content: see [`codec`](super::codec).
//!
//! A message: id (16, a ULID), due, left, accepted-at, refused-since or 0 (8 each, milliseconds), hops (4); then
//! bridge, exchange and routing key (length in 1 byte), key, properties in AMQP wire encoding, and body (length in
//! 4 bytes).

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ulid::Ulid;

use super::message::{Message, Text};
use super::time::UnixMillis;

/// The `content_type` of an envelope, so that an operator sees what it is.
pub const CONTENT_TYPE: &str = "application/vnd.leveret.bundle";

/// The version that this program writes; it reads every version up to it.
pub const VERSION: u8 = 1;

const MAGIC: &[u8; 4] = b"LVRT";
const HEADER: usize = 6;
const COUNT: usize = 4;
const CHECKSUM: usize = 4;
const FIXED: usize = 16 + 4 * 8 + 4 + 3 + 3 * 4;

/// Why bytes are not a bundle that this program can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Too short, or it does not begin with the magic.
    #[error("not a bundle: it does not begin with \"LVRT\"")]
    NotABundle,
    /// Written by a newer program, or damaged.
    #[error("bundle version {0} is not known: this program reads versions up to {VERSION}")]
    UnknownVersion(u8),
    /// A flag that version 1 does not define.
    #[error("bundle flags {0:#04x} are not known")]
    UnknownFlags(u8),
    /// Encrypted with a key that is not among those given.
    #[error("bundle is encrypted with key {0:08x}, which is not among bundle.key_files")]
    UnknownKey(u32),
    /// Encrypted, but not with this key, or changed since.
    #[error("bundle cannot be decrypted with key {0:08x}: the content was changed, or the key is another")]
    Decryption(u32),
    /// Compressed content that cannot be restored.
    #[error("bundle cannot be decompressed: its content is damaged or too large")]
    Decompression,
    /// The checksum does not match the content.
    #[error("bundle checksum does not match: the content is damaged")]
    Checksum,
    /// A field reaches past the end.
    #[error("bundle ends in the middle of message {0}")]
    Truncated(u32),
    /// A name is not UTF-8.
    #[error("a name in message {0} is not UTF-8")]
    NotText(u32),
    /// More bytes than the count of messages accounts for.
    #[error("bundle has {0} bytes after its last message")]
    TrailingBytes(usize),
    /// No message in it.
    #[error("bundle carries no message")]
    Empty,
}

/// The bytes that `message` takes in a bundle.
#[must_use]
pub fn encoded_len(message: &Message) -> usize {
    FIXED
        + message.bridge.as_bytes().len()
        + message.exchange.as_bytes().len()
        + message.routing_key.as_bytes().len()
        + message.key.as_bytes().len()
        + message.properties.len()
        + message.body.len()
}

/// Whether the bytes begin as a bundle does.
#[must_use]
pub fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The bytes that a bundle takes beside its messages.
pub const OVERHEAD: usize = HEADER + COUNT + CHECKSUM;

/// Encodes the messages whole, in the clear.
///
/// Bridge, exchange and routing key are AMQP short strings, so at most 255 bytes each; longer ones cannot reach this.
#[must_use]
pub fn encode(messages: &[Message]) -> Bytes {
    let mut out = begin(0, content_len(messages));
    put_content(&mut out, messages);
    finish(out)
}

/// The bytes that messages take as a bundle's content.
pub(super) fn content_len(messages: &[Message]) -> usize {
    COUNT + messages.iter().map(encoded_len).sum::<usize>()
}

/// A frame with its header, and room for so many bytes of content, which is to be appended.
pub(super) fn begin(flags: u8, content: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(HEADER + content + CHECKSUM);
    out.put_slice(MAGIC);
    out.put_u8(VERSION);
    out.put_u8(flags);
    out
}

/// Ends a frame with its checksum.
pub(super) fn finish(mut frame: BytesMut) -> Bytes {
    let checksum = crc32c::crc32c(&frame);
    frame.put_u32(checksum);
    frame.freeze()
}

/// Appends the count of messages, and the messages.
pub(super) fn put_content(out: &mut BytesMut, messages: &[Message]) {
    out.put_u32(u32::try_from(messages.len()).unwrap_or(u32::MAX));
    for message in messages {
        put_message(out, message);
    }
}

fn put_message(out: &mut BytesMut, message: &Message) {
    out.put_u128(message.id.0);
    out.put_u64(message.due.0);
    out.put_u64(millis(message.left));
    out.put_u64(message.accepted_at.0);
    out.put_u64(message.refused_since.map_or(0, |since| since.0));
    out.put_u32(message.hops);
    for name in [&message.bridge, &message.exchange, &message.routing_key] {
        put_short(out, name.as_bytes());
    }
    for field in [message.key.as_bytes(), &message.properties, &message.body] {
        out.put_u32(u32::try_from(field.len()).unwrap_or(u32::MAX));
        out.put_slice(field);
    }
}

fn put_short(out: &mut BytesMut, text: &[u8]) {
    let text = text.get(..usize::from(u8::MAX)).unwrap_or(text);
    out.put_u8(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.put_slice(text);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Decodes a bundle that is in the clear; bodies and properties share its buffer.
///
/// # Errors
/// Where the bytes are no bundle, or not one that is in the clear.
pub fn decode(bundle: Bytes) -> Result<Vec<Message>, BundleError> {
    match open(bundle)? {
        (0, content) => take_content(content),
        (flags, _) => Err(BundleError::UnknownFlags(flags)),
    }
}

/// Decodes the count of messages, and the messages.
pub(super) fn take_content(mut input: Bytes) -> Result<Vec<Message>, BundleError> {
    let count = input.try_get_u32().map_err(|_| BundleError::Truncated(0))?;
    if count == 0 {
        return Err(BundleError::Empty);
    }
    // A count that lies must not reserve memory: a message takes at least its fixed part.
    let mut messages = Vec::with_capacity((count as usize).min(input.len() / FIXED));
    for index in 0..count {
        messages.push(take_message(&mut input, index)?);
    }
    if input.has_remaining() { Err(BundleError::TrailingBytes(input.len())) } else { Ok(messages) }
}

/// Checks all that surrounds the content; gives back flags and content.
pub(super) fn open(mut bundle: Bytes) -> Result<(u8, Bytes), BundleError> {
    if bundle.len() < HEADER + CHECKSUM || !bundle.starts_with(MAGIC) {
        return Err(BundleError::NotABundle);
    }
    let checksum = bundle.split_off(bundle.len() - CHECKSUM).get_u32();
    let computed = crc32c::crc32c(&bundle);
    bundle.advance(MAGIC.len());
    // The version goes first: another version may have another checksum.
    let version = bundle.get_u8();
    if version != VERSION {
        return Err(BundleError::UnknownVersion(version));
    }
    if checksum != computed {
        return Err(BundleError::Checksum);
    }
    Ok((bundle.get_u8(), bundle))
}

fn take_message(input: &mut Bytes, index: u32) -> Result<Message, BundleError> {
    let truncated = BundleError::Truncated(index);
    if input.len() < FIXED {
        return Err(truncated);
    }
    let id = Ulid(input.get_u128());
    let due = UnixMillis(input.get_u64());
    let left = Duration::from_millis(input.get_u64());
    let accepted_at = UnixMillis(input.get_u64());
    let refused_since = Some(UnixMillis(input.get_u64())).filter(|since| since.0 > 0);
    let hops = input.get_u32();
    let mut short = || {
        let len = usize::from(input.try_get_u8().map_err(|_| truncated)?);
        take(input, len).ok_or(truncated)
    };
    let (bridge, exchange, routing_key) = (short()?, short()?, short()?);
    let mut long = || {
        let len = input.try_get_u32().map_err(|_| truncated)?;
        take(input, len as usize).ok_or(truncated)
    };
    let (key, properties, body) = (long()?, long()?, long()?);
    let text = |bytes| Text::from_utf8(bytes).map_err(|_| BundleError::NotText(index));
    Ok(Message {
        id,
        bridge: text(bridge)?,
        exchange: text(exchange)?,
        routing_key: text(routing_key)?,
        due,
        left,
        accepted_at,
        hops,
        refused_since,
        key: text(key)?,
        properties,
        body,
    })
}

fn take(input: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= input.len()).then(|| input.split_to(len))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn text(max: usize) -> impl Strategy<Value = Text> {
        ".{0,60}".prop_map(move |text| Text::from(&text[..floor_boundary(&text, max)]))
    }

    fn floor_boundary(text: &str, max: usize) -> usize {
        (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    }

    prop_compose! {
        fn message()(
            id in any::<u128>(),
            times in any::<[u64; 4]>(),
            hops in any::<u32>(),
            names in [text(255), text(255), text(255), text(1000)],
            properties in vec(any::<u8>(), 0..200),
            body in vec(any::<u8>(), 0..2000),
        ) -> Message {
            let [bridge, exchange, routing_key, key] = names;
            let [due, left, accepted_at, refused] = times;
            Message {
                id: Ulid(id), bridge, exchange, routing_key, hops, key,
                due: UnixMillis(due), left: Duration::from_millis(left), accepted_at: UnixMillis(accepted_at),
                refused_since: Some(UnixMillis(refused)).filter(|since| since.0 > 0),
                properties: properties.into(), body: body.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(messages in vec(message(), 1..20)) {
            let encoded = encode(&messages);
            prop_assert_eq!(encoded.len(), OVERHEAD + messages.iter().map(encoded_len).sum::<usize>());
            prop_assert_eq!(decode(encoded), Ok(messages));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
            prop_assert!(decode(bytes.into()).is_err());
        }

        #[test]
        fn arbitrary_content_with_a_right_frame_never_panics(count in any::<u32>(), content in vec(any::<u8>(), 0..300)) {
            let mut bytes = [MAGIC.as_slice(), &[VERSION, 0], &count.to_be_bytes(), &content].concat();
            bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
            let _ = decode(bytes.into());
        }

        #[test]
        fn one_damaged_byte_is_noticed(messages in vec(message(), 1..4), at in any::<prop::sample::Index>(), by in 1..=255u8) {
            let mut bytes = encode(&messages).to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert!(decode(bytes.into()).is_err());
        }

        #[test]
        fn a_cut_is_noticed(messages in vec(message(), 1..4), at in any::<prop::sample::Index>()) {
            let bytes = encode(&messages);
            prop_assert!(decode(bytes.slice(..at.index(bytes.len()))).is_err());
        }
    }

    fn framed(version: u8, flags: u8, content: &[u8]) -> Bytes {
        let mut bytes = [MAGIC.as_slice(), &[version, flags], content].concat();
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        bytes.into()
    }

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(decode(Bytes::from_static(b"LVRT")), Err(BundleError::NotABundle));
        assert_eq!(decode(Bytes::from_static(b"{\"json\": \"body\"}")), Err(BundleError::NotABundle));
        assert_eq!(decode(framed(9, 0, &[0; 8])), Err(BundleError::UnknownVersion(9)));
        assert_eq!(decode(framed(VERSION, 1, &[0; 4])), Err(BundleError::UnknownFlags(1)));
        assert_eq!(decode(framed(VERSION, 0, &[])), Err(BundleError::Truncated(0)));
        assert_eq!(decode(framed(VERSION, 0, &[0; 4])), Err(BundleError::Empty));
        assert_eq!(decode(framed(VERSION, 0, &[0, 0, 0, 1, 7])), Err(BundleError::Truncated(0)));
        let mut one = encode(&[sample()]).to_vec();
        one.truncate(one.len() - CHECKSUM);
        let trailing = [&one[6..], &[0, 0]].concat();
        assert_eq!(decode(framed(VERSION, 0, &trailing)), Err(BundleError::TrailingBytes(2)));
    }

    fn sample() -> Message {
        Message {
            id: Ulid(1),
            bridge: "orders".into(),
            exchange: "orders.delayed".into(),
            routing_key: "a.b".into(),
            due: UnixMillis(1_000),
            left: Duration::from_millis(10),
            accepted_at: UnixMillis(500),
            hops: 2,
            refused_since: None,
            key: Text::default(),
            properties: Bytes::from_static(&[0, 0]),
            body: Bytes::from_static(b"hello"),
        }
    }
}
