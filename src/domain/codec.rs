//! How a bundle's content is stored: in the clear, compressed, encrypted, or both.
//!
//! Compression (zstd) comes before encryption (AES-256-GCM). Encrypted content is the key's id (4 bytes), a random
//! nonce (12), the ciphertext, and its tag (16); the frame's header and the key's id are authenticated with it. A reader
//! accepts whatever it has the key for, so compression can be switched and keys can be rotated while bundles wait.

use std::cell::RefCell;
use std::{fmt, io};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::get_frame_content_size;

use super::bundle::{self, BundleError};
use super::message::Message;

const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;

/// Fast, and close to what the slower levels reach on text.
const ZSTD_LEVEL: i32 = 1;

/// Larger content is stored as it is. So what claims to be larger once it is decompressed is not Leveret's, and whoever
/// publishes a few bytes that would fill the memory gains nothing.
const MAX_COMPRESSED_CONTENT: usize = 64 << 20;

/// What encryption adds to the content: the key's id, the nonce and the tag.
const ENCRYPTION: usize = 4 + NONCE_LEN + 16;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 32;

/// A key of AES-256-GCM. Never shown.
#[derive(Clone)]
pub struct Key {
    id: u32,
    key: LessSafeKey,
}

impl Key {
    /// The key of these bytes; `None` where they are not [`KEY_BYTES`] bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?);
        let id = digest(&SHA256, bytes).as_ref().first_chunk().copied().map(u32::from_be_bytes)?;
        Some(Self { id, key })
    }

    /// Names the key without telling it: the first 4 bytes of its SHA-256.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:08x})", self.id)
    }
}

/// A bundle could not be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot encrypt a bundle: the system gives no random numbers")]
pub struct EncryptError;

/// Encodes and decodes bundles.
#[derive(Debug, Clone, Default)]
pub struct Codec {
    compress: bool,
    // The first one encrypts, all decrypt.
    keys: Vec<Key>,
}

impl Codec {
    /// A codec that compresses or not, and encrypts with the first key, where there is one.
    #[must_use]
    pub fn new(compress: bool, keys: Vec<Key>) -> Self {
        Self { compress, keys }
    }

    /// Encodes the messages.
    ///
    /// # Errors
    /// Where the system has no randomness for a nonce.
    pub fn encode(&self, messages: &[Message]) -> Result<Bytes, EncryptError> {
        let compressed = if self.compress { compress(messages) } else { None };
        let length = compressed.as_ref().map_or_else(|| bundle::content_len(messages), Vec::len);
        let put_content = |out: &mut BytesMut| match &compressed {
            Some(compressed) => out.put_slice(compressed),
            None => bundle::put_content(out, messages),
        };
        let flags = if compressed.is_some() { COMPRESSED } else { 0 };
        let Some(key) = self.keys.first() else {
            let mut frame = bundle::begin(flags, length);
            put_content(&mut frame);
            return Ok(bundle::finish(frame));
        };
        let flags = flags | ENCRYPTED;
        let mut frame = bundle::begin(flags, length + ENCRYPTION);
        encrypt(&mut frame, key, flags, put_content)?;
        Ok(bundle::finish(frame))
    }

    /// Decodes a bundle.
    ///
    /// # Errors
    /// Where the bytes are no bundle, are damaged, or are encrypted with a key that is not here.
    pub fn decode(&self, bytes: Bytes) -> Result<Vec<Message>, BundleError> {
        let (flags, mut content) = bundle::open(bytes)?;
        if flags & !(COMPRESSED | ENCRYPTED) != 0 {
            return Err(BundleError::UnknownFlags(flags));
        }
        if flags & ENCRYPTED != 0 {
            content = self.decrypt(flags, content)?;
        }
        if flags & COMPRESSED != 0 {
            content = decompress(&content)?;
        }
        bundle::take_content(content)
    }

