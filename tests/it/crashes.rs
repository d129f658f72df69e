//! Sidecars that are killed and frozen: nothing is lost, nothing comes early. Doubles are counted.

use std::time::Duration;

use crate::harness::broker::{Alarm, Broker};
use crate::harness::eventually;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: one_of_two_replicas_is_killed_over_and_over, a_replica_is_frozen_for_a_while,
        a_replica_is_frozen_until_the_broker_gives_it_up;
    own_node: more_crashes_than_a_delivery_limit
];

const LIMIT: Duration = Duration::from_secs(60);

async fn random_pause(millis: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(millis))).await;
}

async fn one_of_two_replicas_is_killed_over_and_over(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let _steady = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 300, random_delays("q", 0..3_000));
    for _ in 0..6 {
        let mut unlucky = Leveret::start(&uri, "").await;
        random_pause(100..900).await;
        unlucky.sigkill();
        unlucky.wait().await;
    }
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a replica killed six times");
}

async fn a_replica_is_frozen_for_a_while(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let (frozen, _steady) = (Leveret::start(&uri, "").await, Leveret::start(&uri, "").await);
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..1_500));
    for _ in 0..3 {
        random_pause(100..600).await;
        frozen.sigstop();
        random_pause(300..900).await;
        frozen.sigcont();
    }
    load.stop().await;
    ledger.close(LIMIT).await.exactly_once("a replica frozen three times");
}

async fn a_replica_is_frozen_until_the_broker_gives_it_up(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let frozen = Leveret::start(&uri, "amqp: { heartbeat: 1s }").await;
    let steady = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..1_500));
    random_pause(500..1_000).await;
    frozen.sigstop();
    // The broker goes on giving it its share, until it gives it up; then all that goes to the other.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let owed = ledger.published_count();
    eventually("the other replica delivers all", LIMIT, async || {
        (ledger.arrived_count() >= owed).then_some(())
    })
    .await;
    frozen.sigcont();
    eventually("it connects again", LIMIT, async || {
        (frozen.metrics().sum("leveret_reconnects_total", &[]) >= 1.0 && frozen.is_ready()).then_some(())
    })
    .await;
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a replica frozen until the broker gave it up");
    drop(steady);
}

/// RabbitMQ 4 drops a message after 20 returns unless told otherwise, and 3.10 at the first where it is told -1. An
/// alarm holds messages for as long as that takes: in ingress, since no bundle can be published, and in memory.
async fn more_crashes_than_a_delivery_limit(broker: &Broker) {
    const CRASHES: usize = 25;
    const EACH: usize = 40;
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    // With so long a smallest level, all that is bundled goes to the due queue and is held.
    let yaml = "ladder: [1m]";
    let mut leveret = Leveret::start(&uri, yaml).await;
    let ledger = Ledger::open();
    let publish = |delay_ms| {
        let drafts = std::iter::repeat_with(move || Draft::to_queue("q", delay_ms)).take(EACH);
        Load::start(ledger, &uri, 1_000, drafts).finish()
    };
    publish(3_000).await;
    eventually("all are held", LIMIT, async || {
        (leveret.metrics().sum("leveret_held_messages", &[]) == EACH as f64).then_some(())
    })
    .await;
    leveret.sigkill();
    leveret.wait().await;
    publish(1_000).await;
    node.set_alarm(Alarm::Memory, true).await;

    for _ in 0..CRASHES {
        let mut leveret = Leveret::start(&uri, yaml).await;
        eventually("both queues' messages are unsettled", LIMIT, async || {
            let unsettled =
                |source| leveret.metrics().sum("leveret_unsettled_deliveries", &[("source", source)]);
            (unsettled("due") >= 1.0 && unsettled("ingress.default") == EACH as f64).then_some(())
        })
        .await;
        leveret.sigkill();
        leveret.wait().await;
    }
    assert_eq!(ledger.arrived_count(), 0);

    node.set_alarm(Alarm::Memory, false).await;
    let _collecting = ledger.collect(&uri, "q");
    let _leveret = Leveret::start(&uri, yaml).await;
    let report = ledger.close(LIMIT).await.nothing_lost_or_early("25 crashes with the same messages");
    assert_eq!(report.confirmed, 2 * EACH);
}
