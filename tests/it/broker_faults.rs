//! A broker that restarts, crashes, or is short of memory or disk: nothing is lost, nothing comes early.

use std::time::Duration;

use crate::harness::broker::{Alarm, Broker};
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: ;
    own_node: the_broker_restarts_under_load, the_broker_is_killed_under_load, a_memory_alarm_while_messages_are_due,
        a_disk_alarm_while_messages_are_due
];

const LIMIT: Duration = Duration::from_secs(60);

/// A level that is up before the due queue is, when the broker starts, has its dead letters refused, and the broker
/// tries them again after 180 seconds.
const DEAD_LETTER_RETRY: Duration = Duration::from_secs(200);

async fn the_broker_restarts_under_load(broker: &Broker) {
    goes_away_under_load(broker, "the broker restarted", Broker::restart).await;
}

async fn the_broker_is_killed_under_load(broker: &Broker) {
    goes_away_under_load(broker, "the broker was killed", |node| {
        node.kill();
        node.start_again();
    })
    .await;
}

async fn goes_away_under_load(broker: &Broker, name: &str, go: impl FnOnce(&Broker)) {
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, "").await;
    node.flush_declarations();
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..8_000));
    tokio::time::sleep(Duration::from_secs(2)).await;
    go(&node);
    leveret.wait_until_ready().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.stop().await;
    let report = ledger.close(DEAD_LETTER_RETRY).await;
    if !report.lost.is_empty() {
        println!("{name}: what waits: {:?}", vhost.depths());
    }
    report.nothing_lost_or_early(name);
}

async fn a_memory_alarm_while_messages_are_due(broker: &Broker) {
    an_alarm_while_messages_are_due(broker, Alarm::Memory).await;
}

async fn a_disk_alarm_while_messages_are_due(broker: &Broker) {
    an_alarm_while_messages_are_due(broker, Alarm::Disk).await;
}

async fn an_alarm_while_messages_are_due(broker: &Broker, alarm: Alarm) {
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let leveret = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    // The alarm takes a few seconds to raise: some are due before, some while it lasts, some after.
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..10_000));
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.set_alarm(alarm, true).await;
    let blocked = || leveret.metrics().sum("leveret_connection_blocked", &[]);
    eventually("publishing is blocked", LIMIT, async || (blocked() > 0.0).then_some(())).await;
    assert_eq!(leveret.metrics().sum("leveret_connection_blocked", &[("role", "consume")]), 0.0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let arrived = ledger.arrived_count();
    // Longer than Leveret waits for confirms before it suspects a target.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(ledger.arrived_count(), arrived, "delivered in spite of the alarm");
    node.set_alarm(alarm, false).await;
    load.stop().await;
    let report = ledger.close(LIMIT).await.exactly_once(&format!("{alarm:?} alarm"));
    assert!(report.published > arrived, "nothing was due while the alarm lasted");
    eventually("everything is settled", LIMIT, async || {
        (leveret.metrics().sum("leveret_unsettled_deliveries", &[]) == 0.0).then_some(())
    })
    .await;
    assert_eq!(blocked(), 0.0);
}
