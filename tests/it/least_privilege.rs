//! The permissions that Leveret's user needs, and no more. Every other test runs its sidecars with them as well; here is
//! what takes two queue types, topic permissions, or fewer permissions.

use lapin::ExchangeKind;
use lapin::types::{AMQPValue, FieldTable};
use leveret::amqp::permissions::Permissions;
use leveret::config::Config;

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
    shared: the_main_path_needs_no_more, topic_permissions_need_no_more, each_part_of_the_patterns_is_needed,
        a_missing_permission_is_named
];

const CONFIG: &str = "ladder: [125ms, 500ms]
bridges:
  - name: orders
    entry: { exchange: orders.delayed }
    target: { exchange: orders }
  - name: default
    entry: { exchange: delay }
";

fn least() -> Permissions {
    Permissions::least(&Config::from_yaml(CONFIG).unwrap())
}

/// In the order in which RabbitMQ takes them.
fn patterns(Permissions { configure, write, read, .. }: &Permissions) -> [&str; 3] {
    [configure, write, read]
}

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
    let user = vhost.add_user("sidecar", "", patterns(&least()));
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

async fn topic_permissions_need_no_more(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = declare_targets(&vhost).await;
    // They are given for exchanges that exist.
    drop(Leveret::start(&vhost.uri(), CONFIG).await);
    let least = least();
    let user = vhost.add_user("sidecar", "", patterns(&least));
    for topic in &least.topics {
        vhost.permit_topic(&user.user, &topic.exchange, topic.write, topic.read);
    }
    vhost.permit_topic(&user.user, "orders", "^bound$", "^$");
    let uri = user.uri(vhost.name());
    let leveret = Leveret::start(&uri, CONFIG).await;
    let mut inbox = client.consume("q").await;
    publish_numbered(&client, "orders.delayed", 700, 0..10, |_| "bound".to_owned()).await;
    publish_numbered(&client, "delay", 50, 10..20, |_| "q".to_owned()).await;
    take_numbered(&mut inbox, 0..20).await;
    // They do count: what the target may not be sent is parked.
    publish_numbered(&client, "orders.delayed", 100, 0..3, |_| "other".to_owned()).await;
    take_parked(&mut client.consume("leveret.parked").await, "access-refused", 0..3).await;
    drop(leveret);
    // And what the entry exchange may not be bound by is told.
    vhost.permit_topic(&user.user, "orders.delayed", "^$", "^$");
    let leveret = Setup::new(&uri).config(CONFIG).spawn();
    eventually("it is refused", LIMIT, async || {
        let log = leveret.log();
        let said = ["cannot declare", "ACCESS_REFUSED", "topic '#'", "orders.delayed"];
        log.lines().any(|line| said.iter().all(|word| line.contains(word))).then_some(())
    })
    .await;
}

/// Without one part of a pattern, the start fails and says what is refused.
async fn each_part_of_the_patterns_is_needed(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _client = declare_targets(&vhost).await;
    let least = least();
    let [configure, write, read] = patterns(&least);
    let without = |pattern: &str, part: &str| {
        assert!(pattern.contains(part), "{pattern} has no {part}");
        pattern.replacen(part, "nothing", 1)
    };
    let own = r"leveret\..*";
    let entry = r"orders\.delayed";
    let lacking = [
        ("configure-own", [&without(configure, own), write, read], "leveret.parked"),
        ("configure-entry", [&without(configure, entry), write, read], "orders.delayed"),
        ("write-own", [configure, &without(write, own), read], "leveret.parked"),
        ("read-own", [configure, write, &without(read, own)], "leveret.parked"),
        ("read-entry", [configure, write, &without(read, entry)], "orders.delayed"),
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
    let least = least();
    let [_, write, read] = patterns(&least);
    let user = vhost.add_user("sidecar", "", ["^$", write, read]);
    let mut leveret = Setup::new(&user.uri(vhost.name())).config(CONFIG).spawn();
    eventually("the log says what to do", LIMIT, async || {
        leveret.log().contains("give the user the permissions that the README lists").then_some(())
    })
    .await;
    vhost.permit(&user.user, patterns(&least));
    leveret.wait_until_ready().await;
}
