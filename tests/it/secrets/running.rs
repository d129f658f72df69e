//! A running sidecar that logs all that it can.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use super::Written;
use crate::harness::broker::{Address, Broker};
use crate::harness::cli::run;
use crate::harness::client::{Client, table};
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, wait_for_metric};
use crate::harness::raw::RawClient;
use crate::harness::table::{RawProperties, property};
use crate::harness::vhost::Vhost;

const PASSWORD: &str = "HushPassword0123456789abcdefghij";
const WRONG_PASSWORD: &str = "HushWrongPassword0123456789abcde";
const KEY: &str = "HushKey0123456789abcdefghijklmno";
const SECRETS: [&str; 3] = [PASSWORD, WRONG_PASSWORD, KEY];

const BODY: &str = "HushBody0123456789abcdefghijklmn";
const HEADER: &str = "HushHeader0123456789abcdefghijkl";
const NESTED: &str = "HushNested0123456789abcdefghijkl";
const PROPERTY: &str = "HushProperty0123456789abcdefghij";
const OF_MESSAGES: [&str; 4] = [BODY, HEADER, NESTED, PROPERTY];

const SIGABRT: i32 = 6;

const BRIDGES: &str = "ladder: [125ms, 1s]
bridges:
  - { name: queues, entry: { exchange: delay } }
  - { name: gone, entry: { exchange: to.gone }, target: { exchange: gone } }
delivery: { give_up_after: 1s }
";

/// A message with a marked text wherever one fits.
fn message(delay: AMQPValue) -> BasicProperties {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let headers = [
        ("x-delay", delay),
        ("said", text(HEADER)),
        ("deep", AMQPValue::FieldTable(table([("down", text(NESTED))]))),
    ];
    BasicProperties::default()
        .with_headers(table(headers))
        .with_content_type(PROPERTY.into())
        .with_content_encoding(PROPERTY.into())
        .with_correlation_id(PROPERTY.into())
        .with_message_id(PROPERTY.into())
        .with_reply_to(PROPERTY.into())
        .with_type(PROPERTY.into())
        .with_app_id(PROPERTY.into())
        .with_cluster_id(PROPERTY.into())
        .with_delivery_mode(2)
}

fn after(delay_ms: i32) -> BasicProperties {
    message(AMQPValue::LongInt(delay_ms))
}

pub(super) async fn a_running_one_tells_nothing(broker: &Broker) {
    let directory = tempfile::tempdir().unwrap();
    let vhost = broker.create_vhost();
    let user = vhost.add_user_with_password("sidecar", PASSWORD, "management", [".*", ".*", ".*"]);
    let client = Client::connect(&vhost.uri()).await;
    let mut written = Written::default();
    let management = management(broker, &user, PASSWORD);
    let yaml = format!("{}{management}{}", BRIDGES, secrets(directory.path(), &user.uri(vhost.name())));
    for format in ["text", "json"] {
        let log = format!("log: {{ format: {format}, level: 'trace,lapin=trace' }}\n");
        let mut leveret = Setup::of_file().config(&format!("{yaml}{log}")).start().await;
        everything_happens(&vhost, &client, &leveret).await;
        collect(&mut written, format, &leveret);
        // Lost, refused, and let in again.
        vhost.permit(&user.user, ["^$", "^$", "^$"]);
        eventually("it is refused", LIMIT, async || {
            // The broker lists connections late.
            vhost.close_connections_named("leveret (consume)");
            (leveret.log().contains("trying again") && !leveret.is_ready()).then_some(())
        })
        .await;
        collect(&mut written, format, &leveret);
        vhost.permit(&user.user, [".*", ".*", ".*"]);
        leveret.wait_until_ready().await;
        for command in
            [&["status"][..], &["status", "--json"], &["parked", "list"], &["parked", "list", "--json"]]
        {
            let uri = user.uri(vhost.name());
            let listen = format!("127.0.0.1:{}", leveret.admin_port());
            let environment = [("LEVERET_AMQP__URI", uri.as_str()), ("LEVERET_ADMIN__LISTEN", &listen)];
            written.add_command(&format!("{command:?}"), run(&environment, command));
        }
        leveret.sigterm();
        assert!(leveret.wait().await.success());
        written.add(format!("the whole log, {format}"), leveret.log());
    }
    refused_for_its_password(broker, &vhost, &user, &mut written).await;
    written.holds_none_of(&SECRETS);
    written.holds_none_of(&OF_MESSAGES);
    for said in [
        "invalid-delay",
        "unroutable",
        "exchange-missing",
        "unreadable-message",
        "unreadable-bundle",
        "exchange-not-allowed",
        "target-full",
        "ACCESS_REFUSED",
        "cannot audit policies",
        "no policy interferes",
        "leveret_messages_parked_total",
        "DEBUG",
    ] {
        written.holds(said);
    }
}

/// The URI and the key for encryption, in files.
fn secrets(directory: &Path, uri: &str) -> String {
    let (uri_file, key_file) = (directory.join("uri"), directory.join("key"));
    std::fs::write(&uri_file, uri).unwrap();
    let key: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&key_file, key).unwrap();
    let (uri_file, key_file) = (uri_file.display(), key_file.display());
    format!("amqp: {{ uri_file: {uri_file} }}\nbundle: {{ key_files: [{key_file}] }}\n")
}

