//! A crash at each step between taking a message and acknowledging it: nothing is lost, nothing comes early.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::ledger::{Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::publish_numbered;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![shared: a_crash_at_each_step_loses_nothing];

/// See `src/crash_point.rs`.
const POINTS: [&str; 13] = [
    "received.ingress",
    "received.due",
    "publishing.bundles",
    "publishing.target",
    "publishing.parked",
    "published.any",
    "confirmed.bundles",
    "confirmed.target",
    "confirmed.parked",
    "acknowledging.ingress",
    "acknowledging.due",
    "acknowledged.ingress",
    "acknowledged.due",
];

const SIGABRT: i32 = 6;
const LIMIT: Duration = Duration::from_secs(60);
/// Messages to be parked at each point.
const UNROUTABLE: u32 = 10;

async fn a_crash_at_each_step_loses_nothing(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut declaring = Leveret::start(&uri, "").await;
    declaring.sigterm();
    declaring.expect_exit(0).await;

    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let load = Load::start(ledger, &uri, 200, random_delays("q", 0..2_000));
    let client = Client::connect(&uri).await;
    let mut owed = 0..0;
    for point in POINTS {
        let next = owed.end..owed.end + UNROUTABLE;
        owed.end = next.end;
        publish_numbered(&client, "delay", 300, next, |_| "nowhere".to_owned()).await;
        // Not always at the first pass, which finds Leveret empty. What is parked is parked together.
        let passes = if point.ends_with("parked") { 1 } else { fastrand::u32(1..4) };
        let order = format!("{point}:{passes}");
        let mut unlucky = Setup::new(&uri).env("LEVERET_TEST_CRASH", &order).spawn();
        let status = unlucky.wait().await;
        assert_eq!(status.signal(), Some(SIGABRT), "{order}: {status}");
    }
    let _steady = Leveret::start(&uri, "").await;
    load.stop().await;
    ledger.close(LIMIT).await.nothing_lost_or_early("a crash at each step");

    let mut inbox = client.consume("leveret.parked").await;
    let mut parked = BTreeSet::new();
    eventually("all that no queue takes is parked", LIMIT, async || {
        let bodies = inbox.drain().into_iter().map(|one| one.delivery.data);
        parked.extend(bodies.map(|body| String::from_utf8(body).unwrap().parse::<u32>().unwrap()));
        (parked == owed.clone().collect()).then_some(())
    })
    .await;
}
