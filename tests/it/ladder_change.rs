//! The ladder is changed while messages wait: none is lost, each still comes when it is due.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::messages::delayed;
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: messages_change_ladders_while_they_wait, replicas_of_two_ladders_work_side_by_side,
        overdue_messages_come_at_once_on_return, levels_without_a_ladder_are_pruned_where_nothing_waits
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

/// A queue counts as ready only what has not expired: what waits for the due queue to take it must be seen as well.
async fn levels_without_a_ladder_are_pruned_where_nothing_waits(broker: &Broker) {
    const OLD: [&str; 4] =
        ["leveret.level.300ms", "leveret.level.3s", "leveret.level.5s", "leveret.level.10m"];
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let client = Client::connect(&uri).await;
    let mut leveret = Leveret::start(&uri, "ladder: [300ms, 3s, 5s, 10m]").await;
    for delay_ms in [15 * 60_000, 6_000] {
        client.publish("delay", "q", delayed(delay_ms), b"waits").await;
    }
    eventually("they are in their levels", LIMIT, async || {
        let [long, short] = [client.depth(OLD[3]).await, client.depth(OLD[2]).await];
        (long == 1 && short == 1).then_some(())
    })
    .await;
    leveret.sigterm();
    assert_eq!(leveret.wait().await.code(), Some(0));
    // From here on nobody takes what expires.
    vhost.delete_queue("leveret.due");
    eventually("it has expired", LIMIT, async || (client.depth(OLD[2]).await == 0).then_some(())).await;

    let file = tempfile::NamedTempFile::new().unwrap();
    let config =
        format!("ladder: [1s, 3s]\nmanagement: {{ url: \"{}\" }}\n", broker.management().plain_url());
    std::fs::write(&file, config).unwrap();
    let prune = |more: &[&str]| {
        let words = [&["topology", "prune", "--config", file.path().to_str().unwrap()], more].concat();
        command(&uri, &words).expect(0).stdout
    };
    let shown = eventually("the statistics know of all", LIMIT, async || {
        let shown = prune(&["--dry-run"]);
        (!shown.contains("does not tell") && shown.matches("1 bundle in it").count() == 2).then_some(shown)
    })
    .await;
    assert!(shown.contains("leveret.level.300ms") && !shown.contains("leveret.level.3s "), "{shown}");
    assert!(vhost.queue_names().iter().any(|name| name == OLD[0]), "a dry run deleted a queue");
    let shown = prune(&[]);
    assert!(shown.lines().any(|line| line.starts_with(OLD[0]) && line.ends_with("deleted")), "{shown}");
    let left = vhost.queue_names();
    for (queue, kept) in OLD.into_iter().zip([false, true, true, true]) {
        assert_eq!(left.iter().any(|name| name == queue), kept, "{queue}: {left:?}\n{shown}");
    }
    assert_eq!(client.depth(OLD[3]).await, 1);
    let without = command(&uri, &["topology", "prune"]).expect(78);
    assert!(without.stderr.contains("management.url"), "{without:?}");
}
