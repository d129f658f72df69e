//! A message's properties in words and as JSON, with every type that a header can have.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lapin::BasicProperties;
use lapin::types::AMQPValue;
use serde_json::{Map, Value, json};

use super::output::{harmless, moment};
use crate::domain::time::UnixMillis;

/// The properties that are set, with their values; headers apart.
fn plain(props: &BasicProperties) -> Vec<(&'static str, Value)> {
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(|value| json!(value.as_str()));
    let all = [
        ("content_type", text(props.content_type())),
        ("content_encoding", text(props.content_encoding())),
        ("delivery_mode", props.delivery_mode().map(Value::from)),
        ("priority", props.priority().map(Value::from)),
        ("correlation_id", text(props.correlation_id())),
        ("reply_to", text(props.reply_to())),
        ("expiration", text(props.expiration())),
        ("message_id", text(props.message_id())),
        ("timestamp", props.timestamp().map(seconds)),
        ("type", text(props.kind())),
        ("user_id", text(props.user_id())),
        ("app_id", text(props.app_id())),
        ("cluster_id", text(props.cluster_id())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// One `name: value` a property; a header's type stands behind its value.
pub(super) fn lines(props: &BasicProperties) -> Vec<String> {
    let mut lines: Vec<_> =
        plain(props).iter().map(|(name, value)| format!("{name}: {}", in_line(value))).collect();
    let headers = props.headers().iter().flat_map(|headers| headers.inner());
    lines.extend(headers.map(|(name, value)| {
        format!("header {}: {} ({})", harmless(name.as_str()), in_line(&json(value)), kind(value))
    }));
    lines
}

/// The properties as a JSON object; the headers are an object in it.
pub(super) fn as_json(props: &BasicProperties) -> Value {
    let mut object: Map<_, _> =
        plain(props).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if let Some(headers) = props.headers() {
        let headers: Map<_, _> =
            headers.inner().iter().map(|(name, value)| (name.to_string(), json(value))).collect();
        object.insert("headers".to_owned(), headers.into());
    }
    object.into()
}

/// Bytes: as text where they are UTF-8, else as `{"base64": ...}`.
pub(super) fn bytes(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes)
        .map_or_else(|_| json!({ "base64": BASE64_STANDARD.encode(bytes) }), |text| json!(text))
}

fn in_line(value: &Value) -> String {
    match value {
        Value::String(text) => harmless(text),
        value => value.to_string(),
    }
}

fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(value) => json!(value),
        AMQPValue::ShortShortInt(n) => json!(n),
        AMQPValue::ShortShortUInt(n) => json!(n),
        AMQPValue::ShortInt(n) => json!(n),
        AMQPValue::ShortUInt(n) => json!(n),
        AMQPValue::LongInt(n) => json!(n),
        AMQPValue::LongUInt(n) => json!(n),
        AMQPValue::LongLongInt(n) => json!(n),
        // JSON knows neither NaN nor infinity.
        AMQPValue::Float(n) if !n.is_finite() => json!(n.to_string()),
        AMQPValue::Double(n) if !n.is_finite() => json!(n.to_string()),
        AMQPValue::Float(n) => json!(n),
        AMQPValue::Double(n) => json!(n),
        AMQPValue::DecimalValue(n) => json!(format!("{}e-{}", n.value, n.scale)),
        AMQPValue::ShortString(text) => json!(text.as_str()),
        AMQPValue::LongString(text) => bytes(text.as_bytes()),
        AMQPValue::ByteArray(array) => json!({ "base64": BASE64_STANDARD.encode(array.as_slice()) }),
        AMQPValue::FieldArray(items) => items.as_slice().iter().map(json).collect(),
        AMQPValue::FieldTable(table) => {
            let entries = table.inner().iter().map(|(name, value)| (name.to_string(), json(value)));
            entries.collect::<Map<_, _>>().into()
        }
        AMQPValue::Timestamp(at) => seconds(*at),
        AMQPValue::Void => Value::Null,
    }
}

fn seconds(seconds: u64) -> Value {
    seconds.checked_mul(1_000).map_or_else(|| json!(seconds), |millis| json!(moment(UnixMillis(millis))))
}

const fn kind(value: &AMQPValue) -> &'static str {
    match value {
        AMQPValue::Boolean(_) => "boolean",
        AMQPValue::ShortShortInt(_) => "int8",
        AMQPValue::ShortShortUInt(_) => "uint8",
        AMQPValue::ShortInt(_) => "int16",
        AMQPValue::ShortUInt(_) => "uint16",
        AMQPValue::LongInt(_) => "int32",
        AMQPValue::LongUInt(_) => "uint32",
        AMQPValue::LongLongInt(_) => "int64",
        AMQPValue::Float(_) => "float",
        AMQPValue::Double(_) => "double",
        AMQPValue::DecimalValue(_) => "decimal",
        AMQPValue::ShortString(_) | AMQPValue::LongString(_) => "text",
        AMQPValue::FieldArray(_) => "array",
        AMQPValue::Timestamp(_) => "timestamp",
        AMQPValue::FieldTable(_) => "table",
        AMQPValue::ByteArray(_) => "bytes",
        AMQPValue::Void => "null",
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldTable;

    use super::*;

    fn props() -> BasicProperties {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), AMQPValue::LongInt(5_000));
        headers.insert("nan".into(), AMQPValue::Double(f64::NAN));
        headers.insert("when".into(), AMQPValue::Timestamp(1_767_225_600));
        headers.insert("raw".into(), AMQPValue::ByteArray(vec![0xff].into()));
        headers.insert("list".into(), AMQPValue::FieldArray(vec![AMQPValue::Void].into()));
        headers.insert("evil".into(), AMQPValue::LongString("a\u{1b}b".into()));
        BasicProperties::default().with_headers(headers).with_priority(3).with_type("created".into())
    }

    #[test]
    fn lines_tell_types_and_are_harmless() {
        let expected = [
            "priority: 3",
            "type: created",
            "header evil: a\\u{1b}b (text)",
            "header list: [null] (array)",
            "header nan: NaN (double)",
            "header raw: {\"base64\":\"/w==\"} (bytes)",
            "header when: 2026-01-01T00:00:00.000Z (timestamp)",
            "header x-delay: 5000 (int32)",
        ];
        assert_eq!(lines(&props()), expected);
    }

    #[test]
    fn json_keeps_numbers_and_nesting() {
        let json = as_json(&props());
        assert_eq!(json["priority"], 3);
        assert_eq!(json["headers"]["x-delay"], 5_000);
        assert_eq!(json["headers"]["list"], json!([null]));
        assert_eq!(json["headers"]["nan"], "NaN");
    }
}
