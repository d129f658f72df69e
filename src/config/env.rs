//! Environment variables that override the file: `LEVERET_` and the path in capitals, `__` between its keys.

use super::keys::ROOT;
use super::nearest;
use super::node::{Node, Value, Variable};
use super::problem::Problems;

/// What every variable of Leveret's begins with.
pub(super) const PREFIX: &str = "LEVERET_";
/// Names the file.
pub(super) const FILE: &str = "LEVERET_CONFIG";
/// What variables of the tests, which run the program, begin with.
const TEST_PREFIXES: [&str; 2] = ["LEVERET_TEST_", "LEVERET_TORTURE_"];

/// Keys that exclude each other: a variable that sets the first replaces the others where the file has them, since the
/// environment goes before the file.
const REPLACES: [(&str, &[&str]); 7] = [
    ("uri", &["uri_file", "hosts", "vhost", "username", "username_file", "password", "password_file"]),
    ("uri_file", &["uri", "hosts", "vhost", "username", "username_file", "password", "password_file"]),
    ("hosts", &["uri", "uri_file"]),
    ("username", &["username_file"]),
    ("username_file", &["username"]),
    ("password", &["password_file"]),
    ("password_file", &["password"]),
];

/// One step of a path. Ordered, so that a list's items are set in their order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Key(String),
    Index(usize),
}

/// Applies the variables to the tree. Variables that are empty count as not set.
pub(super) fn overlay(
    root: &mut Node,
    variables: impl Iterator<Item = (String, String)>,
    problems: &Problems,
) {
    let mut overrides: Vec<_> = variables
        .filter(|(name, text)| is_override(name, text))
        .filter_map(|(name, text)| match path_of(&name) {
            Some(path) => Some((path, Variable { name, text })),
            None => {
                problems.add(name.as_str(), format!("unknown variable; {}", hint(&name)));
                None
            }
        })
        .collect();
    overrides.sort_by(|(left, _), (right, _)| left.cmp(right));
    let sets_bridge =
        |path: &[Segment]| path.len() > 1 && path.starts_with(&[Segment::Key("bridges".to_owned())]);
    if overrides.iter().any(|(path, _)| sets_bridge(path)) {
        name_default_bridge(root);
    }
    for (path, variable) in overrides {
        let name = variable.name.clone();
        if let Err(text) = set(root, &path, variable) {
            problems.add(name, text);
        }
    }
}

fn is_override(name: &str, text: &str) -> bool {
    name.starts_with(PREFIX)
        && name != FILE
        && !TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !text.is_empty()
        && !is_service_link(name, text)
}

/// Kubernetes tells each container about each service: one named `leveret` gives `LEVERET_PORT`,
/// `LEVERET_SERVICE_HOST`, `LEVERET_PORT_9690_TCP_ADDR` and more.
fn is_service_link(name: &str, text: &str) -> bool {
    if name.contains("__") {
        return false;
    }
    let is_port_link = |(_, after): (&str, &str)| {
        let mut parts = after.split('_');
        parts.next().is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
            && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && text.contains("://"))
        || name.split_once("_PORT_").is_some_and(is_port_link)
}

/// The path that a variable names, where there is such a key.
fn path_of(name: &str) -> Option<Vec<Segment>> {
    let mut shape = &ROOT;
    let mut path = Vec::new();
    for part in name.strip_prefix(PREFIX)?.split("__") {
        let key = shape.keys().iter().find(|key| key.name.to_uppercase() == part);
        match (key, shape.item()) {
            (Some(key), _) => {
                shape = &key.shape;
                path.push(Segment::Key(key.name.to_owned()));
            }
            (None, Some(item)) => {
                shape = item;
                path.push(Segment::Index(part.parse().ok()?));
            }
            (None, None) => return None,
        }
    }
    Some(path)
}