fn management(broker: &Broker, user: &Address, password: &str) -> String {
    let url = broker.management().url();
    let (scheme, place) = url.split_once("://").unwrap();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    format!(
        "management: {{ url: '{scheme}://{place}', username: {}, password: {password}, interval: 1s }}\n",
        user.user
    )
}

/// Messages that are delivered, and one for each way in which they are not.
async fn everything_happens(vhost: &Vhost, client: &Client, leveret: &Leveret) {
    client.declare_queue("q", FieldTable::default()).await;
    let full = [
        ("x-max-length", AMQPValue::LongInt(0)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    client.declare_queue("full", table(full)).await;
    let publish = async |exchange: &str, key: &str, properties: BasicProperties| {
        client.publish(exchange, key, properties, BODY.as_bytes()).await;
    };
    for delay_ms in [0, 50, 300, 1_200] {
        publish("delay", "q", after(delay_ms)).await;
    }
    publish("delay", "nowhere", after(50)).await;
    publish("delay", "full", after(50)).await;
    publish("delay", "q", message(AMQPValue::LongString("at some time".into()))).await;
    publish("to.gone", "q", after(50)).await;
    let elsewhere = AMQPValue::LongString("elsewhere".into());
    let mut headers = after(50).headers().clone().unwrap();
    headers.insert("x-delay-exchange".into(), elsewhere);
    publish("delay", "q", after(50).with_headers(headers)).await;
    let bundle = after(50).with_content_type("application/vnd.leveret.bundle".into());
    publish("leveret.due", "", bundle).await;
    // What the client library cannot read.
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let marked = RawProperties::default().with_text(property::APP_ID, PROPERTY);
    raw.publish_bytes("delay", &[0xff], &marked, BODY.as_bytes()).await.unwrap();
    for reason in [
        "unroutable",
        "target-full",
        "invalid-delay",
        "exchange-missing",
        "exchange-not-allowed",
        "unreadable-message",
    ] {
        wait_for_metric(leveret, "leveret_messages_parked_total", &[("reason", reason)], 1.0).await;
    }
    wait_for_metric(leveret, "leveret_bundles_unreadable_total", &[], 1.0).await;
    wait_for_metric(leveret, "leveret_messages_delivered_total", &[], 4.0).await;
}

fn collect(written: &mut Written, from: &str, leveret: &Leveret) {
    for path in ["/metrics", "/readyz", "/livez", "/"] {
        let (status, body) = leveret.get(path).unwrap();
        written.add(format!("{path}, {status}, {from}"), body);
    }
    written.add(format!("the log, {from}"), leveret.log());
}

/// Neither the broker nor its management API takes the password.
async fn refused_for_its_password(broker: &Broker, vhost: &Vhost, user: &Address, written: &mut Written) {
    let wrong = Address { password: WRONG_PASSWORD.to_owned(), ..user.clone() };
    let log = "log: { level: 'trace,lapin=trace' }\n";
    // In the environment, the usual place of a container.
    let leveret = Setup::new(&wrong.uri(vhost.name())).config(&format!("{BRIDGES}{log}")).spawn();
    eventually("the broker refuses it", LIMIT, async || {
        leveret.log().contains("ACCESS_REFUSED").then_some(())
    })
    .await;
    eventually("readiness says why", LIMIT, async || {
        leveret.get("/readyz").filter(|(_, body)| body.contains("ACCESS_REFUSED"))
    })
    .await;
    collect(written, "a wrong password", &leveret);
    let management = management(broker, user, WRONG_PASSWORD);
    let leveret = Setup::new(&vhost.uri()).config(&format!("{BRIDGES}{log}{management}")).start().await;
    eventually("the management API refuses it", LIMIT, async || {
        leveret.log().contains("cannot audit policies").then_some(())
    })
    .await;
    collect(written, "a wrong password for the management API", &leveret);
}

/// What a process leaves that dies in the middle of its work.
pub(super) async fn a_crash_tells_nothing(broker: &Broker) {
    let directory = tempfile::tempdir().unwrap();
    let vhost = broker.create_vhost();
    let user = vhost.add_user_with_password("sidecar", PASSWORD, "", [".*", ".*", ".*"]);
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let yaml =
        format!("{BRIDGES}{}log: {{ level: trace }}\n", secrets(directory.path(), &user.uri(vhost.name())));
    let crashing = Setup::of_file().config(&yaml).env("LEVERET_TEST_CRASH", "confirmed.target:1");
    let mut leveret = crashing.env("RUST_BACKTRACE", "full").start().await;
    client.publish("delay", "q", after(200), BODY.as_bytes()).await;
    assert_eq!(leveret.wait().await.signal(), Some(SIGABRT));
    let mut written = Written::default();
    written.add("the log of one that crashed", leveret.log());
    written.holds("connected");
    written.holds_none_of(&SECRETS);
    written.holds_none_of(&OF_MESSAGES);
}
