//! Named moments between taking a delivery and acknowledging it, at which a test can let the process crash. Only debug
//! builds have them.
//!
//! `LEVERET_TEST_CRASH=confirmed.target:3` aborts when a batch for a target has been confirmed for the third time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where to crash, and after how many passes.
struct Crash {
    moment: String,
    of: String,
    left: AtomicUsize,
}

/// Passes a moment in the life of something.
pub(crate) fn pass(moment: &str, of: &str) {
    static CRASH: OnceLock<Option<Crash>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return;
    }
    if let Some(crash) = CRASH.get_or_init(asked_for)
        && crash.moment == moment
        && crash.of == of
        && crash.left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        // As a kill would: nothing is unwound, flushed or told.
        std::process::abort();
    }
}

fn asked_for() -> Option<Crash> {
    #[allow(clippy::disallowed_methods, reason = "a test's order, not configuration")]
    let order = std::env::var("LEVERET_TEST_CRASH").ok()?;
    read(&order)
}

/// Reads `moment.of:passes`.
fn read(order: &str) -> Option<Crash> {
    let (point, passes) = order.split_once(':')?;
    let (moment, of) = point.split_once('.')?;
    Some(Crash { moment: moment.to_owned(), of: of.to_owned(), left: AtomicUsize::new(passes.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_moment_and_counts_its_passes() {
        let crash = read("confirmed.target:3").unwrap();
        assert_eq!((crash.moment.as_str(), crash.of.as_str()), ("confirmed", "target"));
        assert_eq!(crash.left.into_inner(), 3);
        for nonsense in ["", "confirmed", "confirmed.target", "confirmed:3", "confirmed.target:x"] {
            assert!(read(nonsense).is_none(), "{nonsense}");
        }
    }
}
