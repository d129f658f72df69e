//! Message properties between the client's types, AMQP wire encoding and the domain's header values.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::protocol::basic::{gen_properties, parse_properties};
use lapin::types::{AMQPValue, FieldTable};

use crate::domain::header::{self, HeaderValue};

/// Few properties take more when they are encoded.
const USUAL_BYTES: usize = 512;

/// Encodes properties as they stand in an AMQP content header.
#[must_use]
pub fn encode(properties: &BasicProperties) -> Bytes {
    let buffer = Vec::with_capacity(USUAL_BYTES);
    // Writing into memory cannot fail.
    let encoded = cookie_factory::gen_simple(gen_properties(properties), buffer).unwrap_or_default();
    // It stays as long as the message does.
    encoded.into_boxed_slice().into()
}

/// Decodes properties; `None` where the bytes are not properties, or not only.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<BasicProperties> {
    match parse_properties(bytes) {
        Ok(([], properties)) => Some(properties),
        _ => None,
    }
}

/// The header of that name.
#[must_use]
pub fn header<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a AMQPValue> {
    properties.headers().as_ref().and_then(|headers| headers.inner().get(name))
}

/// The header of that name, where it is text.
#[must_use]
pub fn text_header<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a str> {
    header(properties, name).and_then(text)
}

/// The value where it is UTF-8 text.
#[must_use]
pub fn text(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

/// The value where it is an integer.
#[must_use]
pub fn integer(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(n) => Some(n.into()),
        AMQPValue::ShortShortUInt(n) => Some(n.into()),
        AMQPValue::ShortInt(n) => Some(n.into()),
        AMQPValue::ShortUInt(n) => Some(n.into()),
        AMQPValue::LongInt(n) => Some(n.into()),
        AMQPValue::LongUInt(n) => Some(n.into()),
        AMQPValue::LongLongInt(n) => Some(n),
        _ => None,
    }
}

/// A header as the domain sees it.
#[must_use]
pub fn header_value(value: &AMQPValue) -> HeaderValue {
    if let Some(number) = integer(value) {
        return HeaderValue::Integer(number.into());
    }
    match value {
        AMQPValue::Float(number) => HeaderValue::Float((*number).into()),
        AMQPValue::Double(number) => HeaderValue::Float(*number),
        AMQPValue::DecimalValue(decimal) => {
            HeaderValue::Decimal { scale: decimal.scale, value: decimal.value }
        }
        AMQPValue::Timestamp(seconds) => HeaderValue::Timestamp(*seconds),
        AMQPValue::ShortString(text) => HeaderValue::Text(text.as_str().to_owned()),
        AMQPValue::LongString(text) => text_or_binary(text.as_bytes()),
        AMQPValue::ByteArray(bytes) => text_or_binary(bytes.as_slice()),
        AMQPValue::Boolean(_) => HeaderValue::Other("boolean"),
        AMQPValue::FieldArray(_) => HeaderValue::Other("array"),
        AMQPValue::FieldTable(_) => HeaderValue::Other("table"),
        AMQPValue::Void => HeaderValue::Other("null"),
        // Every integer type has been dealt with.
        _ => HeaderValue::Other("number"),
    }
}

fn text_or_binary(bytes: &[u8]) -> HeaderValue {
    std::str::from_utf8(bytes).map_or(HeaderValue::Other("binary"), |text| HeaderValue::Text(text.to_owned()))
}

/// Whether RabbitMQ takes the headers, from anybody and to anywhere. It has no number that is not finite: at one in a
/// publish it closes the whole connection. And copies must be an array. So no application can have published what fails
/// here, but who may write to Leveret's own queues can.
#[must_use]
pub fn are_for_rabbitmq(properties: &BasicProperties) -> bool {
    let is_array = |value: &AMQPValue| matches!(value, AMQPValue::FieldArray(_));
    let copies = [header::CC, header::BCC].map(|name| header(properties, name));
    properties.headers().as_ref().is_none_or(|table| table.inner().values().all(is_finite))
        && copies.into_iter().flatten().all(is_array)
}

fn is_finite(value: &AMQPValue) -> bool {
    match value {
        AMQPValue::Float(number) => number.is_finite(),
        AMQPValue::Double(number) => number.is_finite(),
        AMQPValue::FieldArray(values) => values.as_slice().iter().all(is_finite),
        AMQPValue::FieldTable(table) => table.inner().values().all(is_finite),
        _ => true,
    }
}

