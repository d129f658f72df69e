//! Reads checked values out of the tree and goes on after an error, so that all errors are told at once.
//!
//! Where a value is wrong, the problem is noted and the default stands in for it; the configuration that comes out is
//! thrown away then, but the rules that compare values can still be applied to the rest.

use std::time::Duration;

use super::choice::Choice;
use super::node::{Node, Value};
use super::problem::Problems;
use super::shape::Shape;
use super::{duration, nearest, size};

/// A place in the tree, whether or not there is something.
#[derive(Clone)]
pub(super) struct Field<'a> {
    place: String,
    node: Option<&'a Node>,
    problems: &'a Problems,
}

impl<'a> Field<'a> {
    pub(super) fn root(node: &'a Node, problems: &'a Problems) -> Self {
        Self { place: String::new(), node: Some(node), problems }
    }

    /// The place of that key.
    pub(super) fn at(&self, key: &str) -> Self {
        let separator = if self.place.is_empty() { "" } else { "." };
        self.child(self.node.and_then(|node| node.get(key)), format!("{}{separator}{key}", self.place))
    }

    /// The places of a list's items; none where there is no list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        let items = match self.value() {
            Some(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| self.child(Some(item), format!("{}[{index}]", self.place)))
    }

    /// A value from the environment is reported by the variable's name, not by a path in a file where it is not.
    fn child(&self, node: Option<&'a Node>, place: String) -> Self {
        let variable = node.and_then(|node| node.variable.as_ref());
        Self {
            place: variable.map_or(place, |variable| variable.name.clone()),
            node,
            problems: self.problems,
        }
    }

    /// How an operator finds this place.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Notes that something is wrong here.
    pub(super) fn refuse(&self, text: impl Into<String>) {
        self.problems.add(self.place.as_str(), text);
    }

    /// Whether there is a value; `key:` with nothing behind it is none.
    pub(super) fn is_given(&self) -> bool {
        self.value().is_some()
    }

    pub(super) fn value(&self) -> Option<&'a Value> {
        self.node.map(|node| &node.value).filter(|value| !matches!(value, Value::Null))
    }

    fn refuse_kind(&self, expected: &str, value: &Value) {
        self.refuse(format!("expected {expected}, found {}", value.kind()));
    }

    /// This place, after noting whether something other than a section is here.
    pub(super) fn section(self) -> Self {
        if let Some(value) = self.value().filter(|value| !matches!(value, Value::Map(_))) {
            self.refuse_kind("a section with keys", value);
        }
        self
    }

    /// The items of a list, after noting whether something else is here.
    pub(super) fn list(&self) -> Vec<Self> {
        if let Some(value) = self.value().filter(|value| !matches!(value, Value::List(_))) {
            self.refuse_kind("a list", value);
        }
        self.items().collect()
    }

    /// Text, where there is some.
    pub(super) fn text(&self) -> Option<String> {
        if let Some(variable) = self.node.and_then(|node| node.variable.as_ref()) {
            return Some(unquoted(&variable.text, self.value()).to_owned());
        }
        match self.value()? {
            Value::Text(text) => Some(text.clone()),
            value @ (Value::Integer(_) | Value::Float(_) | Value::Bool(_)) => {
                self.refuse(format!("expected text, found {}: put it in quotes", value.kind()));
                None
            }
            value => {
                self.refuse_kind("text", value);
                None
            }
        }
    }

    /// Text that must be here and not be empty.
    pub(super) fn required_text(&self) -> String {
        if !self.is_given() {
            self.refuse("is required");
            return String::new();
        }
        let text = self.text();
        if text.as_deref() == Some("") {
            self.refuse("must not be empty");
        }
        text.unwrap_or_default()
    }

    pub(super) fn bool(&self, default: bool) -> bool {
        match self.value() {
            None => default,
            Some(Value::Bool(value)) => *value,
            Some(value) => {
                self.refuse_kind("true or false", value);
                default
            }
        }
    }

    pub(super) fn integer<T: TryFrom<u64>>(&self, default: T, (low, high): (u64, u64)) -> T {
        let Some(value) = self.value() else { return default };
        let number = match value {
            Value::Integer(number) => {
                u64::try_from(*number).ok().filter(|number| (low..=high).contains(number))
            }
            _ => {
                self.refuse_kind("a whole number", value);
                return default;
            }
        };
        if number.is_none() {
            self.refuse(format!("must be from {low} to {high}"));
        }
        number.and_then(|number| T::try_from(number).ok()).unwrap_or(default)
    }

    /// A number of bytes.
    pub(super) fn size(&self, default: usize, (low, high): (u64, u64)) -> usize {
        let Some(value) = self.value() else { return default };
        let bytes = match value {
            Value::Integer(number) => u64::try_from(*number).map_err(|_| "must not be negative".to_owned()),
            Value::Text(text) => size::parse(text),
            _ => {
                self.refuse_kind("a size such as 256KiB", value);
                return default;
            }
        };
        let bytes = bytes.and_then(|bytes| {
            let range = || format!("must be from {} to {}", size::format(low), size::format(high));
            usize::try_from(bytes).ok().filter(|_| (low..=high).contains(&bytes)).ok_or_else(range)
        });
        bytes.map_err(|text| self.refuse(text)).unwrap_or(default)
    }

    pub(super) fn duration(&self, default: Duration, (low, high): (Duration, Duration)) -> Duration {
        let Some(duration) = self.any_duration() else { return default };
        if (low..=high).contains(&duration) {
            return duration;
        }
        self.refuse(format!("must be from {} to {}", duration::format(low), duration::format(high)));
        default
    }

    /// A duration of any length, where there is one.
    pub(super) fn any_duration(&self) -> Option<Duration> {
        let parsed = match self.value()? {
            Value::Integer(0) => Ok(Duration::ZERO),
            Value::Integer(number) => duration::parse(&number.to_string()),
            Value::Text(text) => duration::parse(text),
            value => {
                self.refuse_kind("a duration such as 30s", value);
                return None;
            }
        };
        parsed.map_err(|text| self.refuse(text)).ok()
    }

    pub(super) fn choice<T: Choice>(&self, default: T) -> T {
        let Some(value) = self.value() else { return default };
        let names: Vec<_> = T::ALL.iter().map(|(name, _)| *name).collect();
        let Value::Text(text) = value else {
            self.refuse_kind(&format!("one of {}", names.join(", ")), value);
            return default;
        };
        let chosen = T::ALL.iter().find(|(name, _)| name == text).map(|(_, choice)| *choice);
        chosen.unwrap_or_else(|| {
            self.refuse(format!("`{text}` is not valid: {}", nearest::hint(text, &names)));
            default
        })
    }

    /// Notes every key below here that the shape does not have, and every key that is repeated.
    pub(super) fn check_keys(&self, shape: &Shape) {
        match self.value() {
            Some(Value::Map(entries)) if !shape.keys().is_empty() => {
                let names: Vec<_> = shape.keys().iter().map(|key| key.name).collect();
                for (index, (name, _)) in entries.iter().enumerate() {
                    // In `{password:secret}` the secret is a part of the key.
                    let shown = name.split(':').next().unwrap_or_default();
                    let field = self.at(shown);
                    if entries.iter().take(index).any(|(earlier, _)| earlier == name) {
                        field.refuse("is given twice");
                    } else if let Some(key) = shape.keys().iter().find(|key| key.name == name) {
                        field.check_keys(&key.shape);
                    } else {
                        field.refuse(format!("unknown key; {}", nearest::hint(shown, &names)));
                    }
                }
            }
            Some(Value::List(_)) => {
                if let Some(item) = shape.item() {
                    self.items().for_each(|field| field.check_keys(item));
                }
            }
            _ => {}
        }
    }
}

/// The text of a variable as it is: a password may well begin with `{` or contain ` #`. Only text that is quoted from
/// end to end, as YAML would have it, loses its quotes.
fn unquoted<'t>(text: &'t str, parsed: Option<&'t Value>) -> &'t str {
    match parsed {
        Some(Value::Text(parsed)) if text.starts_with(['"', '\'']) => parsed,
        _ => text,
    }
}
