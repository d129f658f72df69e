//! Why a message was parked: a fixed set, since it is a metric's label and an operator's filter.

use std::fmt;

/// Why a message is in the parked queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A delay or due-time header that means nothing.
    InvalidDelay,
    /// A delay over `max_delay`.
    DelayTooLong,
    /// The target exchange does not exist.
    ExchangeMissing,
    /// The target exchange routed the message to no queue.
    Unroutable,
    /// The broker refused access to the target exchange.
    AccessRefused,
    /// The broker refused the message itself (too large, a property that it does not accept).
    Refused,
    /// The target's queues refused the message until `give_up_after` was over.
    TargetFull,
    /// The `x-delay-exchange` header names an exchange that the bridge does not allow.
    ExchangeNotAllowed,
    /// The target leads back into Leveret.
    TargetLoops,
    /// No bridge of this name is configured.
    UnknownBridge,
    /// An envelope that this version cannot read; parked whole, as it came.
    UnreadableBundle,
    /// A message that the AMQP client cannot read: a text that is not UTF-8 where AMQP wants one.
    UnreadableMessage,
}

impl Reason {
    /// Every reason, for filters and metrics.
    pub const ALL: [Self; 12] = [
        Self::InvalidDelay,
        Self::DelayTooLong,
        Self::ExchangeMissing,
        Self::Unroutable,
        Self::AccessRefused,
        Self::Refused,
        Self::TargetFull,
        Self::ExchangeNotAllowed,
        Self::TargetLoops,
        Self::UnknownBridge,
        Self::UnreadableBundle,
        Self::UnreadableMessage,
    ];

    /// The reason as headers, metrics and the command line spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidDelay => "invalid-delay",
            Self::DelayTooLong => "delay-too-long",
            Self::ExchangeMissing => "exchange-missing",
            Self::Unroutable => "unroutable",
            Self::AccessRefused => "access-refused",
            Self::Refused => "refused",
            Self::TargetFull => "target-full",
            Self::ExchangeNotAllowed => "exchange-not-allowed",
            Self::TargetLoops => "target-loops",
            Self::UnknownBridge => "unknown-bridge",
            Self::UnreadableBundle => "unreadable-bundle",
            Self::UnreadableMessage => "unreadable-message",
        }
    }

    /// The reason of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
