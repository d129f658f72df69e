//! Header names of the contract, and the value of a header as the domain sees it.

/// Relative delay in milliseconds; negated on delivery.
pub const DELAY: &str = "x-delay";
/// Relative delay in milliseconds, as other RabbitMQ products spell it.
pub const OPT_DELIVERY_DELAY: &str = "x-opt-delivery-delay";
/// Absolute due time.
pub const DELIVER_AT: &str = "x-deliver-at";
/// Absolute due time, as other RabbitMQ products spell it.
pub const OPT_DELIVERY_TIME: &str = "x-opt-delivery-time";
/// Names another target exchange, where the bridge allows it.
pub const DELAY_EXCHANGE: &str = "x-delay-exchange";
/// Routing keys by which RabbitMQ routes a copy each; an array of texts.
pub const CC: &str = "CC";
/// The same; the broker takes it off before anybody sees the message.
pub const BCC: &str = "BCC";
/// Names the message for a later cancel or replace.
pub const DELAY_KEY: &str = "x-delay-key";
/// Set by RabbitMQ's timestamp interceptor: when the broker took the message, Unix milliseconds.
pub const TIMESTAMP_IN_MS: &str = "timestamp_in_ms";
/// Every header that Leveret adds begins with this; those that arrive from an application are replaced.
pub const OWN_PREFIX: &str = "x-leveret-";
/// The message's identity: a ULID, the same on every redelivery.
pub const ID: &str = "x-leveret-id";
/// The `user_id` property where the broker would not let Leveret publish it.
pub const USER_ID: &str = "x-leveret-user-id";
/// Why a message was parked.
pub const REASON: &str = "x-leveret-reason";
/// The reason in words, with what was attempted and what the broker said.
pub const DETAIL: &str = "x-leveret-detail";
/// The bridge that took the message.
pub const BRIDGE: &str = "x-leveret-bridge";
/// The exchange that the message was meant for.
pub const EXCHANGE: &str = "x-leveret-exchange";
/// The exchange that the message was published to.
pub const ENTRY_EXCHANGE: &str = "x-leveret-entry-exchange";
/// The message's own routing key.
pub const ROUTING_KEY: &str = "x-leveret-routing-key";
/// When the message was due, Unix milliseconds.
pub const DUE: &str = "x-leveret-due";
/// When Leveret, or the broker where that is known, took the message, Unix milliseconds.
pub const ACCEPTED_AT: &str = "x-leveret-accepted-at";
/// When the message was parked, Unix milliseconds.
pub const PARKED_AT: &str = "x-leveret-parked-at";
/// The `expiration` property of a parked message, which would otherwise run in the parked queue.
pub const EXPIRATION: &str = "x-leveret-expiration";
/// The `delivery_mode` property of a parked message, which is itself always persistent.
pub const DELIVERY_MODE: &str = "x-leveret-delivery-mode";
/// The properties of a parked message in wire encoding, where they, or its routing key, cannot be read.
pub const RAW_PROPERTIES: &str = "x-leveret-raw-properties";
/// The routing key of a parked message as bytes, where it is not UTF-8.
pub const RAW_ROUTING_KEY: &str = "x-leveret-raw-routing-key";
/// How often a parked message had been held in a level or the due queue.
pub const HOPS: &str = "x-leveret-hops";

/// The version of the bundle in an envelope, and the mark of one: an application cannot set it.
pub const BUNDLE_VERSION: &str = "x-leveret-version";

/// The value of one header, in the types of AMQP field tables that RabbitMQ knows.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderValue {
    /// Any signed or unsigned integer of up to 64 bits.
    Integer(i128),
    /// A 32-bit or 64-bit IEEE number.
    Float(f64),
    /// `value / 10^scale`.
    Decimal {
        /// Number of decimal places.
        scale: u8,
        /// The digits.
        value: u32,
    },
    /// UTF-8 text (a long string or a byte array that is UTF-8).
    Text(String),
    /// An AMQP timestamp: Unix seconds.
    Timestamp(u64),
    /// Anything that cannot be a number or a time: the AMQP type's name (`boolean`, `table`, `array`, `null`, `binary`).
    Other(&'static str),
}
