//! What happens to a bridge's messages, and to the bundles that enter a level.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::share::Share;
use super::{catalogue, counter, gauge, histogram};
use crate::domain::park::Reason;

/// The metrics of one bridge. Cheap to clone: clones count into the same series.
#[derive(Clone)]
pub struct BridgeMetrics {
    name: String,
    accepted: Counter,
    delay: Histogram,
    delivered: Counter,
    lateness: Histogram,
    hops: Histogram,
    dropped: Counter,
    retried: Counter,
    parked: Vec<(Reason, Counter)>,
    unsettled: Gauge,
}

impl BridgeMetrics {
    pub(super) fn register(name: &str) -> Self {
        let bridge = &[("bridge", name)];
        let parked = |reason: Reason| {
            (reason, counter(&catalogue::PARKED, &[("bridge", name), ("reason", reason.as_str())]))
        };
        Self {
            name: name.to_owned(),
            accepted: counter(&catalogue::ACCEPTED, bridge),
            delay: histogram(&catalogue::DELAY, bridge),
            delivered: counter(&catalogue::DELIVERED, bridge),
            lateness: histogram(&catalogue::LATENESS, bridge),
            hops: histogram(&catalogue::HOPS, bridge),
            dropped: counter(&catalogue::DROPPED, bridge),
            retried: counter(&catalogue::RETRIED, bridge),
            parked: Reason::ALL.into_iter().map(parked).collect(),
            unsettled: gauge(&catalogue::UNSETTLED, &[("source", &format!("ingress.{name}"))]),
        }
    }

    /// A message was taken from ingress; `delay` is what it asked for.
    pub fn accepted(&self, delay: Duration) {
        self.accepted.increment(1);
        self.delay.record(delay);
    }

    /// The target confirmed a message that was published `lateness` after it was due, behind so many hops.
    pub fn delivered(&self, lateness: Duration, hops: u32) {
        self.delivered.increment(1);
        self.lateness.record(lateness);
        self.hops.record(hops);
    }

    /// A message that no queue was bound for went nowhere, as this bridge is configured.
    pub fn dropped(&self, id: &str) {
        self.dropped.increment(1);
        tracing::debug!(bridge = self.name, id, "dropped a message that no queue of its target is bound for");
    }

    /// The target refused a delivery for now.
    pub fn retried(&self, id: &str) {
        self.retried.increment(1);
        tracing::debug!(
            bridge = self.name,
            id,
            "the target refused a message for now; it will be tried again"
        );
    }

    /// A message was parked. `detail` says what was wrong in words, and never holds a body.
    pub fn parked(&self, reason: Reason, detail: &str) {
        if let Some((_, counter)) = self.parked.iter().find(|(known, _)| *known == reason) {
            counter.increment(1);
        }
        tracing::warn!(bridge = self.name, reason = reason.as_str(), detail, "parked a message");
    }

    /// One consumer's share in the deliveries from the bridge's ingress queue that are unacknowledged.
    #[must_use]
    pub fn unsettled(&self) -> Share {
        Share::of(&self.unsettled)
    }
}

/// The metrics of one level, or of the due queue where a bundle goes straight there. Cheap to clone.
#[derive(Clone)]
pub struct LevelMetrics {
    messages: Counter,
    bundles: Counter,
    bytes: Counter,
    bundle_messages: Histogram,
    bundle_bytes: Histogram,
}

impl LevelMetrics {
    /// The metrics of the level of this label, as the ladder spells its TTL (`1m4s`); see also [`Self::due`].
    #[must_use]
    pub fn register(level: &str) -> Self {
        let labels = &[("level", level)];
        Self {
            messages: counter(&catalogue::LEVEL_MESSAGES, labels),
            bundles: counter(&catalogue::LEVEL_BUNDLES, labels),
            bytes: counter(&catalogue::LEVEL_BYTES, labels),
            bundle_messages: histogram(&catalogue::BUNDLE_MESSAGES, &[]),
            bundle_bytes: histogram(&catalogue::BUNDLE_BYTES, &[]),
        }
    }

    /// The metrics of bundles that go straight to the due queue.
    #[must_use]
    pub fn due() -> Self {
        Self::register("due")
    }

    /// The broker confirmed a bundle of so many messages and bytes.
    pub fn entered(&self, messages: usize, bytes: usize) {
        self.bundles.increment(1);
        // A count in memory always fits; `try_from` has no other case on any platform.
        self.messages.increment(u64::try_from(messages).unwrap_or(u64::MAX));
        self.bytes.increment(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.bundle_messages.record(messages as f64);
        self.bundle_bytes.record(bytes as f64);
    }
}
