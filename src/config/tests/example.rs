//! `config/leveret.yaml`, the schema and the printed configuration all say the same.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::config::keys::ROOT;
use crate::config::node::{Node, Value};
use crate::config::shape::Key;

const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/leveret.yaml"));

#[test]
fn the_example_is_the_default() {
    assert_eq!(accept(EXAMPLE), Config::default());
}

/// The paths of all keys of a block-style file, also those that are commented out.
fn documented_paths(yaml: &str) -> BTreeSet<String> {
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut paths = BTreeSet::new();
    for line in yaml.lines() {
        let mut rest = line.trim_start();
        let mut indent = line.len() - rest.len();
        if let Some(item) = rest.strip_prefix("- #") {
            // The first key of the item follows on the next line.
            assert!(item.starts_with(' '));
            continue;
        }
        if let Some(comment) = rest.strip_prefix("# ") {
            rest = comment.trim_start();
            // Inside a comment the text's own indentation counts (`#   extra:` is below `#  ladder:`).
            indent += comment.len() - rest.len();
        }
        let Some((key, after)) = rest.split_once(':') else { continue };
        if !key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            || !after.is_empty() && !after.starts_with(' ')
        {
            continue;
        }
        above.retain(|(outer, _)| *outer < indent);
        above.push((indent, key));
        paths.insert(above.iter().map(|(_, key)| *key).collect::<Vec<_>>().join("."));
    }
    paths
}

#[test]
fn the_example_documents_every_key() {
    let documented = documented_paths(EXAMPLE);
    let mut missing = Vec::new();
    ROOT.for_each_path(&mut Vec::new(), &mut |path| {
        let path = path.iter().filter(|segment| **segment != "#").copied().collect::<Vec<_>>().join(".");
        if !documented.contains(&path) {
            missing.push(path);
        }
    });
    assert_eq!(missing, Vec::<String>::new());
    assert!(documented.contains("bridges.entry.exchange") && !documented.contains("bridges.exchange"));
}

/// A tree of nothing but the defaults that the table of keys tells.
fn defaults(keys: &[Key]) -> Value {
    let entry = |key: &Key| {
        let value = match key.shape.keys() {
            [] => Node::parse(key.default).unwrap().value,
            _ if !key.default.is_empty() => Node::parse(key.default).unwrap().value,
            // Without a URL there is no management API.
            _ if key.name == "management" => Value::Null,
            keys => defaults(keys),
        };
        (key.name.to_owned(), Node::from(value))
    };
    Value::Map(keys.iter().map(entry).collect())
}

#[test]
fn the_defaults_that_the_schema_tells_are_the_defaults() {
    let root = Node::from(defaults(ROOT.keys()));
    let problems = problem::Problems::default();
    let config = read::config(&reader::Field::root(&root, &problems));
    assert_eq!(problems.unless_any(config), Ok(Config::default()));
}

#[test]
fn the_schema_is_strict_and_describes_every_key() {
    fn visit(schema: &Json, keys: &mut usize) {
        match schema {
            Json::Object(object) => {
                if let Some(Json::Object(properties)) = object.get("properties") {
                    assert_eq!(object.get("additionalProperties"), Some(&Json::Bool(false)));
                    *keys += properties.len();
                    assert!(properties.values().all(|property| property["description"].is_string()));
                }
                object.values().for_each(|value| visit(value, keys));
            }
            Json::Array(items) => items.iter().for_each(|item| visit(item, keys)),
            _ => {}
        }
    }
    let schema = json_schema();
    let mut found = 0;
    visit(&schema, &mut found);
    let mut expected = 0;
    ROOT.for_each_path(&mut Vec::new(), &mut |path| expected += usize::from(path.last() != Some(&"#")));
    assert_eq!(found, expected);
    assert_eq!(schema["properties"]["max_delay"]["default"], "3650d");
    assert_eq!(schema["properties"]["bridges"]["items"]["required"], serde_json::json!(["name", "entry"]));
}

#[test]
fn what_is_printed_says_the_same() {
    let default = Config::default();
    assert_eq!(accept(&default.to_yaml().unwrap()), default);
    let config = accept(
        "
        amqp: {hosts: ['[::1]:5', rabbit], vhost: v, username_file: /u, password_file: /p,
               tls: {ca_file: /ca, cert_file: /c, key_file: /k, external: true}, heartbeat: 0s}
        workers: 3
        ladder: {preset: none, extra: [1m, 30m]}
        bridges:
          - {name: a, entry: {exchange: a, type: direct, keys: ['1', 'off']}, target: {exchange: x, allow: ['y.*']},
             unroutable: drop, delivered_header: remove, annotate: false, default_delay: 1h30m}
          - {name: b, entry: {exchange: b, type: headers}}
        bundle: {max_bytes: 5000}
        admin: {listen: off}
        management: {url: 'https://h:1/', username_file: /u, password_file: /p, ca_file: /ca}
        log: {format: json, level: 'info,leveret::engine=debug'}
        ",
    );
    assert_eq!(accept(&config.to_yaml().unwrap()), config);
    let rocketmq = accept("{ladder: rocketmq, amqp: {uri_file: /uri}}");
    assert!(rocketmq.to_yaml().unwrap().contains("ladder: rocketmq"));
    assert_eq!(accept(&rocketmq.to_yaml().unwrap()), rocketmq);
}

#[test]
fn what_is_printed_shows_no_secret() {
    for yaml in [
        "amqp: {uri: ['amqp://u:hunter2@a', 'amqps://u:hunter2@b']}",
        "{amqp: {hosts: [a], username: u, password: hunter2}, \
          management: {url: 'http://h', username: u, password: hunter2}}",
    ] {
        let config = accept(yaml);
        let printed = config.to_yaml().unwrap();
        assert!(printed.contains("***") && !printed.contains("hunter2"), "{printed}");
        assert!(!format!("{config:?}").contains("hunter2"));
        // A printed configuration is a valid file.
        accept(&printed);
    }
}

proptest! {
    #[test]
    fn any_names_and_times_are_printed_and_read_back(
        namespace in "[b-z0-9._-]{1,64}",
        exchange in "[^.]{1,20}",
        key in ".{0,20}",
        millis in 0u64..=1_000_000_000,
    ) {
        let mut config = Config { namespace, max_delay: Duration::from_millis(1000 + millis), ..Config::default() };
        config.bridges[0].entry = EntryConfig { exchange, kind: EntryKind::Direct, keys: vec![key] };
        config.bridges[0].default_delay = Duration::from_millis(millis);
        prop_assert_eq!(Config::from_yaml(&config.to_yaml().unwrap()), Ok(config));
    }
}
