//! Several workers in one process: together they do what one does, and what befalls one is not the others' concern.

use std::time::Duration;

use lapin::ExchangeKind;
use lapin::types::FieldTable;
use serde_json::json;

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, delayed, publish_numbered, take_numbered, wait_for_metric};
use crate::harness::proxy::Proxy;
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: four_workers_deliver_everything, one_that_is_away_disturbs_no_other, stopping_all_doubles_nothing,
        what_is_held_is_the_sum_of_all, one_watches_for_all_and_the_next_takes_over, a_conflict_that_one_finds_ends_all,
        what_cannot_be_read_is_parked_by_one_for_all
];

const FOUR: &str = "workers: 4";

/// The exit code for a configuration that contradicts the broker.
const CONFLICT: i32 = 78;

async fn four_workers_deliver_everything(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let leveret = Leveret::start(&uri, FOUR).await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    Load::start(ledger, &uri, 1_000, random_delays("q", 0..3_000).take(5_000)).finish().await;
    ledger.close(LIMIT).await.exactly_once("four workers");

    let metrics = eventually("everything is settled", LIMIT, async || {
        let metrics = leveret.metrics();
        (metrics.sum("leveret_unsettled_deliveries", &[]) == 0.0).then_some(metrics)
    })
    .await;
    let published = ledger.published_count() as f64;
    for (name, expected) in [
        ("leveret_messages_accepted_total", published),
        ("leveret_messages_delivered_total", published),
        ("leveret_held_messages", 0.0),
        ("leveret_held_bytes", 0.0),
        ("leveret_connection_up", 2.0),
        ("leveret_connection_blocked", 0.0),
        ("leveret_reconnects_total", 0.0),
    ] {
        assert_eq!(metrics.sum(name, &[]), expected, "{name}");
    }
    eventually("the broker lists eight connections by name", LIMIT, async || {
        let mut names = vhost.client_names();
        names.retain(|name| name.starts_with("leveret"));
        let expected = ["consume", "publish"]
            .iter()
            .flat_map(|role| (1..=4).map(move |number| format!("leveret ({role} {number})")));
        (names == expected.collect::<Vec<_>>()).then_some(())
    })
    .await;
    eventually("each of them consumes", LIMIT, async || {
        let consumers = |queue| vhost.queue_stats(queue).map(|stats| stats.consumers);
        let found = ["leveret.due", "leveret.ingress.default"].map(consumers);
        (found == [Some(4), Some(4)]).then_some(())
    })
    .await;
}

/// Takes the connection of that name away from a sidecar behind a proxy, for good.
async fn take_away(vhost: &Vhost, proxy: &Proxy, leveret: &Leveret, name: &str, missing: &str) {
    proxy.refuse();
    eventually(&format!("{name} is missed"), LIMIT, async || {
        let (status, reasons) = leveret.get("/readyz")?;
        if status == 503 && reasons.contains(missing) {
            return Some(());
        }
        vhost.close_connections_named(name);
        None
    })
    .await;
}

async fn one_that_is_away_disturbs_no_other(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let proxy = Proxy::start(broker.address()).await;
    let mut leveret = Leveret::start(&vhost.uri_through(proxy.port()), FOUR).await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 300, random_delays("q", 0..2_000));
    for name in ["leveret (publish 2)", "leveret (consume 3)"] {
        take_away(&vhost, &proxy, &leveret, name, "not connected to the broker (1 of 4 workers)").await;
        assert_eq!(leveret.metrics().sum("leveret_connection_up", &[]), 0.0, "up without {name}");
        // As many as there are by now: the broker gives the others what the one had taken.
        let published = ledger.published_count();
        eventually("the others deliver", LIMIT, async || (ledger.arrived_count() > published).then_some(()))
            .await;
        assert!(!leveret.is_ready(), "{name} is back");
        proxy.resume();
        leveret.wait_until_ready().await;
        assert_eq!(leveret.metrics().sum("leveret_connection_up", &[]), 2.0);
    }
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("one worker of four away");
}

async fn stopping_all_doubles_nothing(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, FOUR).await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 500, random_delays("q", 0..3_000));
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1_200))).await;
        leveret.sigterm();
        let log = leveret.expect_exit(0).await;
        assert_eq!(log.matches("everything is settled").count(), 4, "{log}");
        leveret = Leveret::start(&uri, FOUR).await;
    }
    load.stop().await;
    ledger.close(LIMIT).await.exactly_once("four workers stopped three times under load");
}

