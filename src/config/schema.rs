//! The JSON Schema of the file, for editors and for the chart.

use serde_json::{Map, Value, json};

use super::keys::ROOT;
use super::node::{self, Node};
use super::shape::{Key, Shape};

/// The JSON Schema (draft 2020-12) of the configuration file.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = of(&ROOT);
    if let Value::Object(object) = &mut schema {
        object.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        object.insert("title".to_owned(), json!("Leveret configuration"));
    }
    schema
}

fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
        Shape::Duration => {
            json!({ "type": ["string", "integer"], "pattern": r"^\s*(0|[0-9].*[A-Za-z])\s*$", "maximum": 0, "minimum": 0 })
        }
        Shape::Size => {
            json!({ "type": ["string", "integer"], "pattern": r"^\s*[0-9]+\s*([KMGkmg]?[i]?[Bb])?\s*$", "minimum": 0 })
        }
        Shape::Choice(names) => json!({ "enum": names }),
        Shape::List(item) => json!({ "type": "array", "items": of(item) }),
        Shape::Section(keys) => {
            let properties: Map<_, _> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
            let required: Vec<_> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
            json!({
                "type": ["object", "null"],
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        }
        Shape::AnyOf(shapes) => json!({ "anyOf": shapes.iter().map(of).collect::<Vec<_>>() }),
    }
}

fn property(key: &Key) -> Value {
    let mut schema = of(&key.shape);
    if let Value::Object(object) = &mut schema {
        object.insert("description".to_owned(), json!(key.doc));
        let default =
            Some(key.default).filter(|text| !text.is_empty()).and_then(|text| Node::parse(text).ok());
        if let Some(default) = default {
            object.insert("default".to_owned(), to_json(default.value));
        }
    }
    schema
}

fn to_json(value: node::Value) -> Value {
    match value {
        node::Value::Null => Value::Null,
        node::Value::Bool(value) => json!(value),
        node::Value::Integer(value) => i64::try_from(value).map_or(Value::Null, Value::from),
        node::Value::Float(value) => json!(value),
        node::Value::Text(value) => json!(value),
        node::Value::List(items) => items.into_iter().map(|item| to_json(item.value)).collect(),
        node::Value::Map(entries) => {
            entries.into_iter().map(|(key, node)| (key, to_json(node.value))).collect()
        }
    }
}
