//! The ladder is changed while messages wait: none is lost, each still comes when it is due.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: messages_change_ladders_while_they_wait, replicas_of_two_ladders_work_side_by_side,
        overdue_messages_come_at_once_on_return
];

const LIMIT: Duration = Duration::from_secs(60);

async fn levels_are_empty(vhost: &Vhost) {
    let client = Client::connect(&vhost.uri()).await;
    let names = vhost.queue_names();
    let levels: Vec<_> = names.iter().filter(|name| name.starts_with("leveret.level.")).collect();
    assert!(!levels.is_empty());
    for level in levels {
        eventually("old levels drain", LIMIT, async || (client.depth(level).await == 0).then_some(())).await;
    }
}

async fn messages_change_ladders_while_they_wait(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let mut load = None;
    for ladder in ["default", "rocketmq", "[300ms, 3s]"] {
        let mut leveret = Leveret::start(&uri, &format!("ladder: {ladder}")).await;
        load.get_or_insert_with(|| Load::start(ledger, &uri, 300, random_delays("q", 500..10_000)));
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        leveret.sigterm();
        assert_eq!(leveret.wait().await.code(), Some(0));
    }
    load.unwrap().stop().await;
    let _last = Leveret::start(&uri, "ladder: { preset: rocketmq, extra: [7s] }").await;
    ledger.close(LIMIT).await.exactly_once("the ladder changed three times");
    levels_are_empty(&vhost).await;
}

async fn replicas_of_two_ladders_work_side_by_side(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let _old = Leveret::start(&uri, "ladder: default").await;
    let _new = Leveret::start(&uri, "ladder: [200ms, 700ms, 2s]").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 300, random_delays("q", 0..5_000).take(900));
    load.finish().await;
    ledger.close(LIMIT).await.exactly_once("two ladders side by side");
    levels_are_empty(&vhost).await;
}

async fn overdue_messages_come_at_once_on_return(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let mut leveret = Leveret::start(&uri, "").await;
    Load::start(ledger, &uri, 500, random_delays("q", 1_500..2_000).take(200)).finish().await;
    leveret.sigterm();
    assert_eq!(leveret.wait().await.code(), Some(0));
    // Published while nobody is there to take it, and overdue with the rest when somebody is.
    Load::start(ledger, &uri, 500, random_delays("q", 0..100).take(200)).finish().await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let before = ledger.arrived_count();
    assert_eq!(before, 0, "nobody delivers while Leveret is stopped");
    let _again = Leveret::start(&uri, "").await;
    ledger.close(LIMIT).await.exactly_once("stopped for longer than the delays");
}
