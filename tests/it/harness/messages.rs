//! Delayed messages as an application makes them, and what is to be read from those that come.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::AMQPValue;

use super::client::{Client, Inbox, Received, table};
use super::eventually;
use super::leveret::Leveret;

/// Long enough for everything that is not stuck, also on a slow machine that is busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Properties of a message that is to wait so many milliseconds.
pub(crate) fn delayed(delay_ms: i32) -> BasicProperties {
    BasicProperties::default().with_headers(table([("x-delay", AMQPValue::LongInt(delay_ms))]))
}

/// A header where it is text.
pub(crate) fn text_header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a str> {
    match header(delivery, name)? {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

/// A header where it is an integer of the width that Leveret writes.
pub(crate) fn number_header(delivery: &Delivery, name: &str) -> Option<i64> {
    match header(delivery, name)? {
        AMQPValue::LongLongInt(number) => Some(*number),
        AMQPValue::LongInt(number) => Some((*number).into()),
        _ => None,
    }
}

fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a AMQPValue> {
    delivery.properties.headers().as_ref()?.inner().get(name)
}

/// Publishes a message for each number, with that number as its body, and the key that `key` gives it.
pub(crate) async fn publish_numbered(
    client: &Client,
    exchange: &str,
    delay_ms: i32,
    numbers: std::ops::Range<u32>,
    key: impl Fn(u32) -> String,
) {
    // All at once: on a busy machine each confirm may take longer than the delay.
    let publishing = numbers.map(async |number| {
        client.publish(exchange, &key(number), delayed(delay_ms), number.to_string().as_bytes()).await;
    });
    join_all(publishing).await;
}

/// The numbers that came as bodies; panics where one came twice.
pub(crate) fn numbers(received: &[Received]) -> BTreeSet<u32> {
    let all: Vec<u32> = received
        .iter()
        .map(|one| std::str::from_utf8(&one.delivery.data).unwrap().parse().unwrap())
        .collect();
    let set: BTreeSet<u32> = all.iter().copied().collect();
    assert_eq!(set.len(), all.len(), "some came twice: {all:?}");
    set
}

/// Takes exactly these numbered messages from an inbox: each once.
pub(crate) async fn take_numbered(inbox: &mut Inbox, expected: std::ops::Range<u32>) -> Vec<Received> {
    let received = inbox.take(expected.len(), LIMIT).await;
    assert_eq!(numbers(&received), expected.collect());
    received
}

/// Takes exactly these numbered messages from the parked queue: each once, and for this reason.
pub(crate) async fn take_parked(
    inbox: &mut Inbox,
    reason: &str,
    expected: std::ops::Range<u32>,
) -> Vec<Received> {
    let received = take_numbered(inbox, expected).await;
    for one in &received {
        assert_eq!(text_header(&one.delivery, "x-leveret-reason"), Some(reason), "{:?}", one.delivery);
    }
    received
}

/// Waits until a metric has reached a value.
pub(crate) async fn wait_for_metric(leveret: &Leveret, name: &str, labels: &[(&str, &str)], at_least: f64) {
    eventually(&format!("{name} is at least {at_least}"), LIMIT, async || {
        (leveret.metrics().sum(name, labels) >= at_least).then_some(())
    })
    .await;
}
