//! A long queue of messages that are far from due: it weighs on the broker's disk, not on Leveret.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::eventually;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: twenty_thousand_pending_cost_no_memory, a_queue_of_large_messages_is_held_in_parts
];

const LIMIT: Duration = Duration::from_secs(60);

async fn twenty_thousand_pending_cost_no_memory(broker: &Broker) {
    const PENDING: usize = 20_000;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let leveret = Leveret::start(&uri, "").await;
    let before = resident_kib(&leveret);

    let far = Ledger::open();
    let draft = || Draft { body: vec![7; 1_024], ..Draft::to_queue("q", 3_600_000) };
    let load = Load::start(far, &uri, 5_000, std::iter::repeat_with(draft).take(PENDING));
    let near = Ledger::open();
    let _collecting = near.collect(&uri, "q");
    let short = Load::start(near, &uri, 100, random_delays("q", 0..2_000));
    load.finish().await;
    short.stop().await;
    near.close(LIMIT).await.exactly_once("short delays beside 20,000 long ones");
    assert_eq!(far.arrived_count(), 0);

    eventually("all of it is in its levels", LIMIT, async || {
        let metrics = leveret.metrics();
        let busy =
            metrics.sum("leveret_unsettled_deliveries", &[]) + metrics.sum("leveret_held_messages", &[]);
        (busy == 0.0).then_some(())
    })
    .await;
    let after = resident_kib(&leveret);
    println!("resident: {before} KiB before, {after} KiB with {PENDING} messages of 1 KiB pending");
    let metrics = leveret.metrics();
    let bundles = metrics.sum("leveret_bundle_messages_count", &[]);
    println!("{:.0} messages per bundle", metrics.sum("leveret_bundle_messages_sum", &[]) / bundles);
}

/// Messages that wait for Leveret come as fast as the broker can send them.
async fn a_queue_of_large_messages_is_held_in_parts(broker: &Broker) {
    const COUNT: usize = 200;
    const SIZE: usize = 1 << 20;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let mut leveret = Leveret::start(&uri, "").await;
    leveret.sigterm();
    leveret.expect_exit(0).await;
    let ledger = Ledger::open();
    let draft = || Draft { body: vec![7; SIZE], ..Draft::to_queue("q", 500) };
    Load::start(ledger, &uri, 5_000, std::iter::repeat_with(draft).take(COUNT)).finish().await;

    let leveret = Leveret::start(&uri, "hold: {max_bytes: 16MiB}").await;
    let before = kib(&leveret, "VmRSS:");
    let _collecting = ledger.collect(&uri, "q");
    ledger.close(LIMIT).await.exactly_once("large messages");
    let peak = kib(&leveret, "VmHWM:");
    println!("resident: {before} KiB at first, {peak} KiB at most with {COUNT} messages of {SIZE} bytes");
}

/// What a process has in memory.
fn resident_kib(leveret: &Leveret) -> u64 {
    kib(leveret, "VmRSS:")
}

fn kib(leveret: &Leveret, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", leveret.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
