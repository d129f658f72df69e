//! What is refused, and what the operator is told.

use proptest::prelude::*;

use super::*;

/// The only thing that is wrong with this file.
fn error(yaml: &str) -> String {
    let errors = errors(yaml, &[]);
    assert_eq!(errors.len(), 1, "{yaml}\n{}", errors.join("\n"));
    errors.into_iter().next().unwrap()
}

fn bridge(rest: &str) -> String {
    format!("bridges: [{{name: a, entry: {{exchange: in}}, {rest}}}]")
}

#[test]
fn everything_is_told_at_once_and_where_it_is() {
    let found = errors(
        "
        amqp: {urii: 'amqp://x', heartbeat: 20}
        namespace: Big Name
        queue_type: quorums
        bridges:
          - {name: a, entry: {exchange: x, type: topik}}
          - {name: a, entry: {exchange: x}, target: {exchang: y}, default_delay: soon}
          - entry: {}
        bundle: {max_messages: 0, max_bytes: big}
        hold: 5
        ",
        &[("LEVERET_LOG__LEVL", "debug"), ("LEVERET_INTAKE__PREFETCH", "0")],
    );
    assert_eq!(
        found,
        [
            "LEVERET_LOG__LEVL: unknown variable; did you mean `LEVERET_LOG__LEVEL`?",
            "amqp.urii: unknown key; did you mean `uri`?",
            "bridges[1].target.exchang: unknown key; did you mean `exchange`?",
            "hold: expected a section with keys, found a number",
            "amqp.heartbeat: `20` has no unit: write 20s for seconds or 20ms for milliseconds",
            "queue_type: `quorums` is not valid: did you mean `quorum`?",
            "bridges[0].entry.type: `topik` is not valid: did you mean `topic`?",
            "bridges[1].default_delay: \"soon\" is not a duration: write numbers with units, such as 500ms, 90s, 1h30m or 7d",
            "bridges[2].name: is required",
            "bridges[2].entry.exchange: is required",
            "bundle.max_messages: must be from 1 to 10000",
            "bundle.max_bytes: `big` is not a size: write bytes, or a number with a unit, such as 256KiB or 1MiB",
            "LEVERET_INTAKE__PREFETCH: must be from 1 to 65535",
            "namespace: `Big Name` is not a name: use 1 to 64 of a-z, 0-9, `.`, `_` and `-`",
            "bridges[1].name: `a` is already at bridges[0].name",
            "bridges[1].entry.exchange: `x` is already at bridges[0].entry.exchange",
        ]
        .into_iter()
        .collect::<Vec<_>>(),
        "\n{}",
        found.join("\n")
    );
}

#[test]
fn files_that_are_no_configuration() {
    let missing =
        load(Some(std::path::Path::new("/nonexistent/leveret.yaml")), std::iter::empty()).unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/leveret.yaml: cannot read the file"));
    assert!(error("a: [").contains("leveret.yaml: is not valid YAML"));
    assert!(error("a: 1\n---\nb: 2").contains("is not valid YAML"));
    assert!(error("[a]").starts_with("expected a section with keys, found a list"));
    assert!(error("namespace: !tag x").contains("is not valid YAML"));
}

#[test]
fn repeated_keys() {
    assert_eq!(error("namespace: a\nnamespace: b"), "namespace: is given twice");
    assert_eq!(error("log: {level: info, level: info}"), "log.level: is given twice");
}

