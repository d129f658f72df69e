//! Policies that would break Leveret's queues: found out before work begins, and while it goes on.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, delayed, wait_for_metric};
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: every_key_is_judged_before_work_begins, every_key_is_noticed_while_running,
        a_harmless_policy_refuses_nothing, a_policy_is_noticed_while_running, an_audit_that_fails_forbids_nothing
];

/// The exit code for a configuration that contradicts the broker.
const CONFLICT: i32 = 78;
const QUEUES: [&str; 4] = ["leveret.level.1s", "leveret.ingress.orders", "leveret.due", "leveret.parked"];

fn config(management_url: &str) -> String {
    format!(
        "ladder: [1s]\nmanagement: {{ url: \"{management_url}\", interval: 1s }}\n\
         bridges: [{{ name: orders, entry: {{ exchange: orders.delayed }} }}]\n"
    )
}

/// A policy on one queue alone.
fn set(vhost: &Vhost, queue: &str, definition: &Value) {
    vhost.set_policy(&policy_of(queue), &pattern(queue), "queues", definition);
}

fn pattern(queue: &str) -> String {
    format!("^{}$", queue.replace('.', "\\."))
}

fn policy_of(queue: &str) -> String {
    format!("careless-{}", queue.rsplit('.').next().unwrap())
}

/// A key of a policy.
struct Key {
    name: &'static str,
    value: Value,
    /// The places in [`QUEUES`] of the quorum queues that it breaks, and of the classic ones. `None` where RabbitMQ does not
    /// put a policy with this key on queues of that type at all.
    breaks: [Option<&'static [usize]>; 2],
    /// The versions of RabbitMQ that know it.
    versions: RangeInclusive<(u32, u32)>,
    /// The first version that takes it from an operator policy, if one does.
    operator: Option<(u32, u32)>,
}

const LEVEL: Option<&[usize]> = Some(&[0]);
const CONSUMED: Option<&[usize]> = Some(&[1, 2]);
const NOT_LEVEL: Option<&[usize]> = Some(&[1, 2, 3]);
const ALL: Option<&[usize]> = Some(&[0, 1, 2, 3]);
const NO_QUEUE: Option<&[usize]> = Some(&[]);
const FIRST: (u32, u32) = (0, 0);
const LAST: (u32, u32) = (u32::MAX, 0);

/// Every key that acts on quorum or classic queues of RabbitMQ 3.10 to 4.3.
fn keys() -> Vec<Key> {
    let key = |name, value, breaks, operator| Key { name, value, breaks, versions: FIRST..=LAST, operator };
    let since = |version, key: Key| Key { versions: version..=LAST, ..key };
    let until = |version, key: Key| Key { versions: FIRST..=version, ..key };
    let (any, newer) = (Some(FIRST), Some((4, 0)));
    vec![
        key("message-ttl", json!(500), [ALL, ALL], any),
        key("expires", json!(3_600_000), [ALL, ALL], any),
        key("max-length", json!(1_000), [ALL, ALL], any),
        key("max-length-bytes", json!(1_000_000), [ALL, ALL], any),
        key("overflow", json!("drop-head"), [LEVEL, NO_QUEUE], newer),
        key("delivery-limit", json!(5), [NOT_LEVEL, None], any),
        since((4, 3), key("consumer-timeout", json!(30_000), [CONSUMED, CONSUMED], None)),
        since((4, 3), key("consumer-disconnected-timeout", json!(3_600_000), [CONSUMED, NO_QUEUE], None)),
        since((4, 3), key("delayed-retry-type", json!("all"), [NO_QUEUE, NO_QUEUE], Some((4, 3)))),
        since((4, 3), key("delayed-retry-min", json!(3_600_000), [NOT_LEVEL, NO_QUEUE], Some((4, 3)))),
        since((4, 3), key("delayed-retry-max", json!(3_600_000), [NO_QUEUE, NO_QUEUE], Some((4, 3)))),
        // The argument wins.
        key("dead-letter-exchange", json!("elsewhere"), [NO_QUEUE, NO_QUEUE], None),
        key("dead-letter-routing-key", json!("elsewhere"), [NO_QUEUE, NO_QUEUE], None),
        key("dead-letter-strategy", json!("at-most-once"), [NO_QUEUE, None], None),
        // Where and how messages are kept, not for how long.
        key("max-in-memory-length", json!(0), [NO_QUEUE, None], any),
        key("max-in-memory-bytes", json!(0), [NO_QUEUE, None], any),
        key("queue-mode", json!("lazy"), [None, NO_QUEUE], None),
        key("queue-version", json!(2), [NO_QUEUE, NO_QUEUE], newer),
        key("queue-leader-locator", json!("balanced"), [NO_QUEUE, None], None),
        since((4, 0), key("target-group-size", json!(1), [NO_QUEUE, None], Some((4, 0)))),
        until((3, 13), key("ha-mode", json!("all"), [None, NO_QUEUE], None)),
        // For exchanges, in a policy for everything.
        key("alternate-exchange", json!("elsewhere"), [NO_QUEUE, NO_QUEUE], None),
    ]
}

/// Who makes a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    User,
    Operator,
}

