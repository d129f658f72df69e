//! Configuration as an operator gives it: file, environment, URIs and secrets; and what a start says when the broker
//! holds something else.

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::json;

use crate::harness::broker::Broker;
use crate::harness::client::{Client, table};
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, delayed, publish_numbered, take_numbered};
use crate::harness::proxy::Proxy;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: no_file_at_all_is_enough, the_environment_goes_before_the_file, everything_that_is_wrong_is_told_at_once,
        a_virtual_host_of_any_name, the_next_host_takes_over, secrets_are_read_anew_at_each_connect,
        a_queue_with_other_arguments_is_named, an_exchange_of_another_type_is_named
];

const CONFIGURATION: i32 = 78;

async fn no_file_at_all_is_enough(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Setup::new(&vhost.uri()).start().await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    publish_numbered(&client, "delay", 500, 0..3, |_| "q".to_owned()).await;
    take_numbered(&mut client.consume("q").await, 0..3).await;
}

async fn the_environment_goes_before_the_file(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("real.target", ExchangeKind::Fanout).await;
    client.declare_queue("q", FieldTable::default()).await;
    client.bind("q", "real.target", "", FieldTable::default()).await;
    let yaml = "namespace: from-file\nladder: default\nbridges:\n  - name: orders\n    \
                entry: { exchange: orders.delayed }\n    target: { exchange: from.file }\n";
    let _leveret = Setup::new(&vhost.uri())
        .config(yaml)
        .env("LEVERET_NAMESPACE", "from-env")
        .env("LEVERET_LADDER", "[1s]")
        .env("LEVERET_BRIDGES__0__TARGET__EXCHANGE", "real.target")
        .start()
        .await;
    let mut queues = vhost.queue_names();
    queues.sort();
    let own = ["due", "ingress.orders", "level.1s", "parked"].map(|name| format!("from-env.{name}"));
    assert_eq!(queues, [&own[..], &["q".to_owned()]].concat());
    publish_numbered(&client, "orders.delayed", 200, 0..1, |_| "k".to_owned()).await;
    take_numbered(&mut client.consume("q").await, 0..1).await;
}

async fn everything_that_is_wrong_is_told_at_once(broker: &Broker) {
    let vhost = broker.create_vhost();
    let yaml = "namspace: typo\nqueue_type: quorun\nmax_delay: soon\nbridges:\n  - name: orders\n    \
                entry: { exchange: orders.delayed }\n    target: { exchange: orders.delayed }\n    unrutable: drop\n";
    let mut leveret = Setup::new(&vhost.uri()).config(yaml).env("LEVERET_AMPQ__HEARTBEAT", "5s").spawn();
    let log = leveret.expect_exit(CONFIGURATION).await;
    let expected = [
        ["namspace", "namespace"],
        ["queue_type", "quorum"],
        ["max_delay", "soon"],
        ["bridges[0].target.exchange", "loop"],
        ["bridges[0].unrutable", "unroutable"],
        ["LEVERET_AMPQ__HEARTBEAT", "LEVERET_AMQP__HEARTBEAT"],
    ];
    for words in expected {
        let told = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(told, "{words:?} is not told:\n{log}");
    }
    assert!(vhost.queue_names().is_empty());

    let mut leveret = Setup::new("amqp://user:pa/ss@localhost").spawn();
    let log = leveret.expect_exit(CONFIGURATION).await;
    assert!(log.contains("LEVERET_AMQP__URI") && !log.contains("pa/ss") && !log.contains("ss@"), "{log}");
}

async fn a_virtual_host_of_any_name(broker: &Broker) {
    // Names that a careless URI parser would cut, join or decode twice.
    let number = fastrand::u32(..);
    for name in [format!("a/b {number}%2f"), format!("é?#@:{number}")] {
        let encoded = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
        let path = format!("/vhosts/{encoded}");
        let address = broker.address();
        broker.management().put(&path, &json!({}));
        let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
        broker.management().put(&format!("/permissions/{encoded}/{}", address.user), &all);
        let uri = address.uri(&encoded.to_string());
        let leveret = Leveret::start(&uri, "ladder: [1s]\n").await;
        let client = Client::connect(&uri).await;
        client.declare_queue("q", FieldTable::default()).await;
        publish_numbered(&client, "delay", 100, 0..1, |_| "q".to_owned()).await;
        take_numbered(&mut client.consume("q").await, 0..1).await;
        drop(leveret);
        broker.management().delete(&path);
    }
    // One that is not there is named, and waited for.
    let uri = broker.address().uri("nowhere");
    let leveret = Setup::new(&uri).spawn();
    eventually("the log names it", LIMIT, async || {
        let log = leveret.log();
        (log.contains("nowhere") && log.contains("trying again")).then_some(())
    })
    .await;
}

