//! Many messages due within one second: how fast they leave, against publishing and consuming without delay.

use std::time::Duration;

use leveret::bench::figure::{grouped, millis, rate, rounded};
use leveret::bench::report::Report;

use crate::experiment::{Extent, Findings, Measure};
use crate::measuring::{Run, SIZE};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Samples, both_us, rotated};

const REFERENCE: &str = "direct";
/// All must be published before they are due. A scheme that takes less a second than this is not in time, and the table
/// says so.
const SLOWEST_INTAKE: u64 = 1_500;

pub(crate) fn run(extent: &Extent, measure: &mut Measure<'_>) -> Findings {
    let mut samples = Samples::default();
    let wait = 5 + extent.burst / SLOWEST_INTAKE;
    for round in 0..extent.rounds {
        for scheme in rotated(&extent.schemes, round) {
            let outcome = measure(&Run {
                messages: extent.burst,
                rate: 0,
                delay: format!("{wait}s"),
                spread: "burst",
                lasts: Duration::from_secs(wait),
                ..Run::new(format!("burst-{scheme}-{}", round + 1), scheme)
            });
            samples.push(extent.burst, scheme, outcome.and_then(|report| in_time(report, wait)));
        }
    }
    Findings {
        text: text(&samples, extent),
        plots: vec![("burst".to_owned(), plot(&samples, extent))],
        broker: samples.any().map(|report| report.broker.clone()),
    }
}

/// Refuses a burst that was not whole when the first message of it was due.
fn in_time(report: Report, wait: u64) -> Result<Report, String> {
    let seconds = report.confirmed as f64 / report.publish_rate;
    if is_delayed(&report) && seconds > wait as f64 {
        return Err(format!("publishing took {} s, longer than the delay of {wait} s", rounded(seconds)));
    }
    Ok(report)
}

fn is_delayed(report: &Report) -> bool {
    !matches!(report.scheme.as_str(), "direct" | "relay")
}

/// Messages a second. The reference is what direct publishing takes in, as fast as the broker confirms.
fn drain_rate(report: &Report) -> Option<f64> {
    let direct = report.scheme == REFERENCE;
    Some(if direct { report.publish_rate } else { report.delivery_rate })
}

fn text(samples: &Samples, extent: &Extent) -> String {
    let case = extent.burst;
    let row = |scheme: &String| {
        let ratio = samples.ratio(case, scheme, REFERENCE, drain_rate);
        let drained = samples.median(case, scheme, |report| report.drained_ms.filter(|_| is_delayed(report)));
        vec![
            scheme.clone(),
            cell(samples.median(case, scheme, |report| Some(report.publish_rate)), rate),
            cell(samples.median(case, scheme, |report| Some(report.delivery_rate)), rate),
            cell(ratio, |ratio| ratio.to_string()),
            cell(drained, millis),
            cell(samples.median(case, scheme, both_us), |us| format!("{} µs", rounded(us))),
            samples.remarks(case, scheme),
        ]
    };
    let head = [
        "scheme",
        "published",
        "delivered",
        "delivered ÷ direct's published",
        "drained after the last was due",
        "CPU a message, broker and sidecar",
        REMARKS,
    ];
    let rows: Vec<_> = extent.schemes.iter().map(row).collect();
    format!(
        "{} messages of {SIZE} B, published as fast as the broker confirms, quorum queues; those with a delay are due \
         within one second.\n\n{}",
        grouped(case),
        table(&head, &rows)
    )
}

fn plot(samples: &Samples, extent: &Extent) -> Vec<Report> {
    let typical =
        extent.schemes.iter().filter_map(|scheme| samples.typical(extent.burst, scheme, drain_rate));
    // Lateness of what is published as fast as possible without delay is the length of a queue and nothing else.
    typical.filter(|report| is_delayed(report)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{extent, report};

    #[test]
    fn draining_is_compared_to_direct_publishing() {
        let findings = run(&extent(&["direct", "leveret"], 1), &mut |run| {
            assert_eq!((run.rate, run.messages), (0, 10_000));
            let report = report(run, 900.0);
            // Direct delivers as fast as it likes: what counts is what it publishes.
            Ok(Report { publish_rate: 8_000.0, delivery_rate: 6_000.0, ..report })
        });
        for row in [
            "| direct | 8,000 msg/s | 6,000 msg/s | 1.00 | – |",
            "| leveret | 8,000 msg/s | 6,000 msg/s | 0.750 | 900 ms |",
        ] {
            assert!(findings.text.contains(row), "{row}\n{}", findings.text);
        }
        assert_eq!(findings.plots[0].1.len(), 1, "only what has a delay is drawn");
    }

    #[test]
    fn a_burst_that_was_due_before_it_was_whole_does_not_count() {
        let findings = run(&extent(&["direct", "cascade"], 1), &mut |run| {
            Ok(Report { publish_rate: 100.0, ..report(run, 1.0) })
        });
        assert!(
            findings.text.contains("1 of 1 failed: publishing took 100 s, longer than the delay of 11 s")
        );
        assert!(findings.text.contains("| direct | 100 msg/s |"), "{}", findings.text);
    }
}
