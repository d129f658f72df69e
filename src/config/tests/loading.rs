//! What is accepted, and what it means.

use super::*;

fn levels(yaml: &str) -> Vec<u128> {
    accept(yaml).ladder.levels.iter().map(Duration::as_millis).collect()
}

#[test]
fn nothing_is_the_default() {
    for yaml in ["", "---", "# nothing\n", "{}", "amqp:\nbridges:\n"] {
        assert_eq!(accept(yaml), Config::default(), "{yaml}");
    }
    let default = Config::default();
    assert_eq!(load(None, std::iter::empty()), Ok(default.clone()));
    let [bridge] = default.bridges.as_slice() else { panic!("one bridge") };
    assert_eq!((bridge.name.as_str(), bridge.entry.exchange.as_str()), ("default", "delay"));
    assert_eq!((bridge.entry.kind, bridge.target.exchange.as_str()), (EntryKind::Topic, ""));
    let endpoints = default.amqp.endpoints().unwrap();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(endpoints[0].to_string(), "amqp://guest@localhost:5672/%2F");
    assert_eq!(endpoints[0].password.expose(), "guest");
}

#[test]
fn bridges_inherit_from_the_top() {
    let config = accept(
        "
        delivered_header: keep
        annotate: false
        bridges:
          - {name: a, entry: {exchange: a}}
          - {name: b, entry: {exchange: b}, delivered_header: remove, annotate: true}
        ",
    );
    assert_eq!(
        (config.bridges[0].delivered_header, config.bridges[0].annotate),
        (DeliveredHeader::Keep, false)
    );
    assert_eq!(
        (config.bridges[1].delivered_header, config.bridges[1].annotate),
        (DeliveredHeader::Remove, true)
    );
}

#[test]
fn ladders() {
    assert_eq!(levels("ladder: default").len(), 22);
    assert_eq!(levels("ladder: rocketmq").len(), 18);
    assert_eq!(levels("ladder: [5s, 1s, 5s, 500ms]"), [500, 1000, 5000]);
    assert_eq!(levels("ladder: {preset: none, extra: [30m, 5s]}"), [4170, 1_798_000]);
    let extended = levels("ladder: {extra: [30m]}");
    assert_eq!(extended.len(), 23);
    assert!(extended.is_sorted() && extended.contains(&1_798_000));
    assert_eq!(levels("ladder: [10ms, 315360000s]"), [10, 315_360_000_000]);
}

#[test]
fn listeners() {
    let listen = |yaml| accept(yaml).admin.listen;
    assert_eq!(listen(""), Some(SocketAddr::from(([0, 0, 0, 0], 9690))));
    assert_eq!(listen("admin: {listen: '[::1]:80'}"), Some("[::1]:80".parse().unwrap()));
    assert_eq!(listen("admin: {listen: off}"), None);
    assert_eq!(listen("admin: {listen: false}"), None);
}

#[test]
fn each_worker_needs_no_more_than_one_of_each() {
    let least = "{workers: 64, intake: {prefetch: 64}, hold: {prefetch: 64, max_bytes: 16MiB}}";
    assert_eq!(accept(least).workers, 64);
    assert_eq!(Config::default().workers, 1);
}