async fn the_next_host_takes_over(broker: &Broker) {
    let vhost = broker.create_vhost();
    let address = broker.address();
    let refusing = Proxy::start(address).await;
    refusing.refuse();
    let passing = Proxy::start(address).await;
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", refusing.port(), passing.port());
    let uri = format!("amqp://{}:{}@{hosts}/{}", address.user, address.password, vhost.name());
    let leveret = Leveret::start(&uri, "ladder: [1s]\n").await;
    assert!(leveret.log().contains(&format!("127.0.0.1:{}", passing.port())), "{}", leveret.log());
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;

    // The first comes back, the second goes.
    publish_numbered(&client, "delay", 1500, 0..20, |_| "q".to_owned()).await;
    refusing.resume();
    passing.refuse();
    passing.cut();
    publish_numbered(&client, "delay", 300, 20..40, |_| "q".to_owned()).await;
    let mut missing: std::collections::BTreeSet<u32> = (0..40).collect();
    while !missing.is_empty() {
        let came = inbox.next(LIMIT).await.delivery.data;
        missing.remove(&std::str::from_utf8(&came).unwrap().parse().unwrap());
    }
    assert!(leveret.log().contains(&format!("127.0.0.1:{}", refusing.port())), "{}", leveret.log());
}

async fn secrets_are_read_anew_at_each_connect(broker: &Broker) {
    let vhost = broker.create_vhost();
    let user = vhost.add_user("sidecar", "", [".*", ".*", ".*"]);
    let secrets = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = secrets.path().join(name);
        std::fs::write(&path, format!("{content}\n")).unwrap();
        path.display().to_string()
    };
    let (username, password) = (file("username", &user.user), file("password", "a test's"));
    let yaml = format!(
        "ladder: [1s]\namqp:\n  hosts: [\"{}:{}\"]\n  vhost: {}\n  username_file: {username}\n  password_file: {password}\n",
        user.host,
        user.port,
        vhost.name()
    );
    let mut leveret = Setup::new("").config(&yaml).start().await;

    let change = json!({ "password": "an0ther", "tags": "" });
    broker.management().put(&format!("/users/{}", user.user), &change);
    eventually("its connections are closed", LIMIT, async || {
        vhost.close_connections();
        (!leveret.is_ready()).then_some(())
    })
    .await;
    eventually("the old password is refused", LIMIT, async || {
        leveret.log().contains("check user name and password").then_some(())
    })
    .await;
    file("password", "an0ther");
    leveret.wait_until_ready().await;
    assert!(!leveret.log().contains("an0ther") && !leveret.log().contains("a test's"));

    // A file with a whole URI; and one that is missing, which may still come.
    leveret.sigterm();
    assert!(leveret.wait().await.success());
    let uri_file = secrets.path().join("uri");
    let yaml = format!("ladder: [1s]\namqp: {{ uri_file: {} }}\n", uri_file.display());
    let mut leveret = Setup::new("").config(&yaml).spawn();
    eventually("the log names the file", LIMIT, async || {
        leveret.log().contains(&uri_file.display().to_string()).then_some(())
    })
    .await;
    let uri = user.uri(vhost.name()).replace("a%20test's", "an0ther");
    std::fs::write(&uri_file, uri).unwrap();
    leveret.wait_until_ready().await;
    assert!(!leveret.log().contains("an0ther"));
}

async fn a_queue_with_other_arguments_is_named(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("leveret.level.1s", table([("x-message-ttl", AMQPValue::LongInt(999))])).await;
    let mut leveret = Setup::new(&vhost.uri()).config("ladder: [1s]\n").spawn();
    let log = leveret.expect_exit(CONFIGURATION).await;
    for words in ["queue \\\"leveret.level.1s\\\"", "PRECONDITION_FAILED", "namespace", "delete the queue"] {
        assert!(log.contains(words) || log.contains(&words.replace('\\', "")), "{words}: {log}");
    }
    // Another namespace beside it is another Leveret.
    let _leveret = Leveret::start(&vhost.uri(), "namespace: second\nladder: [1s]\n").await;
    client.declare_queue("q", FieldTable::default()).await;
    client.publish("delay", "q", delayed(200), b"hare").await;
    assert_eq!(client.consume("q").await.next(LIMIT).await.delivery.data, b"hare");
}

async fn an_exchange_of_another_type_is_named(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("delay", ExchangeKind::Direct).await;
    let mut leveret = Setup::new(&vhost.uri()).config("ladder: [1s]\n").spawn();
    let log = leveret.expect_exit(CONFIGURATION).await;
    for words in ["exchange", "delay", "PRECONDITION_FAILED"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    // Once what contradicts is gone, the same start succeeds.
    vhost.delete_exchange("delay");
    Setup::new(&vhost.uri()).config("ladder: [1s]\n").start().await;
}
