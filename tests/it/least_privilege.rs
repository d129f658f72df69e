//! The permissions that Leveret's user needs, and no more: the patterns that the README tells.

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable};

use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::{Client, table};
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{
    LIMIT, delayed, publish_numbered, take_numbered, take_parked, wait_for_metric,
};
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: the_main_path_needs_no_more, each_part_of_the_patterns_is_needed, a_missing_permission_is_named
];

/// Own exchanges and queues, and entry exchanges, are declared.
const CONFIGURE: &str = r"^(leveret\..*|orders\.delayed|delay)$";
/// Queues are bound, bundles and parked messages are published, and so are deliveries to the targets. The default
/// exchange is called `amq.default` here.
const WRITE: &str = r"^(leveret\..*|orders|amq\.default)$";
/// Queues are consumed, and entry exchanges are bound to.
const READ: &str = r"^(leveret\..*|orders\.delayed|delay)$";

const CONFIG: &str = "ladder: [125ms, 500ms]
bridges:
  - name: orders
    entry: { exchange: orders.delayed }
    target: { exchange: orders }
  - name: default
    entry: { exchange: delay }
";

async fn declare_targets(vhost: &Vhost) -> Client {
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("orders", ExchangeKind::Topic).await;
    client.declare_queue("q", FieldTable::default()).await;
    client.bind("q", "orders", "bound", FieldTable::default()).await;
    client
}

async fn the_main_path_needs_no_more(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = declare_targets(&vhost).await;
    let user = vhost.add_user("sidecar", "", [CONFIGURE, WRITE, READ]);
    let uri = user.uri(vhost.name());
    let mut inbox = client.consume("q").await;
    for queue_type in ["quorum", "classic"] {
        let namespace = format!("leveret.{queue_type}");
        let config = format!("namespace: {namespace}\nqueue_type: {queue_type}\n{CONFIG}");
        let mut leveret = Leveret::start(&uri, &config).await;
        // Through levels, straight to the due queue, and at once; to an exchange and to the default one.
        publish_numbered(&client, "orders.delayed", 700, 0..20, |_| "bound".to_owned()).await;
        publish_numbered(&client, "delay", 50, 20..30, |_| "q".to_owned()).await;
        publish_numbered(&client, "delay", 0, 30..40, |_| "q".to_owned()).await;
        take_numbered(&mut inbox, 0..40).await;
        let parked_queue = format!("{namespace}.parked");
        publish_numbered(&client, "orders.delayed", 100, 0..3, |_| "unbound".to_owned()).await;
        wait_for_metric(&leveret, "leveret_messages_parked_total", &[], 3.0).await;
        let mut parked = client.consume(&parked_queue).await;
        take_parked(&mut parked, "unroutable", 0..3).await;
        leveret.sigterm();
        assert!(leveret.wait().await.success());
        assert!(inbox.drain().is_empty());
        // Both types would consume the same entry exchanges.
        for name in vhost.queue_names().iter().filter(|name| name.starts_with("leveret.")) {
            vhost.delete_queue(name);
        }
    }
    // Commands are content with the same.
    let _leveret = Leveret::start(&uri, CONFIG).await;
    client.publish("orders.delayed", "unbound", delayed(0), b"0").await;
    eventually("it is parked", LIMIT, async || (client.depth("leveret.parked").await == 1).then_some(()))
        .await;
    client.bind("q", "orders", "unbound", FieldTable::default()).await;
    command(&uri, &["parked", "retry", "--all"]).expect(0);
    take_numbered(&mut inbox, 0..1).await;
}

/// Without one part of a pattern, the start fails and says what is refused.
async fn each_part_of_the_patterns_is_needed(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _client = declare_targets(&vhost).await;
    let without = |pattern: &str, part: &str| pattern.replacen(part, "nothing", 1);
    let own = r"leveret\..*";
    let entry = r"orders\.delayed";
    let lacking = [
        ("configure-own", [&without(CONFIGURE, own), WRITE, READ], "leveret.parked"),
        ("configure-entry", [&without(CONFIGURE, entry), WRITE, READ], "orders.delayed"),
        ("write-own", [CONFIGURE, &without(WRITE, own), READ], "leveret.parked"),
        ("read-own", [CONFIGURE, WRITE, &without(READ, own)], "leveret.parked"),
        ("read-entry", [CONFIGURE, WRITE, &without(READ, entry)], "orders.delayed"),
    ];
    for (name, permissions, refused) in lacking {
        let user = vhost.add_user(name, "", permissions);
        let leveret = Setup::new(&user.uri(vhost.name())).config(CONFIG).spawn();
        eventually(&format!("{name} is refused"), LIMIT, async || {
            let log = leveret.log();
            let said = |line: &str| {
                ["cannot declare", "ACCESS_REFUSED", refused].iter().all(|word| line.contains(word))
            };
            log.lines().any(said).then_some(())
        })
        .await;
        assert!(!leveret.is_ready());
    }
}

/// A permission that is given while Leveret waits for it is enough.
async fn a_missing_permission_is_named(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = declare_targets(&vhost).await;
    client.declare_queue("other", table([("x-queue-type", AMQPValue::LongString("classic".into()))])).await;
    let user = vhost.add_user("sidecar", "", ["^$", WRITE, READ]);
    let mut leveret = Setup::new(&user.uri(vhost.name())).config(CONFIG).spawn();
    eventually("the log says what to do", LIMIT, async || {
        leveret.log().contains("give the user the permissions that the README lists").then_some(())
    })
    .await;
    let permissions = serde_json::json!({ "configure": CONFIGURE, "write": WRITE, "read": READ });
    broker.management().put(&format!("/permissions/{}/{}", vhost.name(), user.user), &permissions);
    leveret.wait_until_ready().await;
}
