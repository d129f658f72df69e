//! The hold: the last stretch of a wait, in memory, ordered by the moment at which it ends.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

/// Items that wait, each until its own moment.
#[derive(Debug)]
pub struct Hold<T> {
    heap: BinaryHeap<Reverse<Held<T>>>,
    // Keeps first come, first served among equal moments.
    sequence: u64,
}

#[derive(Debug)]
struct Held<T> {
    until: Instant,
    sequence: u64,
    // Boxed, since the heap moves what it holds about.
    item: Box<T>,
}

impl<T> Default for Hold<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<T> Hold<T> {
    /// Keeps `item` until that moment.
    pub fn push(&mut self, until: Instant, item: T) {
        self.sequence += 1;
        self.heap.push(Reverse(Held { until, sequence: self.sequence, item: Box::new(item) }));
    }

    /// The next item whose moment has come.
    pub fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(held)| *held.item)
    }

    /// When the next item's moment comes.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(held)| held.until)
    }

    /// Takes every item out, due or not, in order, each with its moment.
    pub fn drain(&mut self) -> impl Iterator<Item = (Instant, T)> + use<'_, T> {
        std::iter::from_fn(|| self.heap.pop().map(|Reverse(held)| (held.until, *held.item)))
    }

    /// Items held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.until, self.sequence).cmp(&(other.until, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_leave_in_order_and_never_early(waits in vec(0..50u64, 0..100)) {
            let start = Instant::now();
            let mut hold = Hold::default();
            for (index, wait) in waits.iter().enumerate() {
                hold.push(start + Duration::from_millis(*wait), (*wait, index));
            }
            let mut left = Vec::new();
            for now in 0..=50 {
                while let Some(item) = hold.pop_due(start + Duration::from_millis(now)) {
                    prop_assert!(item.0 <= now);
                    left.push(item);
                }
                prop_assert!(hold.next_due().is_none_or(|due| due > start + Duration::from_millis(now)));
            }
            let mut sorted: Vec<_> = waits.iter().copied().zip(0..).collect();
            sorted.sort_unstable();
            prop_assert_eq!(left, sorted);
            prop_assert!(hold.is_empty());
        }
    }
}
