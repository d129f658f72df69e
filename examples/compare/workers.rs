//! Several workers in one process: what they bring, and what they cost.

use std::time::Duration;

use leveret::bench::figure::{grouped, millis, rounded};

use crate::experiment::{DELAY, Extent, Findings, LONGEST};
use crate::measuring::{Bench, Run, SIZE};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Metric, Outcome, Samples, both_us, broker_us, p99_ms, rotated, sidecar_us};
use crate::sidecar::Sidecar;

const WORKERS: [&str; 3] = ["1", "2", "4"];
const RATES: [u64; 2] = [1_000, 3_000];
/// Longer than the longest delay, so that there is a time at the full rate of both publishing and delivery.
const SECONDS: u64 = 40;
const REFERENCE: &str = "1";

pub(crate) fn run(extent: &Extent, bench: &Bench) -> Findings {
    find(extent, &mut |workers, run| measure(bench, workers, run))
}

fn find(extent: &Extent, measure: &mut dyn FnMut(&str, Run) -> Outcome) -> Findings {
    let mut samples = Samples::default();
    let seconds = extent.seconds.unwrap_or(SECONDS);
    let all = WORKERS.map(str::to_owned);
    for round in 0..extent.rounds {
        for rate in RATES {
            for workers in rotated(&all, round) {
                let run = Run {
                    messages: rate * seconds,
                    rate,
                    lasts: Duration::from_secs(seconds) + LONGEST,
                    ..Run::new(format!("workers-{rate}-{workers}-{}", round + 1), "leveret")
                };
                samples.push(rate, workers, measure(workers, run));
            }
        }
    }
    Findings {
        text: format!(
            "Published for {seconds} s, messages of {SIZE} B, delays of {DELAY}, quorum queues.\n\n{}",
            text(&samples)
        ),
        plots: Vec::new(),
        broker: samples.any().map(|report| report.broker.clone()),
    }
}

/// Each with a process of its own: the others must not wait in the same queues.
fn measure(bench: &Bench, workers: &str, run: Run) -> Outcome {
    let sidecar = Sidecar::start(bench, "workers", &config(workers)).map_err(|error| format!("{error:#}"))?;
    bench.measure(&Run { config: Some(sidecar.config().to_owned()), leveret_pid: Some(sidecar.pid()), ..run })
}

fn config(workers: &str) -> String {
    format!(
        "namespace: leveret-workers
workers: {workers}
bridges:
  - name: workers
    entry: {{ exchange: workers.delayed }}
    target: {{ exchange: \"\" }}
"
    )
}

fn text(samples: &Samples) -> String {
    let head = [
        "msg/s, workers",
        "late: p50",
        "p99",
        "CPU a message: broker",
        "sidecar",
        "both",
        "both ÷ one worker's",
        REMARKS,
    ];
    let micros = |us| format!("{} µs", rounded(us));
    let mut rows = Vec::new();
    for rate in RATES {
        for workers in WORKERS {
            let figure =
                |metric: Metric, write: fn(f64) -> String| cell(samples.median(rate, workers, metric), write);
            let ratio = samples.ratio(rate, workers, REFERENCE, both_us);
            rows.push(vec![
                format!("{} {workers}", grouped(rate)),
                figure(|report| Some(report.lateness_ms?.p50), millis),
                figure(p99_ms, millis),
                figure(broker_us, micros),
                figure(sidecar_us, micros),
                figure(both_us, micros),
                cell(ratio, |ratio| ratio.to_string()),
                samples.remarks(rate, workers),
            ]);
        }
    }
    table(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{extent, report};

    #[test]
    fn more_workers_are_compared_to_one_of_the_same_round() {
        let findings = find(&extent(&[], 2), &mut |workers, run| {
            if workers == "4" {
                return Err("no core is left".into());
            }
            let mut report = report(&run, 8.0);
            if workers == "2" {
                report.usage.broker.as_mut().unwrap().cpu_us_per_message *= 4.0;
            }
            Ok(report)
        });
        for row in [
            "| 1,000 1 | 4.00 ms | 8.00 ms | 100 µs | 50.0 µs | 150 µs | 1.00 (1.00 to 1.00) |  |",
            "| 3,000 2 | 4.00 ms | 8.00 ms | 400 µs | 50.0 µs | 450 µs | 3.00 (3.00 to 3.00) |  |",
            "| 3,000 4 | – | – | – | – | – | – | 2 of 2 failed: no core is left |",
        ] {
            assert!(findings.text.contains(row), "{row}\n{}", findings.text);
        }
    }

    #[test]
    fn a_configuration_has_as_many_workers_as_are_measured() {
        assert!(config("4").contains("\nworkers: 4\n"));
    }
}
