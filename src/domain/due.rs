//! When a message is due: what its headers say, and from which moment its delay counts. Refuses what means nothing
//! rather than guess at it.

use std::num::IntErrorKind;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;

use super::duration::{self, compact, millis_rounded_up};
use super::header::{self, HeaderValue};
use super::park::Reason;
use super::time::UnixMillis;

/// Longest part of a header's text that an error repeats, in characters.
const SHOWN_CHARS: usize = 128;

/// September 2001, in Unix milliseconds. There was no RabbitMQ before: a smaller number counts in another unit.
const EARLIEST_BROKER_TIMESTAMP: i128 = 1_000_000_000_000;

/// What a bridge says of delays. The default is expected to be no more than the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRules {
    /// The delay of a message that asks for none.
    pub default_delay: Duration,
    /// The longest wait that a message may ask for.
    pub max_delay: Duration,
}

/// Why a message has no due time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DueError {
    /// The header's value is neither a delay nor a time.
    #[error("header {header} is {value}: send {}", Meaning::of(header).expected())]
    Invalid {
        /// The header that decides.
        header: &'static str,
        /// Its value, made fit to be shown.
        value: String,
    },
    /// The header asks for a longer wait than is allowed.
    #[error("header {header} is {value}, a wait of more than {}: raise max_delay to allow it", compact(*max))]
    TooLong {
        /// The header that decides.
        header: &'static str,
        /// Its value, made fit to be shown.
        value: String,
        /// The longest wait that is allowed.
        max: Duration,
    },
}

impl DueError {
    /// The reason by which the message is parked.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Invalid { .. } => Reason::InvalidDelay,
            Self::TooLong { .. } => Reason::DelayTooLong,
        }
    }
}

/// The headers that say when a message is due; the first that is present decides, even if it makes no sense.
const DUE_HEADERS: [&str; 4] =
    [header::DELIVER_AT, header::OPT_DELIVERY_TIME, header::DELAY, header::OPT_DELIVERY_DELAY];

#[derive(Clone, Copy)]
enum Meaning {
    Moment,
    Delay,
}

impl Meaning {
    fn of(header: &str) -> Self {
        if header == header::DELIVER_AT || header == header::OPT_DELIVERY_TIME {
            Self::Moment
        } else {
            Self::Delay
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Moment => "an AMQP timestamp, Unix milliseconds, or RFC 3339 text with an offset",
            Self::Delay => "milliseconds as a number or digits, or text such as 90s or 1h30m",
        }
    }
}

/// When the message with these headers is due; never before `accepted_at`.
///
/// `lookup` gives the value of the message's header of that name.
///
/// # Errors
/// Where the deciding header means nothing, or asks for more than `max_delay`.
pub fn resolve(
    rules: &DueRules,
    lookup: impl Fn(&str) -> Option<HeaderValue>,
    accepted_at: UnixMillis,
) -> Result<UnixMillis, DueError> {
    DUE_HEADERS.into_iter().find_map(|header| lookup(header).map(|value| (header, value))).map_or_else(
        || Ok(accepted_at.saturating_add(rules.default_delay)),
        |(header, value)| due_by_header(rules.max_delay, header, &value, accepted_at),
    )
}

/// When the broker took the message, by the header `timestamp_in_ms` where that is an integer (milliseconds) or an
/// AMQP timestamp that can be true; otherwise, and where the broker's clock is ahead, when the message was read.
#[must_use]
pub fn accepted_at(broker_timestamp: Option<&HeaderValue>, read_at: UnixMillis) -> UnixMillis {
    let millis = match broker_timestamp {
        Some(HeaderValue::Integer(millis)) => *millis,
        Some(HeaderValue::Timestamp(seconds)) => i128::from(*seconds) * 1_000,
        _ => return read_at,
    };
    if millis < EARLIEST_BROKER_TIMESTAMP {
        return read_at;
    }
    u64::try_from(millis).map_or(read_at, |millis| UnixMillis(millis).min(read_at))
}

