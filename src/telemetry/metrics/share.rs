//! Gauges that several workers share: each tells its own part, and the gauge shows what the parts come to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::Gauge;

/// One part of a gauge that shows the sum of all; a part that is dropped counts no more.
pub struct Share {
    gauge: Gauge,
    value: AtomicUsize,
}

impl Share {
    pub(super) fn of(gauge: &Gauge) -> Self {
        Self { gauge: gauge.clone(), value: AtomicUsize::new(0) }
    }

    /// This part is so much now.
    pub fn set(&self, value: usize) {
        let before = self.value.swap(value, Ordering::Relaxed);
        self.gauge.increment(value as f64 - before as f64);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A gauge that is 1 while something holds of enough workers, else 0.
pub(super) struct Quorum {
    gauge: Gauge,
    enough: usize,
    holding: Mutex<usize>,
}

/// Whether it holds of one worker. Clones speak for the same one.
#[derive(Clone)]
pub(super) struct Vote {
    quorum: Arc<Quorum>,
    holds: Arc<Mutex<bool>>,
}

impl Quorum {
    pub(super) fn new(gauge: Gauge, enough: usize) -> Arc<Self> {
        gauge.set(0.0);
        Arc::new(Self { gauge, enough, holding: Mutex::new(0) })
    }

    /// For one more worker, of which it does not hold yet.
    pub(super) fn vote(self: &Arc<Self>) -> Vote {
        Vote { quorum: self.clone(), holds: Arc::default() }
    }
}

impl Vote {
    pub(super) fn set(&self, holds: bool) {
        let mut held = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *held, holds) == holds {
            return;
        }
        // Kept until the gauge is set: of two workers the later must not be overtaken.
        let mut holding = self.quorum.holding.lock().unwrap_or_else(PoisonError::into_inner);
        if holds {
            *holding += 1;
        } else {
            *holding -= 1;
        }
        self.quorum.gauge.set(if *holding >= self.quorum.enough { 1.0 } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A gauge, and how to read it.
    fn gauge() -> (Gauge, impl Fn() -> f64) {
        let value = Arc::new(AtomicU64::new(0));
        (Gauge::from_arc(value.clone()), move || f64::from_bits(value.load(Ordering::Relaxed)))
    }

    #[test]
    fn the_gauge_is_the_sum_of_all_shares_that_there_are() {
        let (gauge, value) = gauge();
        let (one, two) = (Share::of(&gauge), Share::of(&gauge));
        one.set(5);
        two.set(7);
        one.set(3);
        assert_eq!(value(), 10.0);
        drop(two);
        assert_eq!(value(), 3.0);
        one.set(0);
        assert_eq!(value(), 0.0);
    }

    #[test]
    fn up_while_all_are_and_blocked_while_one_is() {
        for (enough, expected) in [(1, [1.0, 1.0, 1.0, 0.0]), (2, [0.0, 1.0, 0.0, 0.0])] {
            let (gauge, value) = gauge();
            let quorum = Quorum::new(gauge, enough);
            let (one, two) = (quorum.vote(), quorum.vote());
            let steps = [(&one, true), (&two.clone(), true), (&one, false), (&two, false)];
            let shown = steps.map(|(vote, holds)| {
                vote.set(holds);
                vote.set(holds);
                value()
            });
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn workers_that_speak_at_the_same_time_add_up() {
        let ((sum, sum_value), (all, all_value)) = (gauge(), gauge());
        let quorum = Quorum::new(all, 4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (share, vote) = (Share::of(&sum), quorum.vote());
                    (0..10_000).for_each(|n| {
                        share.set(n);
                        vote.set(n % 2 == 1);
                    });
                    std::mem::forget(share);
                });
            }
        });
        assert_eq!((sum_value(), all_value()), (4.0 * 9_999.0, 1.0));
    }
}
