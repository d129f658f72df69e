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
    /// The channel was closed already, because of something else that was sent on it; this operation was not tried.
    #[error("the channel was closed before")]
    ChannelGone,
    /// The connection is gone, or can no longer be trusted.
    #[error("{0}")]
    Connection(String),
    /// The connection is gone because the client library cannot read what the broker sent: a message with a text that
    /// is not UTF-8 where it must be. The broker is going to deliver it again.
    #[error("cannot read what the broker sent: {0}")]
    Unreadable(String),
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(amqp) if matches!(amqp.kind(), AMQPErrorKind::Soft(_)) => {
                Self::Channel { code: amqp.get_id(), text: amqp.get_message().as_str().to_owned() }
            }
            ErrorKind::InvalidChannelState(..) => Self::ChannelGone,
            ErrorKind::ParsingError(_) => Self::Unreadable(in_words(&error)),
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
            Self::Channel { code: 403, .. } => !self.concerns_routing_key(),
            _ => false,
        }
    }

    /// Whether the broker's answer condemns every publish with that routing key to the exchange: a topic permission,
    /// which speaks of "access to topic 'k' in exchange 'x'".
    #[must_use]
    pub fn concerns_routing_key(&self) -> bool {
        matches!(self, Self::Channel { code: 403, text } if text.contains("access to topic"))
    }
}

#[cfg(test)]
mod tests {
    use lapin::ChannelState;
    use lapin::protocol::{AMQPError, AMQPHardError, AMQPSoftError};

    use super::*;

    fn failure(kind: ErrorKind) -> Failure {
        Failure::from(lapin::Error::from(kind))
    }

    #[test]
    fn a_channel_that_the_broker_closes_is_not_the_connection() {
        let refused = AMQPError::new(AMQPSoftError::ACCESSREFUSED.into(), "no".into());
        let refused = failure(ErrorKind::ProtocolError(refused));
        assert!(matches!(refused, Failure::Channel { code: 403, .. }), "{refused:?}");
        assert!(refused.concerns_whole_exchange() && !refused.concerns_routing_key());
        let text =
            "ACCESS_REFUSED - write access to topic 'k' in exchange 'x' in vhost '/' refused for user 'u'";
        let one_key = Failure::Channel { code: 403, text: text.to_owned() };
        assert!(one_key.concerns_routing_key() && !one_key.concerns_whole_exchange());
        let late = failure(ErrorKind::InvalidChannelState(ChannelState::Closing, "basic.publish"));
        assert!(matches!(late, Failure::ChannelGone), "{late:?}");
        assert!(!late.concerns_whole_exchange());
        let not_utf_8 = lapin::protocol::basic::parse_properties([0x80, 0, 1, 0xff].as_slice()).unwrap_err();
        assert!(matches!(failure(ErrorKind::ParsingError(not_utf_8)), Failure::Unreadable(_)));
        let forced = AMQPError::new(AMQPHardError::CONNECTIONFORCED.into(), "bye".into());
        assert!(matches!(failure(ErrorKind::ProtocolError(forced)), Failure::Connection(_)));
    }
}
