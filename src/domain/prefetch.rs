//! How many deliveries the broker may have on their way: few until their size is known, since all of a prefetch
//! comes before the first of it can be weighed; then as many as are used and fit in memory.

/// The most before anything is known about the messages.
const START: u16 = 8;

/// What each message is taken to weigh until the first have been weighed: few are larger.
const UNWEIGHED: usize = 4 << 20;

/// A consumer keeps the prefetch that it began with: this one is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What to consume with.
    pub prefetch: u16,
    /// Consume again once no more bytes than this are unsettled.
    pub resume_at: usize,
}

/// Deliveries that are not done with.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Deliveries that are not acknowledged: when they reach the prefetch, the broker sends no more.
    pub unacknowledged: usize,
    /// Deliveries that are not settled.
    pub unsettled: usize,
    /// Bytes of those.
    pub bytes: usize,
}

/// Regulates the prefetch of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefetch {
    current: u16,
    most: u16,
    max_bytes: usize,
}

impl Prefetch {
    /// A consumer never gets more than `most`; keeps the unsettled deliveries near `max_bytes` bytes or below.
    #[must_use]
    pub fn new(most: u16, max_bytes: usize) -> Self {
        Self { current: fitting(max_bytes, UNWEIGHED, most.min(START)), most, max_bytes }
    }

    /// Always as many as fit when each takes `size` bytes, whatever they weigh.
    #[must_use]
    pub fn fixed(most: u16, max_bytes: usize, size: usize) -> Self {
        let prefetch = fitting(max_bytes, size, most);
        Self { current: prefetch, most: prefetch, max_bytes: usize::MAX }
    }

    /// What to consume with now.
    #[must_use]
    pub fn current(&self) -> u16 {
        self.current
    }

    /// The most that it can become.
    #[must_use]
    pub fn most(&self) -> u16 {
        self.most
    }

    /// The change that the load asks for, if it does: twice as many when all are used and their like fits; a pause
    /// until half of the memory is free when there is too much, and then as many as fill that half. A new consumer's
    /// prefetch comes on top of what earlier ones left unsettled, so both leave room for that; and the two do not
    /// alternate while messages stay alike.
    pub fn regulate(&mut self, load: Load) -> Option<Change> {
        let average = load.bytes / load.unsettled.max(1);
        let resume_at = if load.bytes > self.max_bytes {
            let half = self.max_bytes / 2;
            self.current = fitting(half, average, self.most);
            half
        } else {
            let doubled = self.current.saturating_mul(2).min(self.most);
            let saturated = load.unacknowledged >= usize::from(self.current);
            let fits = average.saturating_mul(usize::from(doubled)) <= self.max_bytes - load.bytes;
            if doubled == self.current || !saturated || !fits {
                return None;
            }
            self.current = doubled;
            self.max_bytes
        };
        Some(Change { prefetch: self.current, resume_at })
    }
}