    fn decrypt(&self, flags: u8, mut content: Bytes) -> Result<Bytes, BundleError> {
        let id = content.try_get_u32().map_err(|_| BundleError::Truncated(0))?;
        let key = self.keys.iter().find(|key| key.id == id).ok_or(BundleError::UnknownKey(id))?;
        if content.len() < NONCE_LEN {
            return Err(BundleError::Truncated(0));
        }
        let nonce = Nonce::try_assume_unique_for_key(&content.split_to(NONCE_LEN))
            .map_err(|_| BundleError::Decryption(id))?;
        let mut sealed = content.to_vec();
        let plain = key
            .key
            .open_in_place(nonce, aad(flags, id), &mut sealed)
            .map_err(|_| BundleError::Decryption(id))?
            .len();
        sealed.truncate(plain);
        Ok(sealed.into())
    }
}

fn aad(flags: u8, key: u32) -> Aad<[u8; 6]> {
    let [a, b, c, d] = key.to_be_bytes();
    Aad::from([bundle::VERSION, flags, a, b, c, d])
}

/// Appends encrypted what `put_content` appends.
fn encrypt(
    frame: &mut BytesMut,
    key: &Key,
    flags: u8,
    put_content: impl FnOnce(&mut BytesMut),
) -> Result<(), EncryptError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| EncryptError)?;
    frame.put_u32(key.id);
    frame.put_slice(&nonce);
    let start = frame.len();
    put_content(frame);
    let content = frame.get_mut(start..).unwrap_or_default();
    let tag = key
        .key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad(flags, key.id), content)
        .map_err(|_| EncryptError)?;
    frame.put_slice(tag.as_ref());
    Ok(())
}

/// The content compressed; `None` where that makes it no smaller, or it is too large for that.
fn compress(messages: &[Message]) -> Option<Vec<u8>> {
    let length = bundle::content_len(messages);
    if length > MAX_COMPRESSED_CONTENT {
        return None;
    }
    let mut content = BytesMut::with_capacity(length);
    bundle::put_content(&mut content, messages);
    let compressed = COMPRESSOR.with_borrow_mut(|compressor| match compressor {
        Ok(compressor) => compressor.compress(&content).ok(),
        Err(_) => None,
    });
    compressed.filter(|compressed| compressed.len() < content.len())
}

fn decompress(content: &[u8]) -> Result<Bytes, BundleError> {
    // What Leveret compresses says how large it was: nothing is reserved for what does not, or is too large.
    let length =
        get_frame_content_size(content).ok().flatten().and_then(|length| usize::try_from(length).ok());
    let length =
        length.filter(|length| *length <= MAX_COMPRESSED_CONTENT).ok_or(BundleError::Decompression)?;
    let plain = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress(content, length));
    plain.map(Bytes::from).map_err(|_| BundleError::Decompression)
}

