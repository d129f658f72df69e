//! Connections that are cut, closed, stalled, half-open and slow under load: nothing is lost, nothing comes early.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::proxy::{Proxy, Way};
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: both_connections_are_cut_over_and_over, an_operator_closes_one_connection_and_the_other,
        a_stalled_network_is_noticed_by_heartbeat, a_network_that_loses_what_the_broker_sends,
        a_network_that_loses_what_is_sent_to_the_broker, a_slow_network_delays_and_no_more
];

const LIMIT: Duration = Duration::from_secs(60);
const PER_SECOND: u32 = 300;

async fn both_connections_are_cut_over_and_over(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let proxy = Proxy::start(broker.address()).await;
    let mut leveret = Leveret::start(&vhost.uri_through(proxy.port()), "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, PER_SECOND, random_delays("q", 0..2_000));
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(100..700))).await;
        proxy.refuse();
        proxy.cut();
        eventually("the loss is noticed", LIMIT, async || (!leveret.is_ready()).then_some(())).await;
        proxy.resume();
        leveret.wait_until_ready().await;
    }
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("connections cut four times");
}

async fn an_operator_closes_one_connection_and_the_other(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, PER_SECOND, random_delays("q", 0..2_000));
    for purpose in ["publish", "consume"] {
        let before = leveret.metrics().sum("leveret_reconnects_total", &[]);
        let name = format!("leveret ({purpose})");
        // The broker lists a connection a while after it has opened, and a while after it is gone: what is closed may
        // be an earlier one of that name.
        eventually(&format!("the loss of {name} is noticed"), LIMIT, async || {
            if leveret.metrics().sum("leveret_reconnects_total", &[]) > before {
                return Some(());
            }
            vhost.close_connections_named(&name);
            None
        })
        .await;
        leveret.wait_until_ready().await;
    }
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("connections closed by an operator");
}

async fn a_stalled_network_is_noticed_by_heartbeat(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let proxy = Proxy::start(broker.address()).await;
    let yaml = "amqp: { heartbeat: 1s, connect_timeout: 1s }";
    let mut leveret = Leveret::start(&vhost.uri_through(proxy.port()), yaml).await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, PER_SECOND, random_delays("q", 0..2_000));
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.stall();
    eventually("the stall is noticed", LIMIT, async || (!leveret.is_ready()).then_some(())).await;
    // What was in the network may still come out at the broker, then the connections end.
    proxy.resume();
    proxy.cut();
    leveret.wait_until_ready().await;
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a stalled network");
}

async fn a_network_that_loses_what_the_broker_sends(broker: &Broker) {
    a_network_that_loses(broker, Way::FromBroker).await;
}

async fn a_network_that_loses_what_is_sent_to_the_broker(broker: &Broker) {
    a_network_that_loses(broker, Way::ToBroker).await;
}

/// The side that hears nothing gives the connection up; where that is the broker, Leveret hears of it.
async fn a_network_that_loses(broker: &Broker, way: Way) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let proxy = Proxy::start(broker.address()).await;
    let yaml = "amqp: { heartbeat: 1s, connect_timeout: 1s }";
    let mut leveret = Leveret::start(&vhost.uri_through(proxy.port()), yaml).await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, PER_SECOND, random_delays("q", 0..2_000));
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.lose(way);
    eventually("the loss is noticed", LIMIT, async || (!leveret.is_ready()).then_some(())).await;
    proxy.resume();
    leveret.wait_until_ready().await;
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early(&format!("what goes {way:?} is lost"));
}

/// Much less passes than is published, so that more and more waits; but something always does, so nobody gives up.
async fn a_slow_network_delays_and_no_more(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let proxy = Proxy::start(broker.address()).await;
    let leveret = Leveret::start(&vhost.uri_through(proxy.port()), "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    proxy.narrow(10_000);
    let load = Load::start(ledger, &uri, PER_SECOND, random_delays("q", 0..2_000));
    tokio::time::sleep(Duration::from_secs(4)).await;
    load.stop().await;
    let (published, arrived) = (ledger.published_count(), ledger.arrived_count());
    assert!(
        arrived < published / 2,
        "{arrived} of {published} came through a network that is too narrow for them"
    );
    proxy.resume();
    ledger.close(LIMIT).await.exactly_once("a slow network");
    assert_eq!(leveret.metrics().sum("leveret_reconnects_total", &[]), 0.0);
}
