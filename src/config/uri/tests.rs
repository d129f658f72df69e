use super::*;
use proptest::prelude::*;

fn one(text: &str) -> Endpoint {
    let endpoints = parse(text).unwrap();
    assert_eq!(endpoints.len(), 1, "{text}");
    endpoints.into_iter().next().unwrap()
}

#[test]
fn defaults_of_both_schemes() {
    let plain = one("amqp://rabbit");
    assert_eq!(
        (plain.tls, plain.host.as_str(), plain.port, plain.vhost.as_str()),
        (false, "rabbit", 5672, "/")
    );
    assert_eq!((plain.username.as_str(), plain.password.expose()), ("guest", "guest"));
    let tls = one("AMQPS://rabbit.example.com/orders");
    assert_eq!((tls.tls, tls.port, tls.vhost.as_str()), (true, 5671, "orders"));
}

#[test]
fn everything_is_percent_decoded() {
    let endpoint = one("amqp://us%65r:p%40ss%2Fw%C3%B6rd:x@[2001:db8::1]:5673/%2fa%20b");
    assert_eq!(endpoint.username, "user");
    assert_eq!(endpoint.password.expose(), "p@ss/wörd:x");
    assert_eq!(endpoint.host, "2001:db8::1");
    assert_eq!(endpoint.port, 5673);
    assert_eq!(endpoint.vhost, "/a b");
    assert_eq!(endpoint.to_string(), "amqp://user@[2001:db8::1]:5673/%2Fa%20b");
    assert_eq!(one("amqp://u:p@[::1]").host, "::1");
}

#[test]
fn several_hosts_are_endpoints_in_order() {
    let endpoints = parse("amqps://u:p@a,b:5000,[::1]:1/v?heartbeat=9").unwrap();
    let hosts: Vec<_> = endpoints.iter().map(|e| (e.host.as_str(), e.port)).collect();
    assert_eq!(hosts, [("a", 5671), ("b", 5000), ("::1", 1)]);
    assert!(endpoints.iter().all(|e| e.tls && e.username == "u" && e.vhost == "v" && e.heartbeat == Some(9)));
}

#[test]
fn known_parameters() {
    let endpoint = one(
        "amqps://h?heartbeat=10&connection_timeout=2500&channel_max=12&frame_max=8192&auth_mechanism=EXTERNAL",
    );
    assert_eq!(endpoint.heartbeat, Some(10));
    assert_eq!(endpoint.connection_timeout, Some(Duration::from_millis(2500)));
    assert_eq!((endpoint.channel_max, endpoint.frame_max), (Some(12), Some(8192)));
    assert!(endpoint.external_auth);
}

#[test]
fn refusals() {
    let host = |number| UriError::Host { number, hint: "" };
    for (text, error) in [
        ("", UriError::Scheme),
        ("localhost:5672", UriError::Scheme),
        ("http://localhost", UriError::Scheme),
        ("amqp://localhost/", UriError::TrailingSlash),
        ("amqp://localhost/?heartbeat=5", UriError::TrailingSlash),
        ("amqp://localhost//", UriError::SecondSlash),
        ("amqp://localhost/a/b", UriError::SecondSlash),
        ("amqp://localhost/a/", UriError::SecondSlash),
        ("amqp://localhost/a#b", UriError::Fragment),
        ("amqp://localhost/%zz", UriError::Encoding { part: "vhost" }),
        ("amqp://localhost/%2", UriError::Encoding { part: "vhost" }),
        ("amqp://localhost/%ff", UriError::Encoding { part: "vhost" }),
        ("amqp://u:100%@localhost", UriError::Encoding { part: "password" }),
        ("amqp://u:a%00b@localhost", UriError::Encoding { part: "password" }),
        ("amqp://u:p/w@localhost", UriError::UnescapedUserinfo),
        ("amqp://u:p@w@localhost", UriError::UnescapedUserinfo),
        ("amqp://localhost/v@w", UriError::UnescapedUserinfo),
        ("amqp://", host(1)),
        ("amqp://a,", host(2)),
        ("amqp://a,b c", host(2)),
        ("amqp://a:0", UriError::Port { number: 1 }),
        ("amqp://a:", UriError::Port { number: 1 }),
        ("amqp://a:+5", UriError::Port { number: 1 }),
        ("amqp://a:65536", UriError::Port { number: 1 }),
        (
            "amqp://h?frame_max=9&",
            UriError::Parameter {
                name: "frame_max",
                expected: "0 (no limit) or a number of bytes from 4096 on",
            },
        ),
        ("amqp://h?heartbeat=1&heartbeat=1", UriError::RepeatedParameter { name: "heartbeat" }),
        (
            "amqp://h?auth_mechanism=gssapi",
            UriError::Parameter { name: "auth_mechanism", expected: "plain or external" },
        ),
    ] {
        assert_eq!(parse(text), Err(error), "{text}");
    }
    assert!(matches!(parse("amqp://::1"), Err(UriError::Host { .. })));
    assert!(matches!(parse("amqp://[::1"), Err(UriError::Host { .. })));
    assert!(matches!(parse("amqp://[::1]5672"), Err(UriError::Host { .. })));
    assert!(matches!(parse("amqp://[rabbit]"), Err(UriError::Host { .. })));
    let long = format!("amqp://h/{}", "v".repeat(256));
    assert_eq!(parse(&long), Err(UriError::VhostTooLong));
}

