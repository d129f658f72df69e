//! What the processes that take part use, between two readings.

use std::time::Instant;

use super::report::{Process, Usage};
use crate::telemetry::process::{self, Usage as Reading, Whose};

/// Processes that are watched from some moment on.
#[derive(Debug)]
pub(super) struct Watch {
    // Broker, sidecar, and this process; absent where there is none, or it cannot be read.
    processes: [Option<(Whose, Reading)>; 3],
    delivered: u64,
    since: Instant,
}

impl Watch {
    /// Begins, before anything is delivered.
    pub(super) fn begin(broker: Option<u32>, sidecar: Option<u32>) -> Self {
        let processes = [broker.map(Whose::Of), sidecar.map(Whose::Of), Some(Whose::Own)];
        Self { processes: processes.map(|whose| whose.and_then(read)), delivered: 0, since: Instant::now() }
    }

    /// The same processes from now on, when so many messages have been delivered.
    pub(super) fn anew(&self, delivered: u64) -> Self {
        let processes =
            self.processes.each_ref().map(|process| process.as_ref().and_then(|(whose, _)| read(*whose)));
        Self { processes, delivered, since: Instant::now() }
    }

    /// What they have used since; `delivered` messages have been delivered by now.
    pub(super) fn end(&self, delivered: u64) -> Usage {
        let messages = delivered.saturating_sub(self.delivered);
        let [broker, leveret, bench] = self.processes.each_ref().map(|process| {
            process.as_ref().and_then(|(whose, before)| used(before, &read(*whose)?.1, messages))
        });
        Usage { broker, leveret, bench, messages, seconds: self.since.elapsed().as_secs_f64() }
    }
}

impl Usage {
    /// Its memory, with the costs of a part of the time.
    pub(super) fn with_costs_of(self, part: Self) -> Self {
        let merge = |whole: Option<Process>, part: Option<Process>| {
            let (whole, part) = (whole?, part?);
            Some(Process {
                rss_bytes_before: whole.rss_bytes_before,
                rss_bytes_after: whole.rss_bytes_after,
                rss_bytes_peak: whole.rss_bytes_peak,
                ..part
            })
        };
        Self {
            broker: merge(self.broker, part.broker),
            leveret: merge(self.leveret, part.leveret),
            bench: merge(self.bench, part.bench),
            messages: part.messages,
            seconds: part.seconds,
        }
    }
}

fn read(whose: Whose) -> Option<(Whose, Reading)> {
    let reading = process::usage(whose);
    reading.cpu?;
    Some((whose, reading))
}

fn used(before: &Reading, after: &Reading, messages: u64) -> Option<Process> {
    let cpu_seconds = after.cpu?.saturating_sub(before.cpu?).as_secs_f64();
    Some(Process {
        cpu_seconds,
        cpu_us_per_message: cpu_seconds * 1e6 / messages.max(1) as f64,
        written_bytes: after.written_bytes.zip(before.written_bytes).map(|(after, before)| after - before),
        rss_bytes_before: before.resident_bytes?,
        rss_bytes_after: after.resident_bytes?,
        rss_bytes_peak: after.resident_peak_bytes?,
    })
}
