//! SIGTERM: nothing lost, nothing early, nothing twice; and an exit status that tells the truth.

use std::time::{Duration, Instant};

use crate::harness::broker::{Alarm, Broker};
use crate::harness::eventually;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::proxy::Proxy;
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![
    shared: stopping_under_load_doubles_nothing, stopping_while_messages_are_held, stopping_while_the_broker_is_away,
        stopping_while_the_broker_does_not_answer;
    own_node: a_stop_that_cannot_finish_in_time, a_second_signal_exits_at_once,
        several_workers_that_cannot_finish_in_time
];

const LIMIT: Duration = Duration::from_secs(60);

/// Shorter than the grace period and the connect timeout, and much longer than a stop that waits for nothing.
const PROMPT: Duration = Duration::from_secs(8);

async fn stop(mut leveret: Leveret) -> String {
    leveret.sigterm();
    assert_eq!(leveret.wait().await.code(), Some(0), "{}", leveret.log());
    leveret.log()
}

/// Stops one that has a broker to settle with.
async fn stop_settled(leveret: Leveret) {
    let log = stop(leveret).await;
    assert!(log.contains("everything is settled"), "{log}");
}

async fn stopping_under_load_doubles_nothing(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, "").await;
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 500, random_delays("q", 0..3_000));
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1_200))).await;
        stop_settled(leveret).await;
        leveret = Leveret::start(&uri, "").await;
    }
    load.stop().await;
    ledger.close(LIMIT).await.exactly_once("stopped four times under load");
}

/// Held, packed and in their levels, with a ladder so coarse that the holds are long and a linger that is too.
async fn stopping_while_messages_are_held(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let yaml = "ladder: [10s, 1m]";
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let leveret = Leveret::start(&uri, yaml).await;
    let drafts = random_delays("q", 1_000..14_000).take(500);
    let load = Load::start(ledger, &uri, 500, drafts);
    eventually("some are held", LIMIT, async || {
        (leveret.metrics().sum("leveret_held_messages", &[]) > 50.0).then_some(())
    })
    .await;
    stop_settled(leveret).await;
    let again = Leveret::start(&uri, yaml).await;
    load.finish().await;
    eventually("some are held again", LIMIT, async || {
        (again.metrics().sum("leveret_held_messages", &[]) > 50.0).then_some(())
    })
    .await;
    stop_settled(again).await;
    let _last = Leveret::start(&uri, yaml).await;
    ledger.close(LIMIT).await.exactly_once("stopped while messages were held");
}

async fn stopping_while_the_broker_is_away(broker: &Broker) {
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    let leveret = Leveret::start(&vhost.uri_through(proxy.port()), "").await;
    proxy.refuse();
    proxy.cut();
    eventually("the loss is noticed", LIMIT, async || (!leveret.is_ready()).then_some(())).await;
    stop(leveret).await;

    let never_connected = Setup::new(&vhost.uri_through(proxy.port())).spawn();
    eventually("it is up", LIMIT, async || never_connected.get("/livez")).await;
    stop(never_connected).await;
}

async fn stopping_while_the_broker_does_not_answer(broker: &Broker) {
    let vhost = broker.create_vhost();
    let proxy = Proxy::start(broker.address()).await;
    proxy.stall();
    let yaml = "{ amqp: { connect_timeout: 30s }, shutdown: { grace: 30s } }";
    let leveret = Setup::new(&vhost.uri_through(proxy.port())).config(yaml).spawn();
    eventually("it is up", LIMIT, async || leveret.get("/livez")).await;
    let asked = Instant::now();
    stop(leveret).await;
    assert!(asked.elapsed() < PROMPT, "waited {:?} for a broker that does not answer", asked.elapsed());
}

/// Messages that can be neither sent on nor given back, since the broker takes no publishes.
struct Stuck {
    node: Broker,
    vhost: Vhost,
    ledger: &'static Ledger,
    leveret: Leveret,
}

async fn stuck(broker: &Broker, yaml: &str) -> Stuck {
    const COUNT: usize = 100;
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    stop(Leveret::start(&uri, yaml).await).await;
    let ledger = Ledger::open();
    let drafts = std::iter::repeat_with(|| Draft::to_queue("q", 500)).take(COUNT);
    Load::start(ledger, &uri, 1_000, drafts).finish().await;
    node.set_alarm(Alarm::Memory, true).await;
    let leveret = Leveret::start(&uri, yaml).await;
    eventually("it has taken all and the broker has blocked it", LIMIT, async || {
        let sum = |name| leveret.metrics().sum(name, &[]);
        let taken = sum("leveret_unsettled_deliveries") == COUNT as f64;
        (taken && sum("leveret_connection_blocked") > 0.0).then_some(())
    })
    .await;
    Stuck { node, vhost, ledger, leveret }
}

async fn a_stop_that_cannot_finish_in_time(broker: &Broker) {
    cannot_finish(broker, "shutdown: { grace: 2s }").await;
}

async fn several_workers_that_cannot_finish_in_time(broker: &Broker) {
    cannot_finish(broker, "{ workers: 4, shutdown: { grace: 2s } }").await;
}

async fn cannot_finish(broker: &Broker, yaml: &str) {
    let Stuck { node, vhost, ledger, mut leveret } = stuck(broker, yaml).await;
    leveret.sigterm();
    assert_eq!(leveret.wait().await.code(), Some(75), "{}", leveret.log());
    node.set_alarm(Alarm::Memory, false).await;
    let _collecting = ledger.collect(&vhost.uri(), "q");
    let _again = Leveret::start(&vhost.uri(), yaml).await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a stop that could not finish");
}

async fn a_second_signal_exits_at_once(broker: &Broker) {
    let Stuck { node, vhost, ledger, mut leveret } = stuck(broker, "shutdown: { grace: 50s }").await;
    leveret.sigterm();
    eventually("it is stopping", LIMIT, async || (!leveret.is_ready()).then_some(())).await;
    let asked = Instant::now();
    leveret.sigterm();
    assert_eq!(leveret.wait().await.code(), Some(1), "{}", leveret.log());
    assert!(asked.elapsed() < PROMPT, "took {:?}", asked.elapsed());
    node.set_alarm(Alarm::Memory, false).await;
    let _collecting = ledger.collect(&vhost.uri(), "q");
    let _again = Leveret::start(&vhost.uri(), "").await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a second signal");
}