#[test]
fn ladders() {
    for (yaml, expected) in [
        ("ladder: []", "ladder: has no valid level"),
        ("ladder: {preset: none}", "ladder: has no valid level"),
        ("ladder: none", "ladder: has no valid level"),
        ("ladder: defualt", "ladder: `defualt` is not valid: did you mean `default`?"),
        ("ladder: [1s, 5ms]", "ladder[1]: a level of 5ms is too short: 10ms is the least"),
        ("ladder: [1s, 3651d]", "ladder[1]: a level of 3651d is too long: RabbitMQ allows 3650d at most"),
        ("ladder: [1s, 1500us, 11500us]", "ladder[1]: a level of 1ms500us is too short"),
        ("ladder: [1s, 5]", "ladder[1]: `5` has no unit"),
        (
            "ladder: [1s, 11500us]",
            "ladder[1]: a level of 11ms500us cannot be: RabbitMQ counts whole milliseconds",
        ),
        ("ladder: [61s]", "ladder: the shortest level of 1m1s is too long"),
        (
            "ladder: {extra: [100ms]}",
            "ladder.extra[0]: a delay of 100ms leaves no room for a level of its own",
        ),
        ("ladder: {presets: default}", "ladder.presets: unknown key; did you mean `preset`?"),
        ("ladder: 5", "ladder: expected one of default, rocketmq, none, found a number"),
    ] {
        let found = errors(yaml, &[]);
        assert!(found[0].starts_with(expected), "{yaml}\n{}", found.join("\n"));
    }
    let many = (1..=65).map(|n| format!("{n}s")).collect::<Vec<_>>().join(",");
    assert_eq!(
        error(&format!("ladder: [{many}]")),
        "ladder: a ladder of 65 levels is too long: 64 levels are the most"
    );
}

#[test]
fn loops_and_names_that_are_taken() {
    for (yaml, expected) in [
        (
            bridge("target: {exchange: in}"),
            "bridges[0].target.exchange: `in` is the entry exchange of the bridge `a`",
        ),
        (
            bridge("target: {exchange: leveret.due}"),
            "bridges[0].target.exchange: must not begin with `leveret.`",
        ),
        (
            bridge("target: {allow: [ok, 'i*']}"),
            "bridges[0].target.allow[1]: `i*` fits the entry exchange `in`",
        ),
        (bridge("default_delay: 3651d"), "bridges[0].default_delay: is longer than max_delay (3650d)"),
        (
            bridge(&format!("target: {{exchange: {}}}", "é".repeat(128))),
            "bridges[0].target.exchange: has 256 bytes",
        ),
        ("bridges: []".to_owned(), "bridges: must have at least one bridge"),
        ("bridges: [{name: A, entry: {exchange: x}}]".to_owned(), "bridges[0].name: `A` is not a name"),
        (
            "bridges: [{name: a, entry: {exchange: amq.x}}]".to_owned(),
            "bridges[0].entry.exchange: must not begin with `amq.`",
        ),
        (
            "bridges: [{name: a, entry: {exchange: leveret.x}}]".to_owned(),
            "bridges[0].entry.exchange: must not begin with `leveret.`",
        ),
        (
            "bridges: [{name: a, entry: {exchange: ''}}]".to_owned(),
            "bridges[0].entry.exchange: must not be empty",
        ),
        (
            "bridges: [{name: a, entry: {exchange: x, type: direct}}]".to_owned(),
            "bridges[0].entry.keys: is required",
        ),
        (
            "bridges: [{name: a, entry: {exchange: x, keys: [k]}}]".to_owned(),
            "bridges[0].entry.keys: goes with the type direct only",
        ),
        ("bridges: [5]".to_owned(), "bridges[0]: expected a section with keys, found a number"),
        ("namespace: amq".to_owned(), "namespace: must not begin with `amq`"),
        ("namespace: ''".to_owned(), "namespace: `` is not a name"),
        ("hold: {max_bytes: 128KiB}".to_owned(), "hold.max_bytes: must be at least bundle.max_bytes"),
        (
            "{workers: 4, hold: {max_bytes: 1000KiB}}".to_owned(),
            "hold.max_bytes: must be at least bundle.max_bytes for each of the 4 workers",
        ),
        (
            "{workers: 4, hold: {prefetch: 3}}".to_owned(),
            "hold.prefetch: must be at least 1 for each of the 4 workers",
        ),
        (
            "{workers: 64, intake: {prefetch: 63}}".to_owned(),
            "intake.prefetch: must be at least 1 for each of the 64 workers",
        ),
        ("workers: 0".to_owned(), "workers: must be from 1 to 64"),
        ("workers: 65".to_owned(), "workers: must be from 1 to 64"),
        ("workers: 1.5".to_owned(), "workers: expected a whole number, found a number"),
        ("max_delay: 999ms".to_owned(), "max_delay: must be from 1s to 36525d"),
    ] {
        let found = errors(&yaml, &[]);
        assert!(found[0].starts_with(expected), "{yaml}\n{}", found.join("\n"));
    }
    let two =
        "bridges: [{name: a, entry: {exchange: x}, target: {exchange: y}}, {name: b, entry: {exchange: y}}]";
    assert!(
        error(two).starts_with("bridges[0].target.exchange: `y` is the entry exchange of the bridge `b`")
    );
}