#[test]
fn an_unknown_parameter_names_the_nearest() {
    assert_eq!(
        parse("amqp://h?hartbeat=5").unwrap_err().to_string(),
        "unknown parameter `hartbeat`: did you mean `heartbeat`?"
    );
    assert!(parse("amqp://h?verify=none").unwrap_err().to_string().contains("valid here: heartbeat"));
}

#[test]
fn the_password_is_in_no_text() {
    let endpoint = one("amqp://u:hunter2@h/v?heartbeat=7");
    assert_eq!(endpoint.masked_uri(), "amqp://u:***@h:5672/v?heartbeat=7");
    assert!(!format!("{endpoint} {endpoint:?}").contains("hunter2"));
    assert_eq!(one("amqp://localhost").masked_uri(), "amqp://localhost:5672/%2F");
}

proptest! {
    #[test]
    fn what_is_written_parses_equal(
        tls: bool,
        username in "[^\0]{0,12}",
        password in "[^\0]{0,12}",
        vhost in "[^\0]{1,20}",
        host in prop_oneof!["[a-z][a-z0-9.-]{0,20}", any::<Ipv6Addr>().prop_map(|ip| ip.to_string())],
        port in 1u16..,
        heartbeat: Option<u16>,
        timeout in proptest::option::of(1u32..),
        external_auth: bool,
    ) {
        let endpoint = Endpoint {
            tls, host, port, vhost, username, external_auth, heartbeat,
            password: Secret::new(password),
            connection_timeout: timeout.map(|millis| Duration::from_millis(millis.into())),
            channel_max: heartbeat,
            frame_max: timeout.map(|bytes| bytes.max(4096)),
        };
        // The mask's own text is the one password that is written as it is.
        prop_assume!(endpoint.password.expose() != MASK);
        let text = endpoint.uri(endpoint.password.expose());
        prop_assert_eq!(parse(&text), Ok(vec![endpoint]));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}", address in "[a-z0-9:/?#@\\[\\]%,&=]{0,40}") {
        let _ = parse(&text);
        let _ = parse(&format!("amqp://{address}"));
    }

    #[test]
    fn no_error_shows_a_piece_of_a_password(before in "\\PC{0,8}", after in "\\PC{0,8}", rest in "\\PC{0,8}") {
        let uri = format!("amqp://user:{before}Zq7X{after}@host/{rest}");
        match parse(&uri) {
            Err(error) => {
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains("Zq7X"), "{}", shown);
        },
            Ok(endpoints) => {
            let shown = format!("{endpoints:?}");
            prop_assert!(!shown.contains("Zq7X"), "{}", shown);
        }
        }
    }
}