/// The nearest variable to one that is unknown.
fn hint(name: &str) -> String {
    let parts: Vec<_> = name.strip_prefix(PREFIX).unwrap_or(name).split("__").collect();
    let (indexes, _): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.parse::<usize>().is_ok());
    let pattern =
        parts.iter().map(|part| if indexes.contains(&part) { "#" } else { part }).collect::<Vec<_>>();
    let mut known = Vec::new();
    ROOT.for_each_path(&mut Vec::new(), &mut |path| known.push(path.join("__").to_uppercase()));
    nearest::nearest(&pattern.join("__"), known.iter().map(String::as_str)).map_or_else(
        || "its name is LEVERET_ and a key's path in capitals with __ between the keys, as in LEVERET_AMQP__URI".to_owned(),
        |found| {
            let with_indexes = indexes.iter().fold(found.to_owned(), |text, index| text.replacen('#', index, 1));
            format!("did you mean `{PREFIX}{}`?", with_indexes.replace('#', "0"))
        },
    )
}

/// A variable may set a part of the bridge that is there without any file.
fn name_default_bridge(root: &mut Node) {
    let has_bridges = root.get("bridges").is_some_and(|bridges| !matches!(bridges.value, Value::Null));
    if has_bridges || !matches!(root.value, Value::Null | Value::Map(_)) {
        return;
    }
    let text = |text: &str| Node::from(Value::Text(text.to_owned()));
    let entry = Value::Map(vec![("exchange".to_owned(), text(super::DEFAULT_ENTRY))]);
    let bridge = Value::Map(vec![
        ("name".to_owned(), text(super::DEFAULT_BRIDGE)),
        ("entry".to_owned(), entry.into()),
    ]);
    if let Some(slot) = entry_mut(root, "bridges") {
        slot.value = Value::List(vec![bridge.into()]);
    }
}

/// Sets the value at the path, making sections on the way.
fn set(root: &mut Node, path: &[Segment], variable: Variable) -> Result<(), String> {
    let mut node = root;
    for segment in path {
        node = match segment {
            Segment::Key(key) => {
                let replaced =
                    REPLACES.iter().find(|(name, _)| name == key).map_or(&[][..], |(_, replaced)| replaced);
                if let Value::Map(entries) = &mut node.value {
                    entries
                        .retain(|(name, node)| node.variable.is_some() || !replaced.contains(&name.as_str()));
                }
                entry_mut(node, key)
                    .ok_or_else(|| format!("cannot set `{key}`: the file has no section there"))?
            }
            Segment::Index(index) => item_mut(node, *index)?,
        };
    }
    node.value = value_of(&variable.text);
    node.variable = Some(variable);
    Ok(())
}

/// What the variable says as YAML. What YAML takes for a comment or cannot read is text: it may be a password.
fn value_of(text: &str) -> Value {
    match Node::parse(text).map(|node| node.value) {
        Ok(Value::Null) if !matches!(text, "null" | "~") => Value::Text(text.to_owned()),
        Ok(value) => value,
        Err(_) => Value::Text(text.to_owned()),
    }
}

/// The child of that key, made where it is missing; `None` where the node is no section.
fn entry_mut<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    if matches!(node.value, Value::Null) {
        node.value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = &mut node.value else { return None };
    if !entries.iter().any(|(name, _)| name == key) {
        entries.push((key.to_owned(), Node::default()));
    }
    entries.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
}

/// The item at that index, made where it is the next one.
fn item_mut(node: &mut Node, index: usize) -> Result<&mut Node, String> {
    if matches!(node.value, Value::Null) {
        node.value = Value::List(Vec::new());
    }
    let Value::List(items) = &mut node.value else {
        return Err(format!("cannot set item {index}: the file has no list there"));
    };
    let length = items.len();
    if index == length {
        items.push(Node::default());
    }
    items
        .get_mut(index)
        .ok_or_else(|| format!("cannot set item {index} of a list of {length}: the next one is {length}"))
}