thread_local! {
    // To set these up takes longer than to compress a small bundle.
    static COMPRESSOR: RefCell<io::Result<Compressor<'static>>> = RefCell::new(Compressor::new(ZSTD_LEVEL));
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use ulid::Ulid;

    use super::*;
    use crate::domain::time::UnixMillis;

    fn frame(flags: u8, content: &[u8]) -> Bytes {
        let mut out = bundle::begin(flags, content.len());
        out.put_slice(content);
        bundle::finish(out)
    }

    fn message(body: Vec<u8>) -> Message {
        Message {
            id: Ulid(7),
            bridge: "orders".into(),
            exchange: "orders.delayed".into(),
            routing_key: "order.created".into(),
            due: UnixMillis(1_000),
            left: Duration::from_millis(10),
            accepted_at: UnixMillis(500),
            hops: 2,
            refused_since: None,
            key: "k".into(),
            properties: Bytes::from_static(&[0, 0]),
            body: body.into(),
        }
    }

    fn key(byte: u8) -> Key {
        Key::new(&[byte; KEY_BYTES]).unwrap()
    }

    fn codecs() -> [Codec; 4] {
        [
            Codec::default(),
            Codec::new(true, vec![]),
            Codec::new(false, vec![key(1)]),
            Codec::new(true, vec![key(1), key(2)]),
        ]
    }

    proptest! {
        #[test]
        fn every_way_of_storing_comes_back(bodies in vec(vec(any::<u8>(), 0..500), 1..10)) {
            let messages: Vec<_> = bodies.into_iter().map(message).collect();
            let reader = Codec::new(false, vec![key(2), key(1)]);
            for codec in codecs() {
                prop_assert_eq!(reader.decode(codec.encode(&messages).unwrap()), Ok(messages.clone()));
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), by in 1..=255u8) {
            for codec in codecs() {
                let mut bytes = codec.encode(&[message(b"body".repeat(40))]).unwrap().to_vec();
                let at = at.index(bytes.len());
                bytes[at] ^= by;
                prop_assert!(codec.decode(bytes.into()).is_err());
            }
        }

        #[test]
        fn arbitrary_content_never_panics(flags in 0..8u8, content in vec(any::<u8>(), 0..200)) {
            let reader = Codec::new(false, vec![key(1)]);
            let _ = reader.decode(frame(flags, &content));
        }
    }

    #[test]
    fn what_is_encrypted_cannot_be_read_or_changed_without_the_key() {
        let codec = Codec::new(false, vec![key(1)]);
        let sealed = codec.encode(&[message(b"secret".to_vec())]).unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret" || window == b"orders"));
        let (one, other) = (key(1).id(), Codec::new(false, vec![key(2)]));
        assert_eq!(other.decode(sealed.clone()), Err(BundleError::UnknownKey(one)));
        assert_eq!(bundle::decode(sealed.clone()), Err(BundleError::UnknownFlags(ENCRYPTED)));
        // Somebody who mends the checksum still cannot mend the tag.
        let (flags, content) = bundle::open(sealed).unwrap();
        let mut content = content.to_vec();
        *content.last_mut().unwrap() ^= 1;
        assert_eq!(codec.decode(frame(flags, &content)), Err(BundleError::Decryption(one)));
    }

    #[test]
    fn the_same_messages_never_look_the_same_twice() {
        let codec = Codec::new(true, vec![key(1)]);
        let messages = [message(b"body".to_vec())];
        assert_ne!(codec.encode(&messages).unwrap(), codec.encode(&messages).unwrap());
    }

    #[test]
    fn json_compresses_to_less_than_a_third() {
        let body = |n: u32| {
            format!(
                r#"{{"order_id":{n},"customer":"c-{}","status":"payment-pending","currency":"EUR","items":[]}}"#,
                n * 7
            )
        };
        let messages: Vec<_> = (0..100).map(|n| message(body(n).into_bytes())).collect();
        let (plain, small) = (bundle::encode(&messages), Codec::new(true, vec![]).encode(&messages).unwrap());
        assert!(small.len() * 3 < plain.len(), "{} of {}", small.len(), plain.len());
    }

    #[test]
    fn content_that_would_fill_the_memory_is_neither_written_nor_read() {
        let codec = Codec::new(true, vec![]);
        let large = [message(vec![0; MAX_COMPRESSED_CONTENT])];
        let stored = codec.encode(&large).unwrap();
        assert!(stored.len() > MAX_COMPRESSED_CONTENT);
        assert_eq!(codec.decode(stored), Ok(large.to_vec()));
        let bomb = |length: usize| zstd::bulk::compress(&vec![0; length], ZSTD_LEVEL).unwrap();
        let read = |content: &[u8]| codec.decode(frame(COMPRESSED, content));
        assert_eq!(read(&bomb(MAX_COMPRESSED_CONTENT + 1)), Err(BundleError::Decompression));
        // As large as may be, it is read, and found to be no messages.
        assert_eq!(read(&bomb(MAX_COMPRESSED_CONTENT)), Err(BundleError::Empty));
        // One that does not say how large it is, as a stream may, and two in a row that say it of themselves alone.
        let mut stream = zstd::stream::Encoder::new(Vec::new(), ZSTD_LEVEL).unwrap();
        stream.write_all(&[0; 100]).and_then(|()| stream.flush()).unwrap();
        assert_eq!(read(&stream.finish().unwrap()), Err(BundleError::Decompression));
        assert_eq!(read(&bomb(100).repeat(2)), Err(BundleError::Decompression));
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", key(1)), format!("Key({:08x})", key(1).id()));
        assert!(Key::new(&[1; 16]).is_none());
    }
}