/// How many messages of `size` bytes fit: at least one, since the largest has to pass as well, and `most` at most.
fn fitting(max_bytes: usize, size: usize, most: u16) -> u16 {
    u16::try_from(max_bytes / size.max(1)).unwrap_or(u16::MAX).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    fn saturated(by: u16, size: usize) -> Load {
        let count = usize::from(by);
        Load { unacknowledged: count, unsettled: count, bytes: count * size }
    }

    /// Feeds messages of one size to a broker's limit until nothing changes any more; returns the prefetches.
    fn settle_down(prefetch: &mut Prefetch, size: usize) -> Vec<u16> {
        std::iter::from_fn(|| prefetch.regulate(saturated(prefetch.current(), size)))
            .map(|change| change.prefetch)
            .take(20)
            .collect()
    }

    #[test]
    fn small_messages_reach_the_maximum_in_few_steps() {
        let mut prefetch = Prefetch::new(1_000, 64 * MIB);
        assert_eq!(prefetch.current(), 8);
        assert_eq!(settle_down(&mut prefetch, 1_000), [16, 32, 64, 128, 256, 512, 1_000]);
    }

    #[test]
    fn little_memory_begins_with_few() {
        assert_eq!(Prefetch::new(1_000, 8 * MIB).current(), 2);
        assert_eq!(Prefetch::new(1_000, MIB).current(), 1);
    }

    #[test]
    fn what_is_fixed_never_changes() {
        assert_eq!(Prefetch::fixed(1_000, MIB, 2 * MIB).current(), 1);
        assert_eq!(Prefetch::fixed(1_000, 8 * MIB, 1).current(), 1_000);
        let mut prefetch = Prefetch::fixed(1_000, 8 * MIB, MIB / 64);
        assert_eq!(prefetch.current(), 512);
        assert_eq!(settle_down(&mut prefetch, 1), Vec::<u16>::new());
        assert_eq!(settle_down(&mut prefetch, 100 * MIB), Vec::<u16>::new());
    }

    #[test]
    fn a_small_maximum_is_kept() {
        assert_eq!(Prefetch::new(1, 64 * MIB).current(), 1);
        assert_eq!(settle_down(&mut Prefetch::new(8, 64 * MIB), 1), Vec::<u16>::new());
        assert_eq!(settle_down(&mut Prefetch::new(10, 64 * MIB), 1), [10]);
    }

    #[test]
    fn what_does_not_fit_twice_does_not_grow() {
        assert_eq!(settle_down(&mut Prefetch::new(1_000, 32 * MIB), 4 * MIB), Vec::<u16>::new());
        assert_eq!(settle_down(&mut Prefetch::new(1_000, 32 * MIB), MIB), [16]);
    }

    #[test]
    fn an_unused_prefetch_does_not_grow() {
        assert_eq!(Prefetch::new(1_000, 64 * MIB).regulate(saturated(7, 1)), None);
    }

    #[test]
    fn acknowledgements_under_way_count_as_used() {
        let load = Load { unacknowledged: 8, unsettled: 0, bytes: 0 };
        let change = Prefetch::new(1_000, 32 * MIB).regulate(load);
        assert_eq!(change, Some(Change { prefetch: 16, resume_at: 32 * MIB }));
    }

    #[test]
    fn too_much_pauses_then_fits_then_grows_again() {
        let mut prefetch = Prefetch::new(1_000, 64 * MIB);
        settle_down(&mut prefetch, 1_000);
        let change = prefetch.regulate(saturated(1_000, MIB));
        assert_eq!(change, Some(Change { prefetch: 32, resume_at: 32 * MIB }));
        assert_eq!(settle_down(&mut prefetch, 1_000), [64, 128, 256, 512, 1_000]);
    }

    #[test]
    fn one_message_above_the_budget_still_passes() {
        let change = Prefetch::new(1_000, MIB).regulate(saturated(1, 5 * MIB));
        assert_eq!(change, Some(Change { prefetch: 1, resume_at: MIB / 2 }));
    }

    proptest! {
        /// Whatever comes, the prefetch lets something pass, and not more than configured; and a window of messages
        /// like those measured fits, unless it is a single one or the first.
        #[test]
        fn stays_in_bounds(
            most in 1..2_000u16,
            max_bytes in 1..1_000_000usize,
            loads in proptest::collection::vec((0..3_000usize, 0..3_000usize, 0..10_000usize), 1..50),
        ) {
            let mut prefetch = Prefetch::new(most, max_bytes);
            for (unsettled, owed, size) in loads {
                let load = Load { unacknowledged: unsettled + owed, unsettled, bytes: unsettled * size };
                let change = prefetch.regulate(load);
                prop_assert!((1..=most).contains(&prefetch.current()));
                if let Some(change) = change {
                    prop_assert_eq!(change.prefetch, prefetch.current());
                    prop_assert!(change.resume_at <= max_bytes);
                    let window = usize::from(change.prefetch) * if unsettled == 0 { 0 } else { size };
                    prop_assert!(window <= max_bytes || change.prefetch == 1, "{window}");
                }
            }
        }

        /// Messages that are alike end the changes, so that consuming is not interrupted for ever.
        #[test]
        fn comes_to_rest(most in 1..u16::MAX, max_bytes in 65_536..(1usize << 31), size in 0..65_536usize) {
            let mut prefetch = Prefetch::new(most, max_bytes);
            prop_assert!(settle_down(&mut prefetch, size).len() <= 17);
        }
    }
}
