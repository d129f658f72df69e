//! What went wrong with a channel or a connection, in the terms that the engine decides by.

use lapin::ErrorKind;
use lapin::protocol::AMQPErrorKind;

/// Why an operation on a channel failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// The broker closed this channel, and only it: something about the operation was wrong.
    #[error("the broker answered {code}: {text}")]
    Channel {
        /// AMQP reply code: 403, 404, 405 or 406.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The connection is gone, or can no longer be trusted.
    #[error("{0}")]
    Connection(String),
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(amqp) if matches!(amqp.kind(), AMQPErrorKind::Soft(_)) => {
                Self::Channel { code: amqp.get_id(), text: amqp.get_message().as_str().to_owned() }
            }
            _ => Self::Connection(in_words(&error)),
        }
    }
}

/// The broker's own words where there are some; the client's otherwise.
pub(super) fn in_words(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => format!("{}: {}", amqp.get_id(), amqp.get_message()),
        ErrorKind::IOError(io) => io.to_string(),
        _ => error.to_string(),
    }
}

impl Failure {
    /// Whether the broker's answer condemns every publish to the exchange, and not just one message: the exchange
    /// is missing, or this user may not write to it at all.
    #[must_use]
    pub fn concerns_whole_exchange(&self) -> bool {
        match self {
            Self::Channel { code: 404, .. } => true,
            // Topic permissions speak of the routing key ("access to topic 'k' in exchange 'x'"): one message only.
            Self::Channel { code: 403, text } => !text.contains("access to topic"),
            _ => false,
        }
    }
}
