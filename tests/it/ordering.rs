//! `ordering: single`: messages with equal delay keep their order, as long as no hop is late by more than what is left
//! to wait in memory.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::ledger::{Draft, Ledger, Load, declare_target};
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![shared: equal_delays_keep_their_order_in_memory, equal_delays_keep_their_order_through_a_level,
        equal_delays_keep_their_order_among_workers];

const LIMIT: Duration = Duration::from_secs(60);

async fn equal_delays_keep_their_order_in_memory(broker: &Broker) {
    keep_their_order(broker, "{ ordering: single, ladder: [1m] }", 500, 2_000).await;
}

async fn equal_delays_keep_their_order_through_a_level(broker: &Broker) {
    keep_their_order(broker, "{ ordering: single, ladder: [1s] }", 2_000, 500).await;
}

/// The queue that takes messages in and the one that they come back by may be consumed by different workers.
async fn equal_delays_keep_their_order_among_workers(broker: &Broker) {
    keep_their_order(broker, "{ ordering: single, workers: 3, ladder: [1s] }", 2_000, 500).await;
}

async fn keep_their_order(broker: &Broker, yaml: &str, delay_ms: i64, per_second: u32) {
    const COUNT: usize = 1_500;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let replicas = [Leveret::start(&uri, yaml).await, Leveret::start(&uri, yaml).await];
    let ledger = Ledger::open();
    let _collecting = ledger.collect(&uri, "q");
    let drafts = std::iter::repeat_with(move || Draft::to_queue("q", delay_ms)).take(COUNT);
    Load::start(ledger, &uri, per_second, drafts).finish().await;
    ledger.close(LIMIT).await.exactly_once("equal delays");

    let order = ledger.order();
    assert_eq!(order.len(), COUNT);
    let swapped: Vec<_> = order.windows(2).filter(|pair| pair[0] > pair[1]).take(5).collect();
    assert!(swapped.is_empty(), "out of order: {swapped:?}");
    let accepted = replicas.map(|one| one.metrics().sum("leveret_messages_accepted_total", &[]));
    assert!(accepted.contains(&0.0), "both replicas consumed: {accepted:?}");
}