#[test]
fn connections() {
    for (yaml, expected) in [
        ("amqp: {uri: 'amqp://h/'}", "amqp.uri: the `/` at the end would mean the vhost with the empty name"),
        ("amqp: {uri: ['amqp://h', 'h']}", "amqp.uri[1]: an AMQP URI begins with"),
        ("amqp: {uri: []}", "amqp.uri: must have at least one URI"),
        (
            "amqp: {uri: 'amqp://h', uri_file: /x}",
            "amqp: give one of uri, uri_file and hosts, not uri and uri_file",
        ),
        ("amqp: {password: x}", "amqp.password: goes with hosts only"),
        ("amqp: {hosts: []}", "amqp.hosts: must have at least one host"),
        ("amqp: {hosts: ['a:b']}", "amqp.hosts[0]: is not host or host:port"),
        ("amqp: {hosts: [a], username: u}", "amqp.password: is required where there is a user name"),
        ("amqp: {hosts: [a], password_file: /p}", "amqp.username: is required where there is a password"),
        (
            "amqp: {hosts: [a], username: u, password: p, password_file: /p}",
            "amqp.password_file: give password or",
        ),
        ("amqp: {hosts: [a], vhost: ''}", "amqp.vhost: must have 1 to 255 bytes"),
        ("amqp: {hosts: [a], tls: {enabled: false, ca_file: /c}}", "amqp.tls.enabled: is false, but"),
        ("amqp: {tls: {ca_file: /c}}", "amqp.uri: amqp.tls is given, but the connection is not encrypted"),
        ("amqp: {uri: 'amqps://h', tls: {enabled: true}}", "amqp.tls.enabled: goes with hosts only"),
        ("amqp: {uri: 'amqps://h', tls: {cert_file: /c}}", "amqp.tls.cert_file: needs key_file too"),
        ("amqp: {uri: 'amqps://h', tls: {external: true}}", "amqp.tls.external: needs a client certificate"),
        (
            "amqp: {uri: 'amqps://h?auth_mechanism=external'}",
            "amqp.uri: SASL EXTERNAL needs amqps and a client",
        ),
        ("amqp: {heartbeat: 1500ms}", "amqp.heartbeat: must be whole seconds"),
        (
            "amqp: {connection_name: 5}",
            "amqp.connection_name: expected text, found a number: put it in quotes",
        ),
        ("management: {}", "management.url: is required"),
        ("management: {url: 'ftp://h'}", "management.url: must be http:// or https://"),
        ("management: {url: 'http://u:hunter2@h'}", "management.url: must be http:// or https://"),
        ("management: {url: 'http://h', username: u}", "management.password: is required"),
        ("admin: {listen: 'localhost:1'}", "admin.listen: `localhost:1` is not an IP address and port"),
        ("log: {level: 'leveret=loud'}", "log.level: `leveret=loud` is not valid"),
        ("log: {level: 'info, -ääää[x'}", "log.level: `info, -ääää[x` is not valid"),
    ] {
        let found = error(yaml);
        assert!(found.starts_with(expected), "{yaml}\n{found}");
    }
}

#[test]
fn variables() {
    for (name, text, expected) in [
        ("LEVERET_NAMSPACE", "x", "unknown variable; did you mean `LEVERET_NAMESPACE`?"),
        ("LEVERET_AMQP_URI", "x", "unknown variable; did you mean `LEVERET_AMQP__URI`?"),
        ("LEVERET_BRIDGES__3__NAM", "x", "unknown variable; did you mean `LEVERET_BRIDGES__3__NAME`?"),
        ("LEVERET_ADMIN__PORT", "1", "unknown variable; its name is LEVERET_"),
        ("LEVERET_PORT", "5672", "unknown variable; its name is LEVERET_"),
        ("LEVERET_BRIDGES__2__NAME", "x", "cannot set item 2 of a list of 1: the next one is 1"),
        ("LEVERET_QUEUE_TYPE", "mirrored", "`mirrored` is not valid: valid here: quorum, classic"),
        ("LEVERET_AMQP", "5", "expected a section with keys, found a number"),
        ("LEVERET_BRIDGES", "[{name: a", "expected a list, found text"),
    ] {
        let found = errors("", &[(name, text)]);
        assert!(found[0].starts_with(&format!("{name}: {expected}")), "{name}\n{}", found.join("\n"));
    }
    let nested = errors("", &[("LEVERET_BRIDGES", "[{name: a, entry: {exchange: a, tipe: topic}}]")]);
    assert_eq!(nested, ["LEVERET_BRIDGES[0].entry.tipe: unknown key; did you mean `type`?"]);
    let in_the_way = errors("ladder: rocketmq", &[("LEVERET_LADDER__EXTRA", "[30m]")]);
    assert_eq!(in_the_way, ["LEVERET_LADDER__EXTRA: cannot set `extra`: the file has no section there"]);
}

