//! Leveret's own queues are deleted and purged under it. What is in a queue goes with it, and nothing else; a queue that is
//! gone Leveret declares anew.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::messages::wait_for_metric;
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: a_deleted_due_queue_comes_back, a_deleted_ingress_queue_comes_back, a_deleted_level_comes_back,
        a_purge_takes_what_the_queue_holds_and_no_more, a_deletion_takes_what_the_queue_holds_and_no_more
];

const LIMIT: Duration = Duration::from_secs(60);

/// Bundles that Leveret has read from the due queue are still delivered. Those that it had not read would be lost.
async fn a_deleted_due_queue_comes_back(broker: &Broker) {
    comes_back(broker, "leveret.due").await;
}

/// Messages that Leveret has taken go on their way. Those that it had not read would be lost.
async fn a_deleted_ingress_queue_comes_back(broker: &Broker) {
    comes_back(broker, "leveret.ingress.default").await;
}

async fn comes_back(broker: &Broker, queue: &str) {
    const HELD: usize = 50;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let everything = [".*", ".*", ".*"];
    let user = vhost.add_user("sidecar", "", everything);
    let mut leveret = Leveret::start(&user.uri(vhost.name()), "ladder: [1m]").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    Load::start(ledger, &uri, 1_000, std::iter::repeat_with(|| Draft::to_queue("q", 4_000)).take(HELD))
        .finish()
        .await;
    eventually("all are held", LIMIT, async || {
        (leveret.metrics().sum("leveret_held_messages", &[]) == HELD as f64).then_some(())
    })
    .await;

    // A user that may not declare it makes the time without it last until the test has seen it.
    vhost.permit(&user.user, ["^$", ".*", ".*"]);
    vhost.delete_queue(queue);
    eventually("it is not ready", LIMIT, async || (!leveret.is_ready()).then_some(())).await;
    eventually("it says why", LIMIT, async || leveret.log().contains("cannot consume yet").then_some(()))
        .await;
    vhost.permit(&user.user, everything);
    leveret.wait_until_ready().await;

    Load::start(ledger, &uri, 300, random_delays("q", 0..1_500).take(200)).finish().await;
    let report = ledger.close(LIMIT).await.exactly_once(queue);
    assert_eq!(report.confirmed, HELD + 200);
    eventually("everything is settled", LIMIT, async || {
        (leveret.metrics().sum("leveret_unsettled_deliveries", &[]) == 0.0).then_some(())
    })
    .await;
}

/// What waits in a level goes with it; what would enter it next is returned, and enters it when it is there again.
async fn a_deleted_level_comes_back(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let leveret = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let levels: Vec<_> =
        vhost.queue_names().into_iter().filter(|name| name.starts_with("leveret.level.")).collect();
    for level in &levels {
        vhost.delete_queue(level);
    }
    Load::start(ledger, &uri, 300, random_delays("q", 0..3_000).take(300)).finish().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("all levels deleted");
    assert!(leveret.metrics().sum("leveret_reconnects_total", &[]) >= 1.0);
    let names = vhost.queue_names();
    assert!(levels.iter().all(|level| names.contains(level)), "not all levels are there again: {names:?}");
}

async fn a_purge_takes_what_the_queue_holds_and_no_more(broker: &Broker) {
    takes_what_the_queue_holds(broker, "purged", Vhost::purge_queue).await;
}

async fn a_deletion_takes_what_the_queue_holds_and_no_more(broker: &Broker) {
    takes_what_the_queue_holds(broker, "deleted", Vhost::delete_queue).await;
}

/// Some in a level, then some in the due queue, then some in ingress; then what no queue held.
async fn takes_what_the_queue_holds(broker: &Broker, how: &str, take: impl Fn(&Vhost, &str)) {
    const EACH: usize = 20;
    // What is to be lost would wait for longer than the test.
    const YAML: &str = "ladder: [1m]";
    const THROUGH_THE_LEVEL_MS: i64 = 600_000;
    const STRAIGHT_MS: i64 = 50_000;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let client = Client::connect(&uri).await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let publish = async |delay_ms| {
        let drafts = std::iter::repeat_with(move || Draft::to_queue("q", delay_ms)).take(EACH);
        Load::start(ledger, &uri, 1_000, drafts).finish().await;
    };
    let is_filled = async |queue| {
        eventually(&format!("{queue} is filled"), LIMIT, async || {
            (client.depth(queue).await > 0).then_some(())
        })
        .await;
    };

    let mut leveret = Leveret::start(&uri, YAML).await;
    publish(THROUGH_THE_LEVEL_MS).await;
    wait_for_metric(&leveret, "leveret_level_messages_total", &[("level", "1m")], EACH as f64).await;
    is_filled("leveret.level.1m").await;
    take(&vhost, "leveret.level.1m");

    publish(STRAIGHT_MS).await;
    wait_for_metric(&leveret, "leveret_held_messages", &[], EACH as f64).await;
    leveret.sigterm();
    leveret.expect_exit(0).await;
    is_filled("leveret.due").await;
    take(&vhost, "leveret.due");

    publish(0).await;
    is_filled("leveret.ingress.default").await;
    take(&vhost, "leveret.ingress.default");

    let _leveret = Leveret::start(&uri, YAML).await;
    publish(1_000).await;
    eventually("the rest comes", LIMIT, async || (ledger.arrived_count() == EACH).then_some(())).await;
    ledger.close(Duration::ZERO).await.exactly_once_but_the_first(3 * EACH, how);
}
