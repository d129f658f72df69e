//! Which acknowledgements are due: one `multiple` acknowledgement covers all settled deliveries up to the first
//! that is not, since each acknowledgement is a command of its own to a quorum queue.
//!
//! Knows delivery tags of one channel, in the order in which they came.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// An acknowledgement to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Delivery tag.
    pub tag: u64,
    /// Whether it covers every earlier delivery as well.
    pub multiple: bool,
}

#[derive(Debug)]
struct Entry {
    tag: u64,
    size: usize,
    settled: Option<Instant>,
    acked: bool,
}

/// Deliveries that are not yet acknowledged.
#[derive(Debug, Default)]
pub struct Settlement {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Settlement {
    /// A delivery came, of `size` bytes. Tags rise.
    pub fn delivered(&mut self, tag: u64, size: usize) {
        self.bytes += size;
        self.entries.push_back(Entry { tag, size, settled: None, acked: false });
    }

    /// All that a delivery carried is safe elsewhere.
    pub fn settled(&mut self, tag: u64, now: Instant) {
        let Ok(index) = self.entries.binary_search_by_key(&tag, |entry| entry.tag) else { return };
        if let Some(entry) = self.entries.get_mut(index)
            && entry.settled.is_none()
        {
            entry.settled = Some(now);
            self.bytes -= entry.size;
        }
    }

    /// Takes the acknowledgements that are due: those in order at once; one that waits behind an unsettled
    /// delivery after `patience`, since that one may still settle and make it part of a `multiple`.
    pub fn take_acks(&mut self, now: Instant, patience: Duration) -> Vec<Ack> {
        let mut acks = Vec::new();
        let mut last = None;
        while let Some(entry) = self.entries.front()
            && entry.settled.is_some()
        {
            // A tag already acknowledged alone must not end a `multiple`: the broker would not know it.
            if !entry.acked {
                last = Some(entry.tag);
            }
            self.entries.pop_front();
        }
        acks.extend(last.map(|tag| Ack { tag, multiple: true }));
        for entry in &mut self.entries {
            let waited = entry.settled.is_some_and(|at| now.saturating_duration_since(at) >= patience);
            if waited && !entry.acked {
                entry.acked = true;
                acks.push(Ack { tag: entry.tag, multiple: false });
            }
        }
        acks
    }

    /// Whether a settled delivery waits for its acknowledgement.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.entries.iter().any(|entry| entry.settled.is_some() && !entry.acked)
    }

    /// Deliveries that are not settled.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.entries.iter().filter(|entry| entry.settled.is_none()).count()
    }

    /// Bytes of deliveries that are not settled.
    #[must_use]
    pub fn unsettled_bytes(&self) -> usize {
        self.bytes
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
            prop_assert!(outstanding.iter().all(|tag| settlement.entries.iter().any(|e| e.tag == *tag)));
            settlement.take_acks(now + PATIENCE, PATIENCE).into_iter().for_each(|ack| {
                outstanding.retain(|t| !(*t == ack.tag || (ack.multiple && *t < ack.tag)));
            });
            prop_assert!(outstanding.is_empty());
            prop_assert_eq!(settlement.unsettled_bytes(), 0);
        }
    }
}
