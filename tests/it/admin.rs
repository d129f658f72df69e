//! The admin listener and the logs, as an operator meets them.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

use crate::harness::broker::Broker;
use crate::harness::client::{Client, table};
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, delayed, publish_numbered, take_numbered, wait_for_metric};
use crate::harness::proxy::Proxy;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: readiness_says_why_not, metrics_tell_what_happened, a_port_in_use_is_told,
        logs_are_json_where_configured, no_log_shows_a_body_or_a_password
];

async fn wait_for_answer(leveret: &Leveret, status: u16, words: &str) {
    eventually(&format!("/readyz answers {status} {words:?}"), LIMIT, async || {
        let answer = leveret.get("/readyz")?;
        (answer.0 == status && answer.1.contains(words)).then_some(())
    })
    .await;
}

async fn readiness_says_why_not(broker: &Broker) {
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    proxy.refuse();
    let mut leveret = Setup::new(&vhost.uri_through(proxy.port())).config("ladder: [1s]\n").spawn();
    wait_for_answer(&leveret, 503, "not connected").await;
    assert_eq!(leveret.get("/livez").unwrap().0, 200);
    // With what the last attempt came to.
    wait_for_answer(&leveret, 503, &format!("127.0.0.1:{}", proxy.port())).await;
    proxy.resume();
    wait_for_answer(&leveret, 200, "ready").await;

    proxy.refuse();
    proxy.cut();
    wait_for_answer(&leveret, 503, "not connected").await;
    assert_eq!(leveret.get("/livez").unwrap().0, 200);
    assert_eq!(leveret.metrics().sum("leveret_connection_up", &[]), 0.0);
    proxy.resume();
    wait_for_answer(&leveret, 200, "ready").await;
    assert_eq!(leveret.metrics().sum("leveret_connection_up", &[]), 2.0);
    assert!(leveret.metrics().sum("leveret_reconnects_total", &[]) >= 2.0);

    // A stop that cannot get on yet.
    proxy.stall();
    leveret.sigterm();
    wait_for_answer(&leveret, 503, "draining").await;
    assert_eq!(leveret.get("/livez").unwrap().0, 200);
    assert_eq!(leveret.get("/elsewhere").unwrap().0, 404);
    proxy.resume();
    assert!(leveret.wait().await.success());
}

/// Names that dashboards and alerts rely on, and that are there in every case.
const NAMES: [&str; 30] = [
    "leveret_build_info",
    "leveret_bundle_messages",
    "leveret_bundles_unreadable_total",
    "leveret_clock_steps_total",
    "leveret_connection_blocked",
    "leveret_connection_up",
    "leveret_deliveries_retried_total",
    "leveret_delivery_lateness_seconds",
    "leveret_held_bytes",
    "leveret_held_messages",
    "leveret_level_bundle_bytes_total",
    "leveret_level_bundles_total",
    "leveret_level_messages_total",
    "leveret_message_delay_seconds",
    "leveret_message_hops",
    "leveret_messages_accepted_total",
    "leveret_messages_delivered_total",
    "leveret_messages_dropped_total",
    "leveret_messages_parked_total",
    "leveret_policy_conflicts",
    "leveret_publish_confirm_seconds",
    "leveret_queue_messages_ready",
    "leveret_reconnects_total",
    "leveret_unsettled_deliveries",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
];

async fn metrics_tell_what_happened(broker: &Broker) {
    let vhost = broker.create_vhost();
    let management = plain_management_url(broker);
    let config = format!("ladder: [125ms, 1s]\nmanagement: {{ url: \"{management}\", interval: 1s }}\n");
    let leveret = Leveret::start(&vhost.uri(), &config).await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    publish_numbered(&client, "delay", 1500, 0..40, |_| "q".to_owned()).await;
    publish_numbered(&client, "delay", 0, 40..50, |_| "q".to_owned()).await;
    publish_numbered(&client, "delay", 0, 0..5, |_| "nowhere".to_owned()).await;
    take_numbered(&mut client.consume("q").await, 0..50).await;
    wait_for_metric(&leveret, "leveret_messages_delivered_total", &[("bridge", "default")], 50.0).await;
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[("reason", "unroutable")], 5.0).await;
    wait_for_metric(&leveret, "leveret_queue_messages_ready", &[("queue", "leveret.parked")], 5.0).await;

    let metrics = leveret.metrics();
    let sum = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    let bridge = &[("bridge", "default")];
    assert_eq!(sum("leveret_messages_accepted_total", bridge), 55.0);
    assert_eq!(sum("leveret_messages_delivered_total", bridge), 50.0);
    assert_eq!(sum("leveret_messages_parked_total", &[("bridge", "default"), ("reason", "unroutable")]), 5.0);
    assert_eq!(sum("leveret_messages_parked_total", &[]), 5.0);
    assert_eq!(sum("leveret_message_delay_seconds_count", bridge), 55.0);
    assert!((59.9..61.0).contains(&sum("leveret_message_delay_seconds_sum", bridge)));
    assert_eq!(sum("leveret_delivery_lateness_seconds_count", bridge), 50.0);
    assert!(sum("leveret_message_hops_sum", bridge) >= 40.0);
    assert!(sum("leveret_level_messages_total", &[("level", "1s")]) >= 40.0);
    assert!(sum("leveret_level_bundles_total", &[("level", "1s")]) >= 1.0);
    assert_eq!(sum("leveret_held_messages", &[]), 0.0);
    assert_eq!(sum("leveret_connection_up", &[("role", "consume")]), 1.0);
    assert_eq!(sum("leveret_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert!(sum("process_resident_memory_bytes", &[]) > 1e6);
    eventually("everything is settled", LIMIT, async || {
        (leveret.metrics().sum("leveret_unsettled_deliveries", &[]) == 0.0).then_some(())
    })
    .await;

    let base = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned()
    };
    let names: BTreeSet<_> = metrics.0.iter().map(|sample| base(&sample.name)).collect();
    let missing: Vec<_> = NAMES.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "not there: {missing:?}; there: {names:?}");
}

