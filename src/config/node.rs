//! The configuration as it is written: a tree that keeps what a checked type would lose (repeated keys, and which
//! environment variable a value came from), so that all errors can be told at once, each where it belongs.
//!
//! Deliberately without `Debug`: the tree holds secrets.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value and where it came from.
#[derive(Default, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    /// Set where an environment variable gave this value.
    pub(super) variable: Option<Variable>,
}

/// An environment variable that gave a value.
#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    /// Its content as it is, for settings that are text.
    pub(super) text: String,
}

/// What YAML can say.
#[derive(Default, Clone)]
pub(super) enum Value {
    #[default]
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; a repeated key is here twice.
    Map(Vec<(String, Node)>),
}

impl Value {
    /// What kind of value this is, for errors: never the value itself, which may be a secret.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(true) => "the value true",
            Self::Bool(false) => "the value false",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a section with keys",
        }
    }
}

impl Node {
    /// Reads YAML text; an empty text is [`Value::Null`].
    pub(super) fn parse(yaml: &str) -> Result<Self, serde_yaml::Error> {
        serde_yaml::from_str(yaml)
    }

    /// The child of that key, the first where the key is repeated.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self { value, variable: None }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self::from)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a number, true, false, a list or a section with keys (no tags)")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    /// What the library calls for a document without anything.
    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        i128::try_from(value).map(Value::Integer).map_err(|_| E::custom("the number is too large"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((Key(key), node)) = entries.next_entry()? {
            map.push((key, node));
        }
        Ok(Value::Map(map))
    }
}

/// A key as text: `1:` and `true:` are keys too, which are then refused by their names.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ValueVisitor)? {
            Value::Text(text) => Ok(Self(text)),
            Value::Bool(value) => Ok(Self(value.to_string())),
            Value::Integer(value) => Ok(Self(value.to_string())),
            Value::Float(value) => Ok(Self(value.to_string())),
            Value::Null => Ok(Self("null".to_owned())),
            Value::List(_) | Value::Map(_) => Err(Error::custom("a key must be a plain name")),
        }
    }
}
