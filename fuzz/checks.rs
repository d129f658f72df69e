//! What must hold for any bytes that come from outside. Each check panics where it does not. The fuzz targets search for
//! such bytes; `tests/fuzz_seeds.rs` runs the checks over the kept ones, and over what can be made of them.
#![allow(dead_code, reason = "each target runs one of them")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a check stops at what must not be")]

use std::io::Cursor;
use std::time::Duration;

use bytes::Bytes;
use leveret::amqp::properties;
use leveret::amqp::sieve::Sieve;
use leveret::config::{Config, Endpoint, Secret, parse_uri};
use leveret::domain::bundle;
use leveret::domain::codec::{Codec, KEY_BYTES, Key};
use leveret::domain::due::{self, DueRules};
use leveret::domain::duration;
use leveret::domain::header::HeaderValue;
use leveret::domain::time::UnixMillis;

/// 2026-01-01T00:00:00Z.
const READ_AT: UnixMillis = UnixMillis(1_767_225_600_000);
const MAX_DELAY: Duration = Duration::from_secs(3_650 * 86_400);
const HEADERS: [&str; 4] = ["x-delay", "x-opt-delivery-delay", "x-deliver-at", "x-opt-delivery-time"];

/// The body of an envelope, by readers with and without keys. What can be read is written again as it was.
pub(crate) fn bundle(data: &[u8]) {
    let keys = || [1, 2].map(|byte| Key::new(&[byte; KEY_BYTES]).expect("a key has that length")).to_vec();
    let codecs =
        [Codec::default(), Codec::new(true, vec![]), Codec::new(false, keys()), Codec::new(true, keys())];
    // Nobody guesses a checksum: beside the bytes as they are, these stand in a frame that is right.
    for body in [Bytes::copy_from_slice(data), framed(data)] {
        let _ = bundle::decode(body.clone());
        for reader in &codecs {
            let Ok(messages) = reader.decode(body.clone()) else { continue };
            if body.get(5) == Some(&0) {
                assert_eq!(bundle::encode(&messages), body);
            }
            for writer in &codecs {
                let again = writer.encode(&messages).expect("the system has random numbers");
                assert_eq!(codecs[3].decode(again).as_ref(), Ok(&messages));
            }
        }
    }
}

/// A bundle of this version: the first byte is its flags, the rest its content.
fn framed(data: &[u8]) -> Bytes {
    let (flags, content) = data.split_first().map_or((0, data), |(flags, content)| (flags & 3, content));
    let mut frame = [b"LVRT".as_slice(), &[bundle::VERSION, flags], content].concat();
    frame.extend(crc32c::crc32c(&frame).to_be_bytes());
    frame.into()
}

/// A message's properties in wire encoding. What can be read is written as what reads the same.
pub(crate) fn properties(data: &[u8]) {
    let Some(props) = properties::decode(data) else { return };
    let encoded = properties::encode(&props);
    let again = properties::decode(&encoded).expect("what was written can be read");
    assert_eq!(properties::encode(&again), encoded);
    let _ = properties::are_for_rabbitmq(&props);
    let lookup = |name: &str| properties::header(&props, name).map(properties::header_value);
    resolve(lookup);
    for value in props.headers().iter().flat_map(|table| table.inner().values()) {
        judge(&properties::header_value(value));
    }
}

/// What a broker sends to whoever looks through a queue for what cannot be read.
pub(crate) fn rescue(data: &[u8]) {
    let stream = tokio::io::join(Cursor::new(data.to_vec()), tokio::io::sink());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (mut sieve, mut most) = (Sieve::over(stream), 100);
        // It ends with the bytes, if not before.
        while let Ok(Some(message)) = sieve.next("q", &mut most).await {
            assert!(!message.fault.is_empty());
        }
    });
}

/// A header that says when a message is due: two bytes choose header and type, the rest is the value.
pub(crate) fn due(data: &[u8]) {
    let [header, kind, value @ ..] = data else { return };
    let header = HEADERS[usize::from(*header) % HEADERS.len()];
    let text = String::from_utf8_lossy(value).into_owned();
    let number =
        |width: usize| value.iter().take(width).fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
    let value = match kind % 6 {
        0 => HeaderValue::Integer(i128::from(number(8) as i64)),
        1 => HeaderValue::Float(f64::from_bits(number(8))),
        2 => HeaderValue::Decimal {
            scale: value.first().copied().unwrap_or_default(),
            value: number(4) as u32,
        },
        3 => HeaderValue::Timestamp(number(8)),
        _ => HeaderValue::Text(text.clone()),
    };
    judge(&value);
    resolve(|name| (name == header).then(|| value.clone()));
    if let Ok(read) = duration::parse(&text) {
        assert_eq!(duration::parse(&duration::compact(read)), Ok(read), "{text:?}");
    }
}

fn resolve(lookup: impl Fn(&str) -> Option<HeaderValue>) {
    let rules = DueRules { default_delay: Duration::ZERO, max_delay: MAX_DELAY };
    match due::resolve(&rules, lookup, READ_AT) {
        Ok(due) => assert!(due >= READ_AT && due.saturating_since(READ_AT) <= MAX_DELAY, "{due}"),
        // It is written into a header of the parked message.
        Err(error) => assert!(error.to_string().len() <= 2_048, "{error}"),
    }
}

fn judge(value: &HeaderValue) {
    assert!(due::accepted_at(Some(value), READ_AT) <= READ_AT);
    let _ = due::delay_millis(value);
}

/// A configuration file. What is accepted can be shown.
pub(crate) fn config(data: &[u8]) {
    match Config::from_yaml(&String::from_utf8_lossy(data)) {
        Ok(config) => assert!(!config.to_yaml().expect("it can be written").is_empty()),
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

/// The broker's URI. What is shown of it does not depend on the password.
pub(crate) fn uri(data: &[u8]) {
    match parse_uri(&String::from_utf8_lossy(data)) {
        Ok(endpoints) => {
            for endpoint in endpoints {
                let other = Endpoint { password: Secret::new("another".to_owned()), ..endpoint.clone() };
                assert_eq!(endpoint.to_string(), other.to_string());
                assert_eq!(format!("{endpoint:?}"), format!("{other:?}"));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
