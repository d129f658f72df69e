//! A cluster of three nodes: queues have a member on each, and Leveret goes on with the nodes that are left.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: ; cluster: nodes_are_killed_one_after_another_and_then_all, leaders_are_cut_off_and_killed
];

const NODES: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

/// The broker tries a dead letter that was refused again after 180 seconds.
const DEAD_LETTER_RETRY: Duration = Duration::from_secs(200);

async fn nodes_are_killed_one_after_another_and_then_all(broker: &Broker) {
    let first = broker.dedicated();
    let cluster = Cluster::around(&first, NODES);
    let vhost = first.create_vhost();
    let uri = cluster.uri(&vhost);
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, "").await;
    every_queue_has_a_member_on_each_node(&vhost).await;
    cluster.flush_declarations();
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..4_000));

    for node in cluster.nodes() {
        cluster.wait_until_spare(node).await;
        node.kill();
        messages_arrive(ledger).await;
        node.start_again();
    }
    // It was connected to the first node, and then to the second.
    let failed_over = leveret.metrics().sum("leveret_reconnects_total", &[]);
    assert!(failed_over >= 2.0, "{failed_over} reconnects");

    cluster.kill();
    cluster.start_again();
    leveret.wait_until_ready().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.stop().await;
    let report = ledger.close(DEAD_LETTER_RETRY).await;
    if !report.lost.is_empty() {
        println!("what waits: {:?}", vhost.depths());
    }
    report.nothing_lost_or_early("three nodes killed one after another, then all");
}

/// The node that leads a queue is the worst one to lose: all that happens in the queue happens there.
async fn leaders_are_cut_off_and_killed(broker: &Broker) {
    let first = broker.dedicated();
    let cluster = Cluster::around(&first, NODES);
    let vhost = first.create_vhost();
    declare_target(&vhost.uri(), "q").await;
    // Where a queue is declared, it is led at first: one replica is on that side of the cut, and all else on the other.
    let mut cut_off = Leveret::start(&cluster.uri_from(0, &vhost), "").await;
    let mut other = Leveret::start(&cluster.uri_from(1, &vhost), "").await;
    every_queue_has_a_member_on_each_node(&vhost).await;
    cluster.flush_declarations();
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&cluster.uri_from(1, &vhost), "q");
    let load = Load::start(ledger, &cluster.uri_from(2, &vhost), 200, random_delays("q", 0..4_000));
    messages_arrive(ledger).await;

    let leader = cluster.leader_of(&vhost, "leveret.due").await;
    cluster.isolate(leader);
    messages_arrive(ledger).await;
    cluster.rejoin(leader);

    for queue in ["leveret.due", "leveret.level.1s"] {
        for node in cluster.nodes() {
            cluster.wait_until_spare(node).await;
        }
        let leader = cluster.leader_of(&vhost, queue).await;
        leader.kill();
        messages_arrive(ledger).await;
        leader.start_again();
    }
    load.stop().await;
    let report = ledger.close(DEAD_LETTER_RETRY).await;
    if !report.lost.is_empty() {
        println!("what waits: {:?}", vhost.depths());
    }
    report.nothing_lost_or_early("leaders cut off and killed");
    cut_off.wait_until_ready().await;
    other.wait_until_ready().await;
}

/// Waits until more have come than were on their way to the target.
async fn messages_arrive(ledger: &Ledger) {
    let arrived = ledger.arrived_count();
    eventually("messages arrive", LIMIT, async || (ledger.arrived_count() > arrived + 400).then_some(()))
        .await;
}

async fn every_queue_has_a_member_on_each_node(vhost: &Vhost) {
    eventually("every queue has a member on each node", LIMIT, async || {
        let queues = vhost.queue_names();
        let members = |queue: &String| Some(vhost.queue_stats(queue)?.details["members"].as_array()?.len());
        let whole = |queue: &String| members(queue) == Some(NODES);
        (queues.len() > 20 && queues.iter().all(whole)).then_some(())
    })
    .await;
}
