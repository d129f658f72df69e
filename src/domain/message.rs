//! One delayed message, as it travels from hop to hop.

use std::fmt;
use std::str;
use std::time::Duration;

use bytes::Bytes;
use ulid::Ulid;

use super::time::UnixMillis;

/// UTF-8 text that shares the buffer it was read from.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Text(Bytes);

impl Text {
    /// Takes bytes that are UTF-8; gives them back where they are not.
    pub fn from_utf8(bytes: Bytes) -> Result<Self, Bytes> {
        if str::from_utf8(&bytes).is_ok() { Ok(Self(bytes)) } else { Err(bytes) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Checked when it was built; the fallback only keeps this free of panics.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The text's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message that waits. Cloning shares the body and the properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Given at intake, the same on every hop and redelivery after that.
    pub id: Ulid,
    /// Name of the bridge that took it.
    pub bridge: Text,
    /// Exchange that it was published to.
    pub exchange: Text,
    /// Its own routing key, kept for the delivery.
    pub routing_key: Text,
    /// When it must be delivered.
    pub due: UnixMillis,
    /// What was left of the wait when its last hop ends, by service and not by the clock: bounds the wait when
    /// the clock steps back. Millisecond resolution.
    pub left: Duration,
    /// When the clock of a relative delay started.
    pub accepted_at: UnixMillis,
    /// How many levels it has been through.
    pub hops: u32,
    /// Since when its target refuses it, by the clock: bounds how long delivery is tried.
    pub refused_since: Option<UnixMillis>,
    /// Names it for a cancel or a replacement; empty for none.
    pub key: Text,
    /// The properties as published, in AMQP wire encoding: a hop copies them without parsing.
    pub properties: Bytes,
    /// The body as published.
    pub body: Bytes,
}

impl Message {
    /// Bytes that the message keeps in memory, near enough for a budget.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.properties.len() + self.body.len()
    }
}

#[cfg(test)]
impl Message {
    /// A message of no account, for tests to change what they are about.
    pub(crate) fn sample() -> Self {
        Self {
            id: Ulid(1),
            bridge: "b".into(),
            exchange: "e".into(),
            routing_key: "r".into(),
            due: UnixMillis(0),
            left: Duration::ZERO,
            accepted_at: UnixMillis(0),
            hops: 0,
            refused_since: None,
            key: Text::default(),
            properties: Bytes::new(),
            body: Bytes::new(),
        }
    }
}
