//! The right to acknowledge an incoming delivery, split among all that it carried.
//!
//! A receipt that is dropped without being settled leaves its delivery unacknowledged: the broker delivers it
//! again. So a fault anywhere can double a message, but not lose one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;

/// One share in a delivery.
#[derive(Debug)]
#[must_use = "a receipt that is dropped leaves its delivery unacknowledged"]
pub(super) struct Receipt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tag: u64,
    open: AtomicUsize,
    settled: UnboundedSender<u64>,
}

impl Receipt {
    /// As many receipts as the delivery of that tag carries messages; when all are settled, the tag is sent.
    pub(super) fn split(tag: u64, parts: usize, settled: UnboundedSender<u64>) -> impl Iterator<Item = Self> {
        let shared = Arc::new(Shared { tag, open: AtomicUsize::new(parts), settled });
        (0..parts).map(move |_| Self(Arc::clone(&shared)))
    }

    /// The one receipt of a delivery that carries one message.
    pub(super) fn whole(tag: u64, settled: UnboundedSender<u64>) -> Self {
        Self(Arc::new(Shared { tag, open: AtomicUsize::new(1), settled }))
    }

    /// This share is safe elsewhere.
    pub(super) fn settle(self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nobody listens any more only where the channel is gone, and the delivery comes again anyway.
            let _ = self.0.settled.send(self.0.tag);
        }
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
        assert_eq!(settled.try_recv(), Ok(7));
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