async fn a_port_in_use_is_told(broker: &Broker) {
    let vhost = broker.create_vhost();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut leveret = Setup::new(&vhost.uri()).env("LEVERET_ADMIN__LISTEN", &address).spawn();
    let log = leveret.expect_exit(78).await;
    assert!(log.contains(&address) && log.contains("admin.listen") && log.contains("in use"), "{log}");
    assert!(vhost.queue_names().is_empty(), "it declared something before it had its port");
}

async fn logs_are_json_where_configured(broker: &Broker) {
    let vhost = broker.create_vhost();
    let mut leveret =
        Setup::new(&vhost.uri()).config("ladder: [1s]\nlog: { format: json, level: debug }\n").start().await;
    let client = Client::connect(&vhost.uri()).await;
    client.publish("delay", "no\nwhere", delayed(100), b"").await;
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[], 1.0).await;
    leveret.sigterm();
    let log = leveret.expect_exit(0).await;
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
    let parked = lines.iter().find(|line| line["message"] == "parked a message").unwrap();
    assert_eq!((&parked["reason"], &parked["level"]), (&"unroutable".into(), &"WARN".into()), "{parked}");
}

/// Whatever is asked of the logs: of messages that are delivered, that come back, that mean nothing; of a password that
/// is right, and of one that is wrong.
async fn no_log_shows_a_body_or_a_password(broker: &Broker) {
    for level in ["trace", "trace,lapin=trace"] {
        logs_show_no_secret(broker, level).await;
    }
}

async fn logs_show_no_secret(broker: &Broker, level: &str) {
    const MARKER: &str = "s3cret-body";
    const PASSWORD: &str = "a test's";
    let vhost = broker.create_vhost();
    let user = vhost.add_user("sidecar", "", [".*", ".*", ".*"]);
    let credentials = BASE64_STANDARD.encode(format!("{}:{PASSWORD}", user.user));
    // How a client library prints bytes.
    let as_numbers = MARKER.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    let secrets = [MARKER, &as_numbers, PASSWORD, "a%20test", &credentials];
    let shows_none = |log: &str| {
        let line = log.lines().find(|line| secrets.iter().any(|secret| line.contains(secret)));
        assert_eq!(line, None, "at level {level}");
    };

    // This user may not ask the management API: that is an error with credentials in hand.
    let uri = user.uri(vhost.name());
    let management = plain_management_url(broker);
    let mut leveret = Setup::new(&uri)
        .config(&format!("ladder: [125ms]\nmanagement: {{ url: \"{management}\", interval: 1s }}\n"))
        .env("LEVERET_LOG__LEVEL", level)
        .start()
        .await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    let mut parked = client.consume("leveret.parked").await;
    let body = MARKER.as_bytes();
    client.publish("delay", "q", delayed(200), body).await;
    client.publish("delay", "q", delayed(0), body).await;
    client.publish("delay", "nowhere", delayed(200), body).await;
    let senseless = table([("x-delay", AMQPValue::Boolean(true))]);
    client.publish("delay", "q", BasicProperties::default().with_headers(senseless), body).await;
    client.publish("leveret.due", "", BasicProperties::default(), body).await;
    inbox.take(2, LIMIT).await;
    parked.take(3, LIMIT).await;
    // Its connections are lost, too.
    eventually("the broker closes every connection", LIMIT, async || {
        vhost.close_connections();
        (!leveret.is_ready()).then_some(())
    })
    .await;
    leveret.wait_until_ready().await;
    leveret.sigterm();
    let log = leveret.expect_exit(0).await;
    assert!(log.contains("TRACE"), "level {level} is not in force");
    shows_none(&log);

    let wrong = uri.replace("a%20test", "not%20a%20test");
    let leveret = Setup::new(&wrong).env("LEVERET_LOG__LEVEL", level).spawn();
    eventually("it is refused", LIMIT, async || {
        leveret.log().contains("check user name and password").then_some(())
    })
    .await;
    shows_none(&leveret.log());
}

/// The management API's URL as an operator writes it, without credentials.
fn plain_management_url(broker: &Broker) -> String {
    let url = broker.management().url();
    format!("http://{}", url.rsplit_once('@').map_or(url, |(_, host)| host))
}
