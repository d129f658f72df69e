//! What policies do to messages where nobody audits them: none is lost that the broker itself does not delete.

use std::time::Duration;

use lapin::types::FieldTable;
use serde_json::{Value, json};

use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::{Client, now_ms};
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, delayed, numbers, publish_numbered, take_numbered, wait_for_metric};
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: quorum_levels_under_each_policy, classic_levels_under_each_policy,
        what_waits_for_a_stopped_leveret_is_parked, a_queue_that_expires_comes_back,
        parked_messages_that_a_policy_deletes_hold_nothing_up
];

const LADDER: &str = "ladder: [250ms, 1s]\n";
const ENTRY: &str = "delay";
const COUNT: u32 = 20;
const POLICY: &str = "careless";
/// A policy is in force a little after the broker has taken it. Nothing fails where it is not yet.
const IN_FORCE: Duration = Duration::from_millis(300);

/// What a policy does to the levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing that a consumer would notice, but perhaps lateness.
    None,
    /// Messages may come early.
    Early,
}

fn on_levels() -> Vec<(Value, Effect)> {
    vec![
        (json!({ "message-ttl": 60_000 }), Effect::None),
        (json!({ "message-ttl": 100 }), Effect::Early),
        (json!({ "max-length": 1, "overflow": "reject-publish" }), Effect::None),
        (json!({ "max-length-bytes": 10_000, "overflow": "reject-publish" }), Effect::None),
        (json!({ "max-length": 1, "overflow": "drop-head" }), Effect::Early),
        (json!({ "max-length-bytes": 1, "overflow": "drop-head" }), Effect::Early),
        (json!({ "overflow": "drop-head" }), Effect::None),
        (json!({ "dead-letter-exchange": "nowhere", "dead-letter-routing-key": "nowhere" }), Effect::None),
        (json!({ "dead-letter-strategy": "at-most-once" }), Effect::None),
        (json!({ "delivery-limit": 0 }), Effect::None),
        (json!({ "expires": 3_600_000 }), Effect::None),
    ]
}

async fn quorum_levels_under_each_policy(broker: &Broker) {
    levels(broker, "quorum").await;
}

async fn classic_levels_under_each_policy(broker: &Broker) {
    levels(broker, "classic").await;
}

async fn levels(broker: &Broker, queue_type: &str) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), &format!("{LADDER}queue_type: {queue_type}\n")).await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    for (policy, effect) in on_levels() {
        vhost.set_policy(POLICY, "^leveret\\.level\\.", "queues", &policy);
        tokio::time::sleep(IN_FORCE).await;
        let began = now_ms();
        let delay = |number: u32| 300 + i32::try_from(number).unwrap() * 60;
        for number in 0..COUNT {
            client.publish(ENTRY, "q", delayed(delay(number)), number.to_string().as_bytes()).await;
        }
        let received = inbox.take(COUNT as usize, LIMIT).await;
        assert_eq!(numbers(&received), (0..COUNT).collect(), "{policy}");
        for one in received {
            let number = *numbers(std::slice::from_ref(&one)).first().unwrap();
            let early = one.at_ms < began + i64::from(delay(number));
            assert!(!early || effect == Effect::Early, "{policy}: number {number} is early");
        }
        vhost.delete_policy(POLICY);
    }
    assert!(inbox.drain().is_empty());
    assert_eq!(client.depth("leveret.parked").await, 0);
}