#[test]
fn variables_override_the_file() {
    let yaml =
        "{namespace: file, log: {level: warn, format: json}, bridges: [{name: a, entry: {exchange: a}}]}";
    let config = configure(
        yaml,
        &[
            ("LEVERET_NAMESPACE", "env"),
            ("LEVERET_LOG__LEVEL", "debug"),
            ("LEVERET_ADMIN__LISTEN", "127.0.0.1:1"),
            ("LEVERET_BUNDLE__MAX_BYTES", "1MiB"),
            ("LEVERET_BUNDLE__MAX_MESSAGES", "7"),
            ("LEVERET_BRIDGES__0__TARGET__EXCHANGE", "out"),
            ("LEVERET_BRIDGES__1", "{name: b, entry: {exchange: b}}"),
            ("LEVERET_BRIDGES__2__NAME", "c"),
            ("LEVERET_BRIDGES__2__ENTRY__EXCHANGE", "c"),
            ("LEVERET_LADDER", "[1s, 2s]"),
            ("LEVERET_HOLD__PREFETCH", ""),
            ("LEVERET_WORKERS", "4"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!((config.namespace.as_str(), config.log.level.as_str()), ("env", "debug"));
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.admin.listen, Some("127.0.0.1:1".parse().unwrap()));
    assert_eq!((config.bundle.max_bytes, config.bundle.max_messages), (1 << 20, 7));
    assert_eq!(config.bridges.len(), 3);
    assert_eq!(config.bridges[0].target.exchange, "out");
    assert_eq!(config.ladder.levels.len(), 2);
    assert_eq!((config.hold.prefetch, config.workers), (1_000, 4));
}

#[test]
fn variables_reach_the_default_bridge() {
    let config = accept_env(&[("LEVERET_BRIDGES__0__TARGET__EXCHANGE", "orders")]);
    assert_eq!(config.bridges[0].name, "default");
    assert_eq!(config.bridges[0].entry.exchange, "delay");
    assert_eq!(config.bridges[0].target.exchange, "orders");
}

#[test]
fn text_from_a_variable_is_taken_as_it_is() {
    for (text, expected) in [
        ("12345", "12345"),
        ("{a", "{a"),
        ("#x", "#x"),
        ("a #b", "a #b"),
        ("a: b", "a: b"),
        ("'q'", "q"),
        ("\"", "\""),
    ] {
        let config = accept_env(&[
            ("LEVERET_AMQP__HOSTS", "[h]"),
            ("LEVERET_AMQP__USERNAME", "u"),
            ("LEVERET_AMQP__PASSWORD", text),
        ]);
        assert_eq!(config.amqp.endpoints().unwrap()[0].password.expose(), expected);
    }
}

#[test]
fn a_variable_replaces_what_it_excludes_in_the_file() {
    let file = "amqp: {hosts: [h], username: u, password_file: /p}";
    let config = configure(file, &[("LEVERET_AMQP__URI", "amqp://other")]).unwrap();
    assert_eq!(config.amqp.endpoints().unwrap()[0].host, "other");
    let config = configure(file, &[("LEVERET_AMQP__PASSWORD", "x")]).unwrap();
    assert_eq!(config.amqp.endpoints().unwrap()[0].password.expose(), "x");
    let config = configure("management: {url: 'http://h'}", &[("LEVERET_MANAGEMENT", "null")]).unwrap();
    assert_eq!(config.management, None);
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_named_leveret_are_ignored() {
    let config = accept_env(&[
        ("LEVERET_PORT", "tcp://10.0.0.1:9690"),
        ("LEVERET_SERVICE_HOST", "10.0.0.1"),
        ("LEVERET_SERVICE_PORT", "9690"),
        ("LEVERET_SERVICE_PORT_ADMIN", "9690"),
        ("LEVERET_PORT_9690_TCP", "tcp://10.0.0.1:9690"),
        ("LEVERET_PORT_9690_TCP_ADDR", "10.0.0.1"),
        ("LEVERET_ADMIN_PORT", "tcp://10.0.0.1:9690"),
        ("LEVERET_TEST_BROKER", "amqp://x"),
    ]);
    assert_eq!(config, Config::default());
}

#[test]
fn the_flag_goes_before_the_variable_that_names_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (flag, variable) = (dir.path().join("flag.yaml"), dir.path().join("variable.yaml"));
    std::fs::write(&flag, "namespace: flag").unwrap();
    std::fs::write(&variable, "namespace: variable").unwrap();
    let env = || std::iter::once(("LEVERET_CONFIG".to_owned(), variable.display().to_string()));
    assert_eq!(load(Some(&flag), env()).unwrap().namespace, "flag");
    assert_eq!(load(None, env()).unwrap().namespace, "variable");
}

#[test]
fn secrets_are_read_at_each_connect() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let yaml = format!(
        "amqp: {{hosts: [a, 'b:1'], vhost: v, username_file: {}, password_file: {}, tls: {{enabled: true}}}}",
        file("user").display(),
        file("password").display(),
    );
    let amqp = accept(&yaml).amqp;
    let error = amqp.endpoints().unwrap_err().to_string();
    assert!(error.starts_with("cannot read the secret file") && error.ends_with("user"), "{error}");
    std::fs::write(file("user"), "app\n").unwrap();
    for password in ["one", "two"] {
        std::fs::write(file("password"), password).unwrap();
        let endpoints = amqp.endpoints().unwrap();
        let addresses: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["amqps://app@a:5671/v", "amqps://app@b:1/v"]);
        assert!(endpoints.iter().all(|endpoint| endpoint.password.expose() == password));
    }
}

#[test]
fn uris_come_from_a_list_or_a_file() {
    let hosts = |amqp: &AmqpConfig| {
        amqp.endpoints().unwrap().into_iter().map(|endpoint| endpoint.host).collect::<Vec<_>>()
    };
    assert_eq!(hosts(&accept("amqp: {uri: ['amqp://a,b', 'amqps://c']}").amqp), ["a", "b", "c"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("uri");
    let amqp = accept(&format!("amqp: {{uri_file: {}}}", path.display())).amqp;
    std::fs::write(&path, "amqp://u:p@a\n\namqp://b\n").unwrap();
    assert_eq!(hosts(&amqp), ["a", "b"]);
    std::fs::write(&path, "\n").unwrap();
    assert!(amqp.endpoints().unwrap_err().to_string().contains("holds no AMQP URI"));
    std::fs::write(&path, "amqp://a\nu:hunter2@b\n").unwrap();
    let error = amqp.endpoints().unwrap_err();
    assert!(error.to_string().starts_with("line 2 of") && !format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn client_certificates_authenticate() {
    let amqp = accept("amqp: {uri: 'amqps://h', tls: {cert_file: /c, key_file: /k, external: true}}").amqp;
    assert!(amqp.endpoints().unwrap()[0].external_auth);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("uri");
    std::fs::write(&path, "amqp://h").unwrap();
    let amqp = accept(&format!("amqp: {{uri_file: {}, tls: {{ca_file: /ca}}}}", path.display())).amqp;
    assert!(matches!(amqp.endpoints(), Err(EndpointsError::Tls(TlsConflict::NotEncrypted))));
}

#[test]
fn directives_of_the_log_may_have_blanks_between_them() {
    let config = accept("log: {level: 'info, lapin=warn'}");
    assert_eq!(config.log.level, "info,lapin=warn");
}