/// One policy on each queue, with every key that the broker takes from that author for queues of the type.
fn set_all(broker: &Broker, vhost: &Vhost, author: Author, queue_type: usize) -> Vec<Key> {
    let keys: Vec<_> = keys()
        .into_iter()
        .filter(|key| key.breaks[queue_type].is_some() && key.versions.contains(&broker.version()))
        .filter(|key| author == Author::User || key.operator.is_some_and(|since| broker.version() >= since))
        .collect();
    let definition: Map<_, _> = keys.iter().map(|key| (key.name.to_owned(), key.value.clone())).collect();
    let definition = Value::Object(definition);
    for queue in QUEUES {
        match author {
            Author::User => set(vhost, queue, &definition),
            Author::Operator => {
                let (name, pattern) = (policy_of(queue), pattern(queue));
                let policy = json!({ "pattern": pattern, "definition": definition, "apply-to": "queues", "priority": 1 });
                broker.management().put(&format!("/operator-policies/{}/{name}", vhost.name()), &policy);
            }
        }
    }
    keys
}

/// The conflicts that the log names, as key and place of the queue.
fn named(log: &str, author: Author, keys: &[Key]) -> BTreeSet<(&'static str, usize)> {
    let who = if author == Author::User { "policy" } else { "operator policy" };
    let mut found = BTreeSet::new();
    for line in log.lines().map(|line| line.replace("\\\"", "\"")) {
        for key in keys {
            for (index, queue) in QUEUES.iter().enumerate() {
                let policy = format!("{who} \"{}\" sets {} to ", policy_of(queue), key.name);
                if line.contains(&policy) && line.contains(&format!("on queue \"{queue}\":")) {
                    found.insert((key.name, index));
                }
            }
        }
    }
    found
}

fn expected(keys: &[Key], queue_type: usize) -> BTreeSet<(&'static str, usize)> {
    let broken = |key: &Key| key.breaks[queue_type].unwrap_or_default();
    keys.iter().flat_map(|key| broken(key).iter().map(|queue| (key.name, *queue))).collect()
}

async fn every_key_is_judged_before_work_begins(broker: &Broker) {
    for (queue_type, name) in ["quorum", "classic"].into_iter().enumerate() {
        for author in [Author::User, Author::Operator] {
            // A fresh one, since the management API tells of a policy that changed only seconds later.
            let vhost = broker.create_vhost();
            let keys = set_all(broker, &vhost, author, queue_type);
            let config = format!("queue_type: {name}\n{}", config(&broker.management().plain_url()));
            let log = Setup::new(&vhost.uri()).config(&config).spawn().expect_exit(CONFLICT).await;
            assert_eq!(named(&log, author, &keys), expected(&keys, queue_type), "{name}, {author:?}:\n{log}");
        }
    }
}

