//! The right to acknowledge an incoming delivery, split among all that it carried; or to reject it, where some of that
//! can be put nowhere.
//!
//! A receipt that is dropped without being settled leaves its delivery unacknowledged: the broker delivers it
//! again. So a fault anywhere can double a message, but not lose one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;

/// What is to be told the broker of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    /// Its delivery tag.
    pub(super) tag: u64,
    /// Whether the broker itself is to move it to the parked queue.
    pub(super) rejected: bool,
}

/// One share in a delivery.
#[derive(Debug)]
#[must_use = "a receipt that is dropped leaves its delivery unacknowledged"]
pub(super) struct Receipt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tag: u64,
    open: AtomicUsize,
    rejected: AtomicBool,
    settled: UnboundedSender<Settled>,
}

impl Receipt {
    /// As many receipts as the delivery of that tag carries messages; when all are settled, the tag is sent.
    pub(super) fn split(
        tag: u64,
        parts: usize,
        settled: UnboundedSender<Settled>,
    ) -> impl Iterator<Item = Self> {
        let (open, rejected) = (AtomicUsize::new(parts), AtomicBool::new(false));
        let shared = Arc::new(Shared { tag, open, rejected, settled });
        (0..parts).map(move |_| Self(Arc::clone(&shared)))
    }

    /// The one receipt of a delivery that carries one message.
    pub(super) fn whole(tag: u64, settled: UnboundedSender<Settled>) -> Self {
        let (open, rejected) = (AtomicUsize::new(1), AtomicBool::new(false));
        Self(Arc::new(Shared { tag, open, rejected, settled }))
    }

    /// This share is safe elsewhere.
    pub(super) fn settle(self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let settled = Settled { tag: self.0.tag, rejected: self.0.rejected.load(Ordering::Acquire) };
            // Nobody listens any more only where the channel is gone, and the delivery comes again anyway.
            let _ = self.0.settled.send(settled);
        }
    }

    /// This share can be put nowhere: when the others are settled, the whole delivery is rejected.
    pub(super) fn reject(self) {
        self.0.rejected.store(true, Ordering::Release);
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_delivery_is_settled_when_all_of_it_is() {
        let (send, mut settled) = mpsc::unbounded_channel();
        let mut receipts: Vec<_> = Receipt::split(7, 3, send).collect();
        receipts.pop().unwrap().settle();
        receipts.pop().unwrap().settle();
        assert!(settled.try_recv().is_err());
        receipts.pop().unwrap().settle();
        assert_eq!(settled.try_recv(), Ok(Settled { tag: 7, rejected: false }));
    }

    #[test]
    fn a_delivery_of_which_a_part_is_rejected_is_rejected_when_the_rest_is_settled() {
        let (send, mut settled) = mpsc::unbounded_channel();
        let mut receipts: Vec<_> = Receipt::split(7, 2, send).collect();
        receipts.pop().unwrap().reject();
        assert!(settled.try_recv().is_err());
        receipts.pop().unwrap().settle();
        assert_eq!(settled.try_recv(), Ok(Settled { tag: 7, rejected: true }));
    }

    #[test]
    fn a_dropped_share_keeps_the_delivery_unsettled() {
        let (send, mut settled) = mpsc::unbounded_channel();
        let mut receipts: Vec<_> = Receipt::split(7, 2, send).collect();
        drop(receipts.pop());
        receipts.pop().unwrap().settle();
        assert!(settled.try_recv().is_err());
    }
}
