//! Which acknowledgements are due: one `multiple` acknowledgement covers all settled deliveries up to the first
//! that is not, since each acknowledgement is a command of its own to a quorum queue.
//!
//! Knows delivery tags of one channel, in the order in which they came.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An acknowledgement to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Delivery tag.
    pub tag: u64,
    /// Whether it covers every earlier delivery as well.
    pub multiple: bool,
}

/// Deliveries that are not yet acknowledged; those that are take no memory.
#[derive(Debug, Default)]
pub struct Settlement {
    /// Sizes of those that are not settled, by tag.
    unsettled: BTreeMap<u64, usize>,
    /// When those that are settled became so, by tag.
    owed: BTreeMap<u64, Instant>,
    bytes: usize,
}

impl Settlement {
    /// A delivery came, of `size` bytes. Tags rise.
    pub fn delivered(&mut self, tag: u64, size: usize) {
        self.bytes += size;
        self.unsettled.insert(tag, size);
    }

    /// All that a delivery carried is safe elsewhere.
    pub fn settled(&mut self, tag: u64, now: Instant) {
        if let Some(size) = self.unsettled.remove(&tag) {
            self.bytes -= size;
            self.owed.insert(tag, now);
        }
    }

    /// A delivery was rejected: the broker counts it no more, and there is nothing to acknowledge.
    pub fn rejected(&mut self, tag: u64) {
        if let Some(size) = self.unsettled.remove(&tag) {
            self.bytes -= size;
        }
    }

    /// Takes the acknowledgements that are due: those in order at once; one that waits behind an unsettled
    /// delivery after `patience`, since that one may still settle and make it part of a `multiple`.
    pub fn take_acks(&mut self, now: Instant, patience: Duration) -> Vec<Ack> {
        let behind = match self.unsettled.first_key_value() {
            Some((first, _)) => self.owed.split_off(first),
            None => BTreeMap::new(),
        };
        let in_order = std::mem::replace(&mut self.owed, behind);
        let mut acks = Vec::new();
        acks.extend(in_order.last_key_value().map(|(tag, _)| Ack { tag: *tag, multiple: true }));
        self.owed.retain(|tag, settled| {
            let waits = now.saturating_duration_since(*settled) < patience;
            if !waits {
                acks.push(Ack { tag: *tag, multiple: false });
            }
            waits
        });
        acks
    }

    /// Whether a settled delivery waits for its acknowledgement.
    #[must_use]
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Deliveries that are not settled.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Bytes of deliveries that are not settled.
    #[must_use]
    pub fn unsettled_bytes(&self) -> usize {
        self.bytes
    }

    /// Deliveries that are not acknowledged: what the broker counts against the prefetch.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.unsettled.len() + self.owed.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn ack(tag: u64, multiple: bool) -> Ack {
        Ack { tag, multiple }
    }

    #[test]
    fn what_is_rejected_is_not_acknowledged_and_holds_up_nothing() {
        let now = Instant::now();
        let mut settlement = Settlement::default();
        (1..=3).for_each(|tag| settlement.delivered(tag, 10));
        [1, 3].into_iter().for_each(|tag| settlement.settled(tag, now));
        assert_eq!(settlement.take_acks(now, PATIENCE), [ack(1, true)]);
        settlement.rejected(2);
        assert_eq!((settlement.unsettled(), settlement.unsettled_bytes()), (0, 0));
        assert_eq!(settlement.take_acks(now, PATIENCE), [ack(3, true)]);
        settlement.delivered(4, 10);
        settlement.rejected(4);
        assert_eq!(settlement.take_acks(now, PATIENCE), []);
        assert!(!settlement.owes() && settlement.unacknowledged() == 0);
    }

    #[test]
    fn in_order_is_one_acknowledgement() {
        let now = Instant::now();
        let mut settlement = Settlement::default();
        (1..=5).for_each(|tag| settlement.delivered(tag, 10));
        [2, 1, 3].into_iter().for_each(|tag| settlement.settled(tag, now));
        assert!(settlement.owes());
        assert_eq!(settlement.take_acks(now, PATIENCE), [ack(3, true)]);
        assert!(!settlement.owes());
        assert_eq!((settlement.unsettled(), settlement.unsettled_bytes()), (2, 20));
    }

    #[test]
    fn out_of_order_waits_for_patience() {
        let now = Instant::now();
        let mut settlement = Settlement::default();
        (1..=3).for_each(|tag| settlement.delivered(tag, 0));
        settlement.settled(3, now);
        assert_eq!(settlement.take_acks(now, PATIENCE), []);
        assert_eq!(settlement.take_acks(now + PATIENCE, PATIENCE), [ack(3, false)]);
        settlement.settled(1, now);
        settlement.settled(2, now);
        assert_eq!(settlement.take_acks(now + PATIENCE, PATIENCE), [ack(2, true)]);
    }

    proptest! {
        /// Whatever waits in front, no more is kept than the broker itself waits for.
        #[test]
        fn nothing_is_kept_behind_an_unsettled_delivery(
            stuck in 1..200u64,
            last in 200..2_000u64,
            sizes in 1..1_000usize,
        ) {
            let now = Instant::now();
            let mut settlement = Settlement::default();
            for tag in 1..=last {
                settlement.delivered(tag, sizes);
                if tag != stuck {
                    settlement.settled(tag, now);
                    settlement.take_acks(now, Duration::ZERO);
                }
                prop_assert!(settlement.unacknowledged() <= 1);
            }
            prop_assert_eq!((settlement.unsettled(), settlement.unsettled_bytes()), (1, sizes));
        }

        /// The broker's side of it: every tag is acknowledged exactly once, and never before it is settled.
        #[test]
        fn every_delivery_is_acknowledged_once(
            order in Just((1..=40u64).collect::<Vec<_>>()).prop_shuffle(),
            pauses in proptest::collection::vec(0..40u64, 40),
        ) {
            let mut now = Instant::now();
            let mut settlement = Settlement::default();
            let mut outstanding: std::collections::BTreeSet<u64> = (1..=40).collect();
            let mut settled = std::collections::BTreeSet::new();
            (1..=40).for_each(|tag| settlement.delivered(tag, 1));
            for (tag, pause) in order.into_iter().zip(pauses) {
                settlement.settled(tag, now);
                settled.insert(tag);
                now += Duration::from_millis(pause);
                for ack in settlement.take_acks(now, PATIENCE) {
                    prop_assert!(outstanding.contains(&ack.tag), "acknowledged twice");
                    let covered: Vec<_> =
                        outstanding.iter().copied().filter(|t| *t == ack.tag || (ack.multiple && *t < ack.tag)).collect();
                    for tag in covered {
                        prop_assert!(settled.contains(&tag), "acknowledged before it was settled");
                        outstanding.remove(&tag);
                    }
                }
            }
            prop_assert!(outstanding.iter().eq(settlement.owed.keys()), "owes what the broker waits for");
            settlement.take_acks(now + PATIENCE, PATIENCE).into_iter().for_each(|ack| {
                outstanding.retain(|t| !(*t == ack.tag || (ack.multiple && *t < ack.tag)));
            });
            prop_assert!(outstanding.is_empty());
            prop_assert_eq!(settlement.unsettled_bytes(), 0);
        }
    }
}
