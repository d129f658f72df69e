//! A bridge whose target is well, beside one that is in trouble: its messages must keep coming meanwhile.

use std::time::Duration;

use lapin::ExchangeKind;
use lapin::types::FieldTable;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Inbox, now_ms};
use super::messages::{LIMIT, delayed};

/// Its entry in the list of bridges.
pub(crate) const BRIDGE: &str = "  - name: good
    entry: { exchange: good.delayed }
    target: { exchange: good.target }
";

const ENTRY: &str = "good.delayed";
const TARGET: &str = "good.target";
const QUEUE: &str = "good";
const PAUSE: Duration = Duration::from_millis(15);

/// Publishes to the good bridge until it is asked how that went.
pub(crate) struct Neighbour {
    publishing: JoinHandle<u32>,
    stop: CancellationToken,
    inbox: Inbox,
    client: Client,
}

impl Neighbour {
    /// Declares the target and begins.
    pub(crate) async fn start(uri: &str) -> Self {
        let client = Client::connect(uri).await;
        client.declare_exchange(TARGET, ExchangeKind::Topic).await;
        client.declare_queue(QUEUE, FieldTable::default()).await;
        client.bind(QUEUE, TARGET, "#", FieldTable::default()).await;
        let inbox = client.consume(QUEUE).await;
        let publisher = Client::connect(uri).await;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let publishing = tokio::spawn(async move {
            let mut count = 0;
            while !stopped.is_cancelled() {
                let delay_ms = fastrand::i32(0..600);
                // Number and due time at the earliest.
                let body = format!("{count} {}", now_ms() + i64::from(delay_ms));
                publisher.publish(ENTRY, "any", delayed(delay_ms), body.as_bytes()).await;
                count += 1;
                tokio::time::sleep(PAUSE).await;
            }
            count
        });
        Self { publishing, stop, inbox, client }
    }

    /// Ends it: every message came once, and none was early. Prints how late they were.
    pub(crate) async fn finish(mut self, meanwhile: &str) {
        self.stop.cancel();
        let count = self.publishing.await.unwrap();
        assert!(count > 0, "nothing was published meanwhile");
        let received = self.inbox.take(usize::try_from(count).unwrap(), LIMIT).await;
        let mut seen = vec![false; received.len()];
        let mut lateness = Vec::with_capacity(received.len());
        for one in &received {
            let body = std::str::from_utf8(&one.delivery.data).unwrap();
            let (number, due_ms) = body.split_once(' ').unwrap();
            let (number, due_ms): (usize, i64) = (number.parse().unwrap(), due_ms.parse().unwrap());
            assert!(!std::mem::replace(&mut seen[number], true), "neighbour {number} came twice");
            assert!(one.at_ms >= due_ms, "neighbour {number} came {} ms early", due_ms - one.at_ms);
            lateness.push(one.at_ms - due_ms);
        }
        assert_eq!(self.client.depth(QUEUE).await, 0);
        lateness.sort_unstable();
        let at = |percent: usize| lateness[(lateness.len() - 1) * percent / 100];
        println!(
            "{meanwhile}: {count} messages of the neighbour, late by {} ms (p50), {} (p90), {} (p99), {} (most)",
            at(50),
            at(90),
            at(99),
            at(100)
        );
    }
}
