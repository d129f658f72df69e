//! What waits weighs on the broker's disk, not on Leveret's memory: many messages that are far from due, or large ones.

use std::time::Duration;

use lapin::types::AMQPValue;

use crate::harness::broker::Broker;
use crate::harness::client::{Client, now_ms, table};
use crate::harness::eventually;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target, random_delays};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: twenty_thousand_pending_cost_no_memory, large_messages_are_held_in_parts,
        large_messages_for_a_single_consumer_are_held_in_parts
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

async fn large_messages_are_held_in_parts(broker: &Broker) {
    large_messages(broker, "hold: { max_bytes: 32MiB }", 400).await;
}

/// How many a single consumer takes is decided before their size is known. So it is told; and it may take four times what
/// is given.
async fn large_messages_for_a_single_consumer_are_held_in_parts(broker: &Broker) {
    let yaml = "ordering: single\nbundle: { max_bytes: 1MiB }\nhold: { max_bytes: 8MiB }";
    large_messages(broker, yaml, 200).await;
}

const TWO_BRIDGES: &str = "
ladder: [10s]
bridges:
  - { name: one, entry: { exchange: one }, target: { exchange: '' } }
  - { name: two, entry: { exchange: two }, target: { exchange: '' } }
";

/// Many times what may be held waits on two bridges when Leveret comes, and then falls due at one moment, for a queue
/// that is soon full.
async fn large_messages(broker: &Broker, yaml: &str, count: usize) {
    const SIZE: usize = 1 << 20;
    const WAIT_MS: i64 = 25_000;
    // Three times 32 MiB that may be held, since a message may be in memory as it came, in its bundle, and in frames on
    // their way out; and more than an unoptimised Leveret takes by itself.
    const MOST_KIB: u64 = (3 * 32 + 64) << 10;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let soon_full = table([
        ("x-queue-type", AMQPValue::LongString("quorum".into())),
        ("x-max-length", AMQPValue::LongInt(20)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ]);
    Client::connect(&uri).await.declare_queue("q", soon_full).await;
    let yaml = format!("{TWO_BRIDGES}{yaml}");
    let mut leveret = Leveret::start(&uri, &yaml).await;
    leveret.sigterm();
    leveret.expect_exit(0).await;

    let ledger = Ledger::open();
    let due = now_ms() + WAIT_MS;
    let drafts = (0..count).map(move |number| Draft {
        exchange: ["one", "two"][number % 2].to_owned(),
        body: vec![7; SIZE],
        ..Draft::to_queue("q", due - now_ms())
    });
    Load::start(ledger, &uri, 5_000, drafts).finish().await;

    let leveret = Leveret::start(&uri, &yaml).await;
    let before = kib(&leveret, "VmRSS:");
    let _collecting = ledger.collect_slowly(&uri, "q", Duration::from_millis(5));
    ledger.close(LIMIT).await.exactly_once("large messages due together");
    let peak = kib(&leveret, "VmHWM:");
    println!("resident: {before} KiB at first, {peak} KiB at most with {count} messages of {SIZE} bytes");
    assert!(peak <= MOST_KIB, "{peak} KiB are more than {MOST_KIB} KiB");
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