fn due_by_header(
    max: Duration,
    header: &'static str,
    value: &HeaderValue,
    accepted_at: UnixMillis,
) -> Result<UnixMillis, DueError> {
    let accepted = i128::from(accepted_at.0);
    let delay = match Meaning::of(header) {
        Meaning::Moment => moment(value).map(|due| due.saturating_sub(accepted)),
        Meaning::Delay => delay_millis(value),
    }
    .ok_or_else(|| DueError::Invalid { header, value: shown(value) })?;

    // A negative delay is a moment that is already past.
    let delay = delay.max(0).unsigned_abs();
    let due = u128::from(accepted_at.0).checked_add(delay).and_then(|due| u64::try_from(due).ok());
    match due {
        Some(due) if delay <= max.as_millis() => Ok(UnixMillis(due)),
        _ => Err(DueError::TooLong { header, value: shown(value), max }),
    }
}

/// Unix milliseconds.
fn moment(value: &HeaderValue) -> Option<i128> {
    match value {
        HeaderValue::Timestamp(seconds) => Some(i128::from(*seconds) * 1_000),
        HeaderValue::Text(text) => number_in_text(text).or_else(|| rfc3339(text)),
        other => number(other),
    }
}

/// The milliseconds that a relative delay header asks for, fractions rounded up; `None` where the value means nothing.
#[must_use]
pub fn delay_millis(value: &HeaderValue) -> Option<i128> {
    match value {
        HeaderValue::Text(text) => number_in_text(text).or_else(|| signed_duration(text)),
        other => number(other),
    }
}

/// A number as a whole one, fractions rounded up.
fn number(value: &HeaderValue) -> Option<i128> {
    match value {
        HeaderValue::Integer(integer) => Some(*integer),
        HeaderValue::Float(float) => float_rounded_up(*float),
        HeaderValue::Decimal { scale, value } => {
            // Where the power saturates, the quotient is less than one all the same.
            let divisor = 10_u64.saturating_pow(u32::from(*scale));
            Some(i128::from(u64::from(*value).div_ceil(divisor)))
        }
        HeaderValue::Text(_) | HeaderValue::Timestamp(_) | HeaderValue::Other(_) => None,
    }
}

fn float_rounded_up(float: f64) -> Option<i128> {
    // The cast saturates, and what saturates is far over any maximum.
    float.is_finite().then(|| float.ceil() as i128)
}

/// Some clients send every number as text, and fractions or exponents with it.
fn number_in_text(text: &str) -> Option<i128> {
    let text = text.trim();
    text.parse()
        .or_else(|error: std::num::ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => Ok(i128::MAX),
            IntErrorKind::NegOverflow => Ok(i128::MIN),
            _ => text.parse().ok().and_then(float_rounded_up).ok_or(error),
        })
        .ok()
}

fn signed_duration(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let millis = i128::try_from(millis_rounded_up(duration::parse(unsigned).ok()?)).ok()?;
    Some(if negative { -millis } else { millis })
}

/// Not by [`jiff::Timestamp`], which ends a day before the year 9999: the last second of that year is how many programs
/// write "never", and they must hear that it is too long, not that it means nothing.
fn rfc3339(text: &str) -> Option<i128> {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let pieces = Pieces::parse(text.trim()).ok()?;
    let offset = pieces.to_numeric_offset()?;
    let local = pieces.date().to_datetime(pieces.time()?);
    let nanos = local.duration_since(EPOCH).as_nanos() - i128::from(offset.seconds()) * 1_000_000_000;
    Some(-(-nanos).div_euclid(1_000_000))
}

/// The value for a person: bounded, in quotes where it is text, with whatever could garble a terminal escaped.
fn shown(value: &HeaderValue) -> String {
    match value {
        HeaderValue::Integer(integer) => integer.to_string(),
        // Not `to_string`, which would write out three hundred zeros.
        HeaderValue::Float(float) => format!("{float:?}"),
        HeaderValue::Decimal { scale, value } => format!("the decimal {value}e-{scale}"),
        HeaderValue::Timestamp(seconds) => format!("the timestamp {seconds}"),
        HeaderValue::Other(kind) => format!("of type {kind}"),
        HeaderValue::Text(text) => match text.char_indices().nth(SHOWN_CHARS) {
            None => format!("{text:?}"),
            Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests;
