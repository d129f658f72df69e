//! Targets that do not confirm, for long: queues that hang. What is for them waits for its confirm, each message once, and
//! what is for others keeps coming meanwhile.

use std::time::Duration;

use lapin::ExchangeKind;
use lapin::types::FieldTable;

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, publish_numbered, take_numbered};
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: ;
    own_node: more_of_a_bridge_than_may_be_under_way_hang_and_the_rest_of_it_passes
];

/// What no queue confirms is waited for longer than a wait of this test.
const CONFIG: &str = "
bridges:
  - name: one
    entry: { exchange: one.delayed }
    target: { exchange: target }
delivery: { confirm_timeout: 10m }
";

/// Several, since the broker stops a channel that has sent some hundred messages to one queue that hangs.
const HANGING: u32 = 5;
/// More in all than a bridge may have under way.
const OF_EACH: u32 = 250;
const DELAY_MS: i32 = 500;

async fn more_of_a_bridge_than_may_be_under_way_hang_and_the_rest_of_it_passes(broker: &Broker) {
    let node = broker.dedicated();
    let vhost = node.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), CONFIG).await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("target", ExchangeKind::Topic).await;
    let hanging: Vec<_> = (0..HANGING).map(|number| format!("hanging-{number}")).collect();
    for queue in hanging.iter().map(String::as_str).chain(["well"]) {
        client.declare_queue(queue, FieldTable::default()).await;
        client.bind(queue, "target", &format!("{queue}.#"), FieldTable::default()).await;
    }
    let mut inbox = client.consume("well").await;
    // The exchange is known to be good from now on, so that many share a batch.
    publish_numbered(&client, "one.delayed", DELAY_MS, 0..1, |_| "well".to_owned()).await;
    take_numbered(&mut inbox, 0..1).await;

    hanging.iter().for_each(|queue| node.suspend_queue(vhost.name(), queue));
    // Each with a key of its own, and so a target of its own: none is known to hang before it has been tried.
    for (queue, number) in hanging.iter().zip(0..) {
        let of_it = number * OF_EACH..(number + 1) * OF_EACH;
        publish_numbered(&client, "one.delayed", DELAY_MS, of_it, |key| format!("{queue}.{key}")).await;
    }
    tokio::time::sleep(Duration::from_millis(DELAY_MS.unsigned_abs().into())).await;
    publish_numbered(&client, "one.delayed", DELAY_MS, 0..100, |_| "well".to_owned()).await;
    take_numbered(&mut inbox, 0..100).await;

    hanging.iter().for_each(|queue| node.resume_queue(vhost.name(), queue));
    for (queue, number) in hanging.iter().zip(0..) {
        let mut inbox = client.consume(queue).await;
        take_numbered(&mut inbox, number * OF_EACH..(number + 1) * OF_EACH).await;
    }
    eventually("nothing is left", LIMIT, async || {
        let left =
            vhost.depths().into_iter().any(|(queue, depth)| depth > 0 && queue.starts_with("leveret."));
        (!left).then_some(())
    })
    .await;
    assert!(inbox.drain().is_empty());
}