async fn what_is_held_is_the_sum_of_all(broker: &Broker) {
    const COUNT: usize = 400;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let proxy = Proxy::start(broker.address()).await;
    // Long enough in memory for all that follows; in bundles so small that each worker has some.
    let yaml = "{ workers: 4, ladder: [1m], bundle: { max_messages: 5 } }";
    let leveret = Leveret::start(&vhost.uri_through(proxy.port()), yaml).await;
    let drafts = std::iter::repeat_with(|| Draft::to_queue("q", 55_000)).take(COUNT);
    Load::start(Ledger::open(), &uri, 1_000, drafts).finish().await;
    let bytes_when_all_are_held = async || {
        eventually("all are held, each once", LIMIT, async || {
            let metrics = leveret.metrics();
            let unsettled = |source| metrics.sum("leveret_unsettled_deliveries", &[("source", source)]);
            let bundles = metrics.sum("leveret_level_bundles_total", &[("level", "due")]);
            (metrics.sum("leveret_held_messages", &[]) == COUNT as f64
                && unsettled("due") == bundles
                && unsettled("ingress.default") == 0.0)
                .then_some(())
        })
        .await;
        leveret.metrics().sum("leveret_held_bytes", &[])
    };
    let before = bytes_when_all_are_held().await;
    assert!(before > COUNT as f64);
    // What one had goes to the others, and it has no share in the sum any more.
    let missing = "not connected to the broker (1 of 4 workers)";
    take_away(&vhost, &proxy, &leveret, "leveret (consume 1)", missing).await;
    assert_eq!(bytes_when_all_are_held().await, before);
}

async fn one_watches_for_all_and_the_next_takes_over(broker: &Broker) {
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    let url = broker.management().url();
    let yaml =
        format!("workers: 4\nladder: [1s]\nmanagement: {{ url: \"{}\", interval: 1s }}\n", without_user(url));
    let leveret = Leveret::start(&vhost.uri_through(proxy.port()), &yaml).await;
    assert_eq!(leveret.log().matches("no policy interferes").count(), 1, "{}", leveret.log());
    for number in 1..=3 {
        let missing = format!("not connected to the broker ({number} of 4 workers)");
        take_away(&vhost, &proxy, &leveret, &format!("leveret (consume {number})"), &missing).await;
    }
    let pattern = "^leveret\\.due$";
    vhost.set_policy("careless", pattern, "queues", &json!({ "message-ttl": 3_600_000 }));
    wait_for_metric(&leveret, "leveret_policy_conflicts", &[], 1.0).await;
}

fn without_user(url: &str) -> String {
    format!("http://{}", url.rsplit_once('@').map_or(url, |(_, host)| host))
}

async fn a_conflict_that_one_finds_ends_all(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let client = Client::connect(&uri).await;
    client.declare_queue("leveret.due", FieldTable::default()).await;
    let log = Setup::new(&uri).config(FOUR).spawn().expect_exit(CONFLICT).await;
    assert!(log.contains("leveret.due") && log.contains("PRECONDITION_FAILED"), "{log}");
    vhost.delete_queue("leveret.due");

    // One that has to declare again, while the others work.
    let mut leveret = Leveret::start(&uri, FOUR).await;
    client.declare_queue("q", FieldTable::default()).await;
    publish_numbered(&client, "delay", 500, 0..20, |_| "q".to_owned()).await;
    take_numbered(&mut client.consume("q").await, 0..20).await;
    vhost.delete_exchange("delay");
    client.declare_exchange("delay", ExchangeKind::Direct).await;
    eventually("it does no work any more", LIMIT, async || {
        vhost.close_connections_named("leveret (consume 3)");
        leveret.log().contains("a worker cannot run").then_some(())
    })
    .await;
    let log = leveret.expect_exit(CONFLICT).await;
    assert_eq!(log.matches("everything is settled").count(), 3, "{log}");
}

/// It comes to one worker after another, and ends their sessions.
async fn what_cannot_be_read_is_parked_by_one_for_all(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let mut leveret = Leveret::start(&uri, FOUR).await;
    let client = Client::connect(&uri).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut inbox = client.consume("q").await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let properties = RawProperties::of_headers(&[Field::int("x-delay", 100)]);
    for number in 1..=3 {
        raw.publish_bytes("delay", b"not UTF-8: \xff", &properties, b"unreadable").await.unwrap();
        wait_for_metric(&leveret, "leveret_messages_parked_total", &[], f64::from(number)).await;
        leveret.wait_until_ready().await;
        client.publish("delay", "q", delayed(100), b"readable").await;
        assert_eq!(inbox.next(LIMIT).await.delivery.data, b"readable");
    }
    assert_eq!(leveret.metrics().sum("leveret_messages_parked_total", &[]), 3.0);
    let log = leveret.log();
    assert!(!log.contains("cannot park what cannot be read"), "{log}");
}
