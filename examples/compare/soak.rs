//! The same load for a long time: whether lateness, memory, file descriptors and disk stay what they are.

mod parts;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use leveret::bench::figure::{bytes, grouped, millis, rate, rounded};
use leveret::bench::report::Report;

use self::parts::{Part, share};
use crate::experiment::{DELAY, Extent, Findings, LONGEST};
use crate::measuring::{Bench, Run, SIZE};
use crate::node::Node;
use crate::page::{cell, table};
use crate::samples::{Outcome, Samples};
use crate::sidecar::Sidecar;
use crate::watching::{Sample, watch};

/// Rows of the table.
const PARTS: usize = 10;
/// How often memory, files and disk are looked at.
const LOOK: Duration = Duration::from_secs(5);

pub(crate) fn run(extent: &Extent, bench: &Bench, node: &Node) -> Result<Findings> {
    let sidecar = Sidecar::start(bench, "soak-leveret", "")?;
    let processes = (bench.broker_pid, sidecar.pid());
    let (outcome, samples) = thread::scope(|scope| {
        let (running, until) = mpsc::channel();
        let watching = scope.spawn(move || watch(node, processes, LOOK, &until));
        let outcome = load(extent, bench, &sidecar);
        drop(running);
        (outcome, watching.join().unwrap_or_default())
    });
    let report = outcome.map_err(anyhow::Error::msg)?;
    Ok(Findings {
        text: text(&report, &samples),
        broker: Some(report.broker.clone()),
        plots: vec![("soak".to_owned(), vec![report])],
    })
}

fn load(extent: &Extent, bench: &Bench, sidecar: &Sidecar) -> Outcome {
    let seconds = extent.soak_minutes * 60;
    bench.measure(&Run {
        messages: extent.soak_rate * seconds,
        rate: extent.soak_rate,
        lasts: Duration::from_secs(seconds) + LONGEST,
        leveret_pid: Some(sidecar.pid()),
        ..Run::new("soak".to_owned(), "leveret")
    })
}

fn text(report: &Report, samples: &[Sample]) -> String {
    let head = [
        "part",
        "late: p50",
        "p99",
        "the latest",
        "memory: broker",
        "Leveret",
        "open files: broker",
        "Leveret",
        "the broker's files on disk",
    ];
    let part = |index| Part::of(report, samples, share(index, PARTS));
    let mut rows: Vec<_> = (0..PARTS).map(|index| row(&(index + 1).to_string(), &part(index))).collect();
    let [second, last] = [1, 3].map(|quarter| Part::of(report, samples, share(quarter, 4)));
    rows.push(ratios("last quarter ÷ second", &last, &second));
    format!(
        "{delivered} messages of {SIZE} B with delays of {DELAY}, published at {}; quorum queues. {remarks}. In {PARTS} equal \
         parts of the time: medians of the p50 and the p99 of each second, and the greatest of all else.\n\n{}",
        rate(report.publish_rate),
        table(&head, &rows),
        delivered = grouped(report.delivered),
        remarks = remarks(report),
    )
}

/// What should not be, or that it is not.
fn remarks(report: &Report) -> String {
    let mut samples = Samples::default();
    samples.push(0, "leveret", Ok(report.clone()));
    let remarks = samples.remarks(0, "leveret");
    if remarks.is_empty() { "None was lost, early or doubled".to_owned() } else { remarks }
}

fn row(name: &str, part: &Part) -> Vec<String> {
    let late = [part.p50_ms, part.p99_ms, part.latest_ms].map(|ms| cell(ms, millis));
    let Sample { broker_bytes, broker_files, leveret_bytes, leveret_files, disk_bytes } = part.greatest;
    let held = [
        cell(broker_bytes, bytes),
        cell(leveret_bytes, bytes),
        cell(broker_files, grouped),
        cell(leveret_files, grouped),
        cell(disk_bytes, bytes),
    ];
    [vec![name.to_owned()], late.to_vec(), held.to_vec()].concat()
}

fn ratios(name: &str, part: &Part, reference: &Part) -> Vec<String> {
    let figures = |part: &Part| {
        let late = [part.p50_ms, part.p99_ms, part.latest_ms];
        let Sample { broker_bytes, broker_files, leveret_bytes, leveret_files, disk_bytes } = part.greatest;
        let held = [broker_bytes, leveret_bytes, broker_files, leveret_files, disk_bytes];
        late.into_iter().chain(held.map(|held| held.map(|held| held as f64))).collect::<Vec<_>>()
    };
    let ratios = figures(part).into_iter().zip(figures(reference)).map(|(figure, reference)| {
        let ratio = figure.zip(reference.filter(|reference| *reference > 0.0));
        cell(ratio, |(figure, reference)| rounded(figure / reference))
    });
    std::iter::once(name.to_owned()).chain(ratios).collect()
}

#[cfg(test)]
mod tests {
    use leveret::bench::report::Second;

    use super::*;
    use crate::fake;

    #[test]
    fn ten_parts_and_the_quarters_are_told() {
        let late = |second: u32| {
            let p50_ms = if second < 15 { 2.0 } else { 3.0 };
            Second { second, delivered: 10, p50_ms, p99_ms: 8.0, max_ms: f64::from(second) }
        };
        let report = fake::report(&Run::example("leveret", 500), 8.0);
        let report = Report { timeline: (0..20).map(late).collect(), ..report };
        let samples: Vec<_> = (0..20)
            .map(|index| Sample {
                broker_bytes: Some((100 + index) << 20),
                leveret_bytes: Some(20 << 20),
                leveret_files: Some(25),
                disk_bytes: Some(1_500 << 20),
                broker_files: None,
            })
            .collect();
        let text = text(&report, &samples);
        for row in [
            "| 1 | 2.00 ms | 8.00 ms | 1.00 ms | 101 MiB | 20 MiB | – | 25 | 1.46 GiB |",
            "| 10 | 3.00 ms | 8.00 ms | 19.0 ms | 119 MiB | 20 MiB | – | 25 | 1.46 GiB |",
            "| last quarter ÷ second | 1.50 | 1.00 | 2.11 | 1.09 | 1.00 | – | 1.00 | 1.00 |",
            "5,000 messages of 256 B with delays of 1s..16s, published at 500 msg/s; quorum queues. None was lost",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
        let text = super::text(&Report { lost: 3, ..report }, &samples);
        assert!(text.contains("quorum queues. 3 lost. In 10"), "{text}");
    }
}