#[test]
fn errors_show_no_secret() {
    for yaml in [
        "amqp: {hosts: [a], username: u, password: [hunter2]}",
        "amqp: {hosts: [a], username: u, password: {hunter2: x}}",
        "amqp: {hosts: [a], username: u, password:hunter2}",
        "amqp: {hosts: [a], username: u, password: !hunter2 x}",
        "amqp: {uri: 'amqp://u:hunter2/@h/'}",
        "amqp: {uri: 'amqp://u:hunter2@h/'}",
        "amqp: {uri: 'http://u:hunter2@h'}",
    ] {
        let found = errors(yaml, &[]).join("\n");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

/// YAML of any shape, with keys that mean something often enough to get deep.
fn any_yaml() -> impl Strategy<Value = serde_yaml::Value> {
    use serde_yaml::Value;
    let word = || {
        proptest::sample::select(vec![
            "amqp",
            "uri",
            "hosts",
            "tls",
            "bridges",
            "name",
            "entry",
            "exchange",
            "type",
            "keys",
            "target",
            "allow",
            "ladder",
            "extra",
            "preset",
            "default",
            "none",
            "direct",
            "max_delay",
            "30s",
            "amqp://a:b@c/",
            "hold",
            "max_bytes",
            "4KiB",
            "admin",
            "listen",
            "management",
            "url",
            "http://x",
            "log",
            "level",
            "",
        ])
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,10}".prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word().prop_map(Value::from), inner), 0..6)
                .prop_map(|entries| Value::Mapping(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}", yaml in "[a-z:\\[\\]{},'\"&*!|>#% \n-]{0,80}") {
        let _ = Config::from_yaml(&text);
        let _ = Config::from_yaml(&yaml);
    }

    #[test]
    fn any_yaml_is_read_or_refused(value in any_yaml(), variable in "LEVERET_[A-Z0-9_]{0,20}", text in ".{0,20}") {
        let yaml = serde_yaml::to_string(&value).unwrap();
        if let Err(errors) = Config::from_yaml(&yaml) {
            prop_assert!(!errors.problems().is_empty());
        }
        let variables = [(variable, text), ("LEVERET_BRIDGES".to_owned(), yaml.clone()), ("LEVERET_AMQP__URI".to_owned(), yaml)];
        let _ = load(None, variables.into_iter().filter(|(name, _)| name != "LEVERET_CONFIG"));
    }
}

/// A path is shown with every error, and a secret in its place would be.
#[test]
fn what_belongs_into_a_file_is_no_path() {
    let (key, hexadecimal) = (format!("{}=", "k".repeat(43)), "ab".repeat(32));
    for (yaml, place) in [
        ("amqp: {uri_file: 'amqp://me:s3cret@h'}".to_owned(), "amqp.uri_file"),
        ("amqp: {hosts: [h], username: me, password_file: \"s3cret\\n\"}".to_owned(), "amqp.password_file"),
        (
            "amqp: {hosts: [h], tls: {cert_file: c, key_file: '-----BEGIN PRIVATE KEY----- s3cret'}}"
                .to_owned(),
            "amqp.tls.key_file",
        ),
        (format!("bundle: {{key_files: ['{key}']}}"), "bundle.key_files[0]"),
        (format!("bundle: {{key_files: ['{hexadecimal}']}}"), "bundle.key_files[0]"),
    ] {
        assert_eq!(
            error(&yaml),
            format!("{place}: must be the path of a file, and holds what belongs into one")
        );
    }
}