/// Changes the headers of `properties`. A table that ends up empty is left out, unless there was one before.
#[must_use]
pub fn with_headers(
    properties: BasicProperties,
    change: impl FnOnce(&mut std::collections::BTreeMap<lapin::types::ShortString, AMQPValue>),
) -> BasicProperties {
    let had_table = properties.headers().is_some();
    let mut headers = properties.headers().as_ref().map(|table| table.inner().clone()).unwrap_or_default();
    change(&mut headers);
    if headers.is_empty() && !had_table {
        return properties;
    }
    properties.with_headers(FieldTable::from(headers))
}

#[cfg(test)]
mod tests {
    use lapin::types::{DecimalValue, FieldArray};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = AMQPValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(AMQPValue::Boolean),
            any::<i8>().prop_map(AMQPValue::ShortShortInt),
            any::<u8>().prop_map(AMQPValue::ShortShortUInt),
            any::<i16>().prop_map(AMQPValue::ShortInt),
            any::<u16>().prop_map(AMQPValue::ShortUInt),
            any::<i32>().prop_map(AMQPValue::LongInt),
            any::<u32>().prop_map(AMQPValue::LongUInt),
            any::<i64>().prop_map(AMQPValue::LongLongInt),
            any::<f32>()
                .prop_filter("NaN is not equal to itself", |n| !n.is_nan())
                .prop_map(AMQPValue::Float),
            any::<f64>()
                .prop_filter("NaN is not equal to itself", |n| !n.is_nan())
                .prop_map(AMQPValue::Double),
            (any::<u8>(), any::<u32>())
                .prop_map(|(scale, value)| AMQPValue::DecimalValue(DecimalValue { scale, value })),
            vec(any::<u8>(), 0..50).prop_map(|bytes| AMQPValue::LongString(bytes.into())),
            any::<u64>().prop_map(AMQPValue::Timestamp),
            vec(any::<u8>(), 0..50).prop_map(|bytes| AMQPValue::ByteArray(bytes.into())),
            Just(AMQPValue::Void),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..5).prop_map(|items| AMQPValue::FieldArray(FieldArray::from(items))),
                btree_map("[a-z]{0,8}", inner, 0..5).prop_map(|map| {
                    let map = map.into_iter().map(|(key, value)| (key.into(), value));
                    AMQPValue::FieldTable(map.collect::<std::collections::BTreeMap<_, _>>().into())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_table_type_survives(headers in btree_map("[a-z-]{1,12}", value(), 0..8), id in ".{0,40}") {
            let headers: std::collections::BTreeMap<_, _> =
                headers.into_iter().map(|(key, value)| (key.into(), value)).collect();
            let properties = BasicProperties::default()
                .with_headers(headers.into())
                .with_message_id(id.into())
                .with_priority(7)
                .with_timestamp(u64::MAX);
            prop_assert_eq!(decode(&encode(&properties)), Some(properties));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn nan_keeps_its_bits() {
        let nan = f64::from_bits(0x7ff8_dead_beef_0001);
        let mut headers = FieldTable::default();
        headers.insert("n".into(), AMQPValue::Double(nan));
        let properties = BasicProperties::default().with_headers(headers);
        let decoded = decode(&encode(&properties)).unwrap();
        let Some(AMQPValue::Double(back)) = header(&decoded, "n") else { panic!("not a double") };
        assert_eq!(back.to_bits(), nan.to_bits());
    }

    #[test]
    fn numbers_that_are_not_finite_are_found_at_any_depth() {
        let array = |value| AMQPValue::FieldArray(vec![AMQPValue::Void, value].into());
        let table = |value| {
            let mut table = FieldTable::default();
            table.insert("n".into(), value);
            table
        };
        let fit = |value: AMQPValue| are_for_rabbitmq(&BasicProperties::default().with_headers(table(value)));
        assert!(are_for_rabbitmq(&BasicProperties::default()));
        assert!(fit(AMQPValue::Double(f64::MAX)) && fit(array(AMQPValue::Float(f32::MIN))));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!fit(AMQPValue::Double(bad)) && !fit(AMQPValue::Float(bad as f32)));
            assert!(!fit(array(AMQPValue::FieldTable(table(AMQPValue::Double(bad))))));
        }
    }

    #[test]
    fn copies_are_an_array() {
        for name in ["CC", "BCC"] {
            let fit = |value| {
                let mut table = FieldTable::default();
                table.insert(name.into(), value);
                are_for_rabbitmq(&BasicProperties::default().with_headers(table))
            };
            assert!(fit(AMQPValue::FieldArray(FieldArray::default())));
            assert!(!fit(AMQPValue::LongString("key".into())) && !fit(AMQPValue::Void));
        }
    }

    #[test]
    fn trailing_bytes_are_not_properties() {
        assert_eq!(decode(&[0, 0]), Some(BasicProperties::default()));
        assert_eq!(decode(&[0, 0, 0]), None);
        assert_eq!(decode(&[]), None);
    }
}
