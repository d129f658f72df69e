//! What is written of a backlog: three tables.

use std::time::Duration;

use leveret::bench::figure::{bytes, grouped, millis, rate, rounded};

use super::{Figures, LOADS, RATE, SECONDS, SIZE, Start};
use crate::experiment::{DELAY, Extent};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Metric, Samples, both_us, broker_us, p99_ms, sidecar_us};

pub(super) fn of(samples: &Samples, figures: &Figures, extent: &Extent) -> String {
    let pending = grouped(extent.pending);
    format!(
        "{pending} messages of {size} wait, due in 6 to 12 hours; they were published and taken at {filled}. Beside them: {} \
         msg/s of {size} with delays of {DELAY}, published for {} s. Quorum queues.\n\n{}\n{}\n{}",
        grouped(RATE),
        extent.seconds.unwrap_or(SECONDS),
        loads(samples, extent),
        sizes(figures, extent),
        starts(figures),
        size = bytes(SIZE as u64),
        filled = rate(extent.pending as f64 / figures.filled_in.as_secs_f64()),
    )
}

fn loads(samples: &Samples, extent: &Extent) -> String {
    let [none, waiting, started] = LOADS;
    let pending = grouped(extent.pending);
    let head = [
        "what waits",
        "late: p50",
        "÷ none's",
        "p99",
        "÷ none's",
        "CPU a message: broker",
        "Leveret",
        "both",
        "÷ none's",
        REMARKS,
    ];
    let row = |name: String, load: &str| {
        let figure = |metric: Metric, write: fn(f64) -> String| {
            cell(samples.median(extent.pending, load, metric), write)
        };
        let ratio = |metric: Metric| {
            cell(samples.ratio(extent.pending, load, none, metric), |ratio| ratio.to_string())
        };
        let micros = |us| format!("{} µs", rounded(us));
        let p50: Metric = |report| Some(report.lateness_ms?.p50);
        vec![
            name,
            figure(p50, millis),
            ratio(p50),
            figure(p99_ms, millis),
            ratio(p99_ms),
            figure(broker_us, micros),
            figure(sidecar_us, micros),
            figure(both_us, micros),
            ratio(both_us),
            samples.remarks(extent.pending, load),
        ]
    };
    let rows = [
        row("nothing".to_owned(), none),
        row(pending.clone(), waiting),
        row(format!("{pending}, after both were started again"), started),
    ];
    table(&head, &rows)
}

fn sizes(figures: &Figures, extent: &Extent) -> String {
    let Figures { before, after, .. } = figures;
    let row = |name: &str, before: u64, after: u64| {
        let each = (after as f64 - before as f64) / extent.pending as f64;
        vec![name.to_owned(), bytes(before), bytes(after), format!("{} B", rounded(each))]
    };
    let rows = [
        row("memory of the broker", before.broker, after.broker),
        row("of that, the processes of the queues", before.queues, after.queues),
        row("memory of Leveret: now, and the most that it was with them", before.leveret, after.leveret_peak),
        row("the broker's files", before.disk, after.disk),
    ];
    table(&["what they take", "without them", "with them", "for each"], &rows)
}

fn starts(figures: &Figures) -> String {
    let row = |name: &str, Start { ready, delivered }: Start| {
        let figures = [ready, delivered, delivered.saturating_sub(ready)];
        let written = figures.map(|took: Duration| millis(took.as_secs_f64() * 1_000.0));
        [vec![name.to_owned()], written.to_vec()].concat()
    };
    let rows = [
        row("Leveret, after it was killed", figures.leveret),
        row("the broker, after it was stopped", figures.broker),
    ];
    table(&["start", "ready after", "first delivery after", "that is, after it was ready"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backlog::Sizes;
    use crate::fake;
    use crate::measuring::Run;

    #[test]
    fn all_is_compared_to_when_nothing_waits() {
        let extent = Extent { pending: 1_000_000, ..fake::extent(&[], 1) };
        let mut samples = Samples::default();
        let run = Run::example("leveret", RATE);
        for (load, p99) in LOADS.into_iter().zip([10.0, 12.0]) {
            samples.push(extent.pending, load, Ok(fake::report(&run, p99)));
        }
        samples.push(extent.pending, LOADS[2], Err("no broker".into()));
        let start = |ready, delivered| Start {
            ready: Duration::from_millis(ready),
            delivered: Duration::from_millis(delivered),
        };
        let sizes = |broker, disk, leveret_peak| Sizes {
            broker,
            queues: 1 << 20,
            disk,
            leveret: 10 << 20,
            leveret_peak,
        };
        let figures = Figures {
            filled_in: Duration::from_secs(80),
            before: sizes(100 << 20, 50_000_000, 11 << 20),
            after: sizes(300 << 20, 1_250_000_000, 32 << 20),
            leveret: start(120, 100),
            broker: start(20_000, 21_500),
        };
        let text = of(&samples, &figures, &extent);
        for part in [
            "1,000,000 messages of 1 KiB wait, due in 6 to 12 hours; they were published and taken at 12,500 msg/s.",
            "| nothing | 5.00 ms | 1.00 | 10.0 ms | 1.00 | 100 µs | 50.0 µs | 150 µs | 1.00 |  |",
            "| 1,000,000 | 6.00 ms | 1.20 | 12.0 ms | 1.20 | 100 µs | 50.0 µs | 150 µs | 1.00 |  |",
            "again | – | – | – | – | – | – | – | – | 1 of 1 failed: no broker |",
            "| memory of the broker | 100 MiB | 300 MiB | 210 B |",
            "| of that, the processes of the queues | 1 MiB | 1 MiB | 0 B |",
            "with them | 10 MiB | 32 MiB | 23.1 B |",
            "| the broker's files | 47.7 MiB | 1.16 GiB | 1,200 B |",
            "| Leveret, after it was killed | 120 ms | 100 ms | 0 ms |",
            "| the broker, after it was stopped | 20.0 s | 21.5 s | 1,500 ms |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
