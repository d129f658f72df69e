//! Tells how far a run is, on standard error: on one line that changes in a terminal, rarely elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::run::Shared;

/// Tells for ever how far it is.
pub(super) async fn tell(shared: &Shared, what: &str, messages: u64) {
    let terminal = stderr().is_terminal();
    let every = Duration::from_secs(if terminal { 1 } else { 10 });
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut published_before, mut delivered_before) = (0, 0);
    loop {
        ticks.tick().await;
        let (published, delivered) = {
            let tally = shared.tally();
            (tally.count_published(), tally.count_delivered())
        };
        let rate = |now: u64, before: u64| now.saturating_sub(before) / every.as_secs();
        let line = format!(
            "{what}: published {published} of {messages} ({} a second), delivered {delivered} ({} a second)",
            rate(published, published_before),
            rate(delivered, delivered_before),
        );
        (published_before, delivered_before) = (published, delivered);
        let (start, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // Where standard error is closed, there is nobody to tell.
        let _ = write!(stderr(), "{start}{line}{end}");
    }
}

/// Leaves the line that changes.
pub(super) fn done() {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}