async fn every_key_is_noticed_while_running(broker: &Broker) {
    for author in [Author::User, Author::Operator] {
        let vhost = broker.create_vhost();
        let leveret = Leveret::start(&vhost.uri(), &config(&broker.management().plain_url())).await;
        let keys = set_all(broker, &vhost, author, 0);
        let expected = expected(&keys, 0);
        eventually("each is named", LIMIT, async || {
            (named(&leveret.log(), author, &keys) == expected).then_some(())
        })
        .await;
        let count = expected.len() as f64;
        eventually("each is counted", LIMIT, async || {
            (leveret.metrics().sum("leveret_policy_conflicts", &[]) == count).then_some(())
        })
        .await;
    }
}

async fn a_harmless_policy_refuses_nothing(broker: &Broker) {
    let vhost = broker.create_vhost();
    // Written for other queues, it takes Leveret's too.
    vhost.set_policy("everything", ".*", "queues", &json!({ "overflow": "reject-publish" }));
    vhost.set_policy("levels", "^leveret\\.level\\.", "queues", &json!({ "message-ttl": 60_000 }));
    let leveret = Leveret::start(&vhost.uri(), &config(&broker.management().plain_url())).await;
    assert_eq!(leveret.metrics().sum("leveret_policy_conflicts", &[]), 0.0);
    assert!(leveret.log().contains("no policy interferes"), "{}", leveret.log());
    delivers(&vhost).await;
}

async fn a_policy_is_noticed_while_running(broker: &Broker) {
    let vhost = broker.create_vhost();
    let mut leveret = Leveret::start(&vhost.uri(), &config(&broker.management().plain_url())).await;
    assert_eq!(leveret.metrics().sum("leveret_policy_conflicts", &[]), 0.0);
    set(&vhost, "leveret.due", &json!({ "message-ttl": 3_600_000 }));
    wait_for_metric(&leveret, "leveret_policy_conflicts", &[], 1.0).await;
    eventually("the log warns", LIMIT, async || {
        let log = leveret.log();
        let warned = |line: &str| {
            ["WARN", "message-ttl", "careless-due", "leveret.due"].iter().all(|word| line.contains(word))
        };
        log.lines().any(warned).then_some(())
    })
    .await;
    // It goes on working, and sees when the policy is gone.
    delivers(&vhost).await;
    vhost.delete_policy(&policy_of("leveret.due"));
    eventually("there is no conflict any more", LIMIT, async || {
        (leveret.metrics().sum("leveret_policy_conflicts", &[]) == 0.0).then_some(())
    })
    .await;
    leveret.sigterm();
    assert!(leveret.wait().await.success());
}

/// What the management API does not tell must not stop deliveries.
async fn an_audit_that_fails_forbids_nothing(broker: &Broker) {
    let vhost = broker.create_vhost();
    let nobody = "http://127.0.0.1:9";
    let leveret = Leveret::start(&vhost.uri(), &config(nobody)).await;
    let log = leveret.log();
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains("cannot audit policies")), "{log}");
    assert!(log.contains(nobody), "{log}");
    delivers(&vhost).await;
    drop(leveret);

    // Nor must an answer that is no, and the password stays unsaid.
    let wrong = config(&broker.management().plain_url())
        .replace("interval: 1s", "interval: 1s, username: guest, password: not-the-passw0rd");
    let leveret = Leveret::start(&vhost.uri(), &wrong).await;
    wait_for_warnings(&leveret, 2).await;
    assert!(!leveret.log().contains("not-the-passw0rd"));
    delivers(&vhost).await;
}

async fn wait_for_warnings(leveret: &Leveret, count: usize) {
    eventually("the audit fails again", Duration::from_secs(30), async || {
        let log = leveret.log();
        (log.lines().filter(|line| line.contains("cannot audit policies")).count() >= count).then_some(())
    })
    .await;
}

async fn delivers(vhost: &Vhost) {
    let client = Client::connect(&vhost.uri()).await;
    // A queue of its own, for which no earlier consumer is left.
    let queue = format!("q-{}", fastrand::u64(..));
    client.declare_queue(&queue, lapin::types::FieldTable::default()).await;
    client.publish("orders.delayed", &queue, delayed(200), b"hare").await;
    assert_eq!(client.consume(&queue).await.next(LIMIT).await.delivery.data, b"hare");
}
