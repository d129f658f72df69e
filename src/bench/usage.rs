//! What the processes that take part use, between two readings.

use super::report::Process;
use crate::telemetry::process::{self, Usage, Whose};

/// A process that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    whose: Whose,
    before: Usage,
}

impl Watched {
    /// Begins to watch; `None` where there is no such process, or it cannot be read.
    pub(super) fn begin(whose: Whose) -> Option<Self> {
        let before = process::usage(whose);
        before.cpu?;
        Some(Self { whose, before })
    }

    /// What it has used since, for so many messages.
    pub(super) fn end(&self, messages: u64) -> Option<Process> {
        let after = process::usage(self.whose);
        let cpu_seconds = after.cpu?.saturating_sub(self.before.cpu?).as_secs_f64();
        Some(Process {
            cpu_seconds,
            cpu_us_per_message: cpu_seconds * 1e6 / messages.max(1) as f64,
            written_bytes: after
                .written_bytes
                .zip(self.before.written_bytes)
                .map(|(after, before)| after - before),
            rss_bytes_before: self.before.resident_bytes?,
            rss_bytes_after: after.resident_bytes?,
            rss_bytes_peak: after.resident_peak_bytes?,
        })
    }
}
