//! The broker ends what Leveret consumes with: it takes back what was not acknowledged in time, and closes channels. Nothing
//! is lost, nothing comes early, and what is consumed is consumed again.

use std::time::Duration;

use serde_json::json;

use crate::harness::broker::{Alarm, Broker};
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, wait_for_metric};
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: ;
    own_node: an_alarm_outlasts_the_consumer_timeout, a_frozen_replica_outlasts_the_consumer_timeout,
        channels_are_closed_by_soft_errors
];

const CONSUMER_TIMEOUT: Duration = Duration::from_secs(2);

/// A target whose consumer has all the time it needs; where that cannot be said, the test's consumer is quick enough.
async fn declare_patient_target(broker: &Broker, vhost: &Vhost) {
    declare_target(&vhost.uri(), "q").await;
    if broker.version() >= (4, 3) {
        vhost.set_policy("patient", "^q$", "queues", &json!({ "consumer-timeout": 600_000 }));
    }
}

/// Up to 4.2 the broker closes the channel, from 4.3 on it cancels the consumer.
async fn is_taken_back(leveret: &Leveret) {
    eventually("the broker takes back what is not acknowledged", LIMIT, async || {
        let channel_closed = leveret.metrics().sum("leveret_reconnects_total", &[]) > 0.0;
        let cancelled = leveret.log().contains("the broker cancelled the consumer");
        (channel_closed || cancelled).then_some(())
    })
    .await;
}

async fn all_is_settled(leveret: &mut Leveret) {
    leveret.wait_until_ready().await;
    eventually("everything is settled", LIMIT, async || {
        (leveret.metrics().sum("leveret_unsettled_deliveries", &[]) == 0.0).then_some(())
    })
    .await;
}

/// What cannot be published cannot be acknowledged. The broker takes it back, and gives it again, over and over.
async fn an_alarm_outlasts_the_consumer_timeout(broker: &Broker) {
    let node = broker.dedicated();
    node.set_consumer_timeout(CONSUMER_TIMEOUT);
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_patient_target(&node, &vhost).await;
    let mut leveret = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..10_000));
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.set_alarm(Alarm::Memory, true).await;
    is_taken_back(&leveret).await;
    tokio::time::sleep(2 * CONSUMER_TIMEOUT).await;
    node.set_alarm(Alarm::Memory, false).await;
    load.stop().await;
    let report = ledger.close(LIMIT).await;
    if !report.lost.is_empty() {
        println!(
            "what waits: {:?} {:?}",
            vhost.depths(),
            leveret.metrics().sum("leveret_unsettled_deliveries", &[])
        );
        println!("{:?}", vhost.queue_stats("leveret.ingress.default"));
    }
    report.nothing_lost_or_early("an alarm longer than the consumer timeout");
    all_is_settled(&mut leveret).await;
}

/// A replica that hangs, with a heartbeat that would let it hang for long.
async fn a_frozen_replica_outlasts_the_consumer_timeout(broker: &Broker) {
    let node = broker.dedicated();
    node.set_consumer_timeout(CONSUMER_TIMEOUT);
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_patient_target(&node, &vhost).await;
    let patient = "amqp: { heartbeat: 10m }";
    let (mut frozen, mut steady) = (Leveret::start(&uri, patient).await, Leveret::start(&uri, patient).await);
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..1_500));
    wait_for_metric(&frozen, "leveret_messages_delivered_total", &[], 50.0).await;
    frozen.sigstop();
    // The broker goes on giving it its share, until that is as much as it may have, and then takes it back.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let owed = ledger.published_count();
    eventually("the other replica delivers all", LIMIT, async || {
        (ledger.arrived_count() >= owed).then_some(())
    })
    .await;
    frozen.sigcont();
    is_taken_back(&frozen).await;
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a replica frozen for longer than the consumer timeout");
    all_is_settled(&mut frozen).await;
    all_is_settled(&mut steady).await;
}

async fn channels_are_closed_by_soft_errors(broker: &Broker) {
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..3_000));
    for _ in 0..3 {
        let before = leveret.metrics().sum("leveret_reconnects_total", &[]);
        node.fail_consuming_channels(vhost.name());
        wait_for_metric(&leveret, "leveret_reconnects_total", &[], before + 1.0).await;
        leveret.wait_until_ready().await;
    }
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("channels closed three times");
    all_is_settled(&mut leveret).await;
}