/// A policy takes from ingress and due what waits there; the broker moves it to the parked queue, and a retry brings it.
async fn what_waits_for_a_stopped_leveret_is_parked(broker: &Broker) {
    let policies = [
        json!({ "message-ttl": 100 }),
        json!({ "max-length": 1, "overflow": "drop-head" }),
        json!({ "max-length-bytes": 1, "overflow": "drop-head" }),
    ];
    let ladder = "ladder: [250ms, 5s]\n";
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    for policy in policies {
        let mut leveret = Leveret::start(&vhost.uri(), ladder).await;
        // Half of them are in a level when Leveret stops, and the other half come after that.
        for number in 0..COUNT / 2 {
            client.publish(ENTRY, "q", delayed(6_000), number.to_string().as_bytes()).await;
        }
        wait_for_metric(&leveret, "leveret_level_messages_total", &[("level", "5s")], f64::from(COUNT / 2))
            .await;
        leveret.sigterm();
        leveret.expect_exit(0).await;
        vhost.set_policy(POLICY, "^leveret\\.(due|ingress\\.default)$", "queues", &policy);
        tokio::time::sleep(IN_FORCE).await;
        publish_numbered(&client, ENTRY, 0, COUNT / 2..COUNT, |_| "q".to_owned()).await;
        eventually("the level is empty", LIMIT, async || {
            (client.depth("leveret.level.5s").await == 0).then_some(())
        })
        .await;
        eventually("the broker has moved most", LIMIT, async || {
            (client.depth("leveret.parked").await > COUNT / 4).then_some(())
        })
        .await;
        vhost.delete_policy(POLICY);
        tokio::time::sleep(IN_FORCE).await;

        let mut leveret = Leveret::start(&vhost.uri(), ladder).await;
        let listed = command(&vhost.uri(), &["parked", "list", "--json"]).expect(0).json();
        for parked in listed.as_array().unwrap() {
            assert_eq!(parked["reason"], "dead-lettered", "{policy}: {parked}");
        }
        command(&vhost.uri(), &["parked", "retry", "--all"]).expect(0);
        take_numbered(&mut inbox, 0..COUNT).await;
        // Killed, it could leave what it delivered for the next.
        leveret.sigterm();
        leveret.expect_exit(0).await;
        assert!(inbox.drain().is_empty(), "{policy}");
        assert_eq!(client.depth("leveret.parked").await, 0, "{policy}");
    }
}

/// `expires` deletes a queue that nobody consumes, with all that is in it. That is lost; what comes after it is not. Of a
/// level, which comes back as any that is deleted, see `lost_queues`.
async fn a_queue_that_expires_comes_back(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    let mut leveret = Leveret::start(&vhost.uri(), LADDER).await;
    leveret.sigterm();
    leveret.expect_exit(0).await;
    let pattern = "^leveret\\.(due|ingress\\.default|parked)$";
    vhost.set_policy(POLICY, pattern, "queues", &json!({ "expires": 200 }));
    eventually("the broker has deleted what expired", LIMIT, async || {
        let names = vhost.queue_names();
        let left = |name: &String| name.starts_with("leveret.") && !name.starts_with("leveret.level.");
        (!names.iter().any(left)).then_some(())
    })
    .await;
    vhost.delete_policy(POLICY);
    tokio::time::sleep(IN_FORCE).await;
    let _leveret = Leveret::start(&vhost.uri(), LADDER).await;
    publish_numbered(&client, ENTRY, 1_300, 0..COUNT, |_| "q".to_owned()).await;
    take_numbered(&mut inbox, 0..COUNT).await;
}

/// They are lost, since nobody looked at them in time. Deliveries go on.
async fn parked_messages_that_a_policy_deletes_hold_nothing_up(broker: &Broker) {
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), LADDER).await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    let mut parked = 0.0;
    for policy in [
        json!({ "message-ttl": 1 }),
        json!({ "max-length": 1, "overflow": "drop-head" }),
        json!({ "max-length-bytes": 1, "overflow": "drop-head" }),
    ] {
        vhost.set_policy(POLICY, "^leveret\\.parked$", "queues", &policy);
        tokio::time::sleep(IN_FORCE).await;
        publish_numbered(&client, ENTRY, 300, 0..COUNT, |_| "nowhere".to_owned()).await;
        publish_numbered(&client, ENTRY, 300, 0..COUNT, |_| "q".to_owned()).await;
        take_numbered(&mut inbox, 0..COUNT).await;
        parked += f64::from(COUNT);
        wait_for_metric(&leveret, "leveret_messages_parked_total", &[("reason", "unroutable")], parked).await;
        eventually("the broker has deleted most", LIMIT, async || {
            (client.depth("leveret.parked").await <= 1).then_some(())
        })
        .await;
        vhost.delete_policy(POLICY);
    }
}
