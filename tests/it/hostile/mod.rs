//! Publishers that mean harm, or do it by mistake: nothing crashes, loops, blocks a neighbour or grows without bound. What
//! becomes of each attempt is in docs/bad-input.md.

mod crowds;
mod forged;
mod headers;
mod poison;
mod sizes;

use std::time::Duration;

use bytes::Bytes;
use leveret::domain::bundle::{self, CONTENT_TYPE};
use leveret::domain::message::Message;
use leveret::domain::time::UnixMillis;
use ulid::Ulid;

use crate::harness::client::now_ms;
use crate::harness::leveret::Leveret;
use crate::harness::raw::RawClient;
use crate::harness::runner::Case;
use crate::harness::table::{RawProperties, property};

pub(crate) const CASES: &[&[Case]] =
    &[crowds::CASES, forged::CASES, headers::CASES, poison::CASES, sizes::CASES];

/// A message of the default bridge as Leveret itself would carry it, due now.
fn carried(key: &str, body: &[u8]) -> Message {
    let now = UnixMillis(u64::try_from(now_ms()).unwrap());
    Message {
        id: Ulid::new(),
        bridge: "default".into(),
        exchange: "delay".into(),
        routing_key: key.into(),
        due: now,
        left: Duration::ZERO,
        accepted_at: now,
        hops: 1,
        refused_since: None,
        key: "".into(),
        properties: Bytes::from_static(&[0, 0]),
        body: Bytes::copy_from_slice(body),
    }
}

/// Properties as they stand in a bundle: the flags, then those that are present.
fn wire(properties: &RawProperties) -> Bytes {
    [properties.flags.to_be_bytes().as_slice(), &properties.bytes].concat().into()
}

/// Publishes a bundle as an application can that may write to Leveret's own exchanges.
async fn forge(raw: &mut RawClient, exchange: &str, key: &str, messages: &[Message]) {
    let envelope = RawProperties::default().with_text(property::CONTENT_TYPE, CONTENT_TYPE);
    raw.publish(exchange, key, &envelope, &bundle::encode(messages)).await;
}

/// How many series the metrics have, without those of Leveret's own queues, which are added when they are first known.
fn series(leveret: &Leveret) -> usize {
    leveret.metrics().0.iter().filter(|sample| !sample.name.starts_with("leveret_queue_")).count()
}

/// The most that the sidecar ever had in memory.
fn peak_mib(leveret: &Leveret) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", leveret.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}
