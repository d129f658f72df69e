//! Policies that would break Leveret's queues: found out before work begins, and while it goes on.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, delayed, wait_for_metric};
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: a_start_is_refused_for_each_policy_that_breaks_a_queue, a_harmless_policy_refuses_nothing,
        a_policy_is_noticed_while_running, an_audit_that_fails_forbids_nothing
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
    let pattern = format!("^{}$", queue.replace('.', "\\."));
    vhost.set_policy(&policy_of(queue), &pattern, "queues", definition);
}

fn policy_of(queue: &str) -> String {
    format!("careless-{}", queue.rsplit('.').next().unwrap())
}

async fn a_start_is_refused_for_each_policy_that_breaks_a_queue(broker: &Broker) {
    // For each policy the queues that it breaks, of those above.
    let all: &[usize] = &[0, 1, 2, 3];
    let mut breaking = vec![
        ("message-ttl", json!({ "message-ttl": 500 }), all),
        ("expires", json!({ "expires": 3_600_000 }), all),
        ("max-length", json!({ "max-length": 1000 }), all),
        ("max-length-bytes", json!({ "max-length-bytes": 1_000_000 }), all),
        ("overflow", json!({ "overflow": "drop-head" }), &all[..1]),
        ("delivery-limit", json!({ "delivery-limit": 5 }), &all[1..]),
    ];
    if broker.version() >= (4, 3) {
        breaking.push(("consumer-timeout", json!({ "consumer-timeout": 30_000 }), &all[1..3]));
    }
    for (key, definition, broken) in breaking {
        // A fresh one, since the management API tells of a policy that changed only seconds later.
        let vhost = broker.create_vhost();
        for queue in QUEUES {
            set(&vhost, queue, &definition);
        }
        let log = Setup::new(&vhost.uri())
            .config(&config(&broker.management().plain_url()))
            .spawn()
            .expect_exit(CONFLICT)
            .await;
        for (index, queue) in QUEUES.iter().enumerate() {
            let line = log.lines().any(|line| {
                let named = [&format!("policy \"{}\"", policy_of(queue)), &format!("queue \"{queue}\"")];
                let said = line.replace("\\\"", "\"");
                said.contains(&format!("sets {key} to")) && named.into_iter().all(|name| said.contains(name))
            });
            assert_eq!(line, broken.contains(&index), "{key} on {queue}:\n{log}");
        }
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
