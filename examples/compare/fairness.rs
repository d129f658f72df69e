//! Whether a bridge with very many messages due at once makes those of another bridge late.

use std::thread;
use std::time::Duration;

use leveret::bench::figure::{grouped, millis, rate, rounded};

use crate::experiment::{Extent, Findings};
use crate::measuring::{Bench, Run, SIZE};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Metric, Outcome, Samples, p99_ms};
use crate::sidecar::Sidecar;

const CALM: &str = "calm";
const CROWD: &str = "crowd";
/// Cases of the samples: each by itself, and both at once.
const ALONE: u64 = 1;
const TOGETHER: u64 = 2;

/// Messages a second of the calm bridge.
const CALM_RATE: u64 = 100;
const CALM_DELAY: &str = "1s..2s";
/// How long the crowd waits: all of it must be published before.
const CROWD_WAIT: u64 = 25;
/// How long the calm bridge is published to: through all of the crowd's publishing, waiting and draining.
const SECONDS: u64 = 45;

const CONFIG: &str = "namespace: leveret-fairness
bridges:
  - name: calm
    entry: { exchange: calm.delayed }
    target: { exchange: \"\" }
  - name: crowd
    entry: { exchange: crowd.delayed }
    target: { exchange: \"\" }
";

pub(crate) fn run(extent: &Extent, bench: &Bench) -> Findings {
    let sidecar = Sidecar::start(bench, "fairness", CONFIG);
    find(extent, &|run| {
        let sidecar = sidecar.as_ref().map_err(|error| format!("{error:#}"))?;
        bench.measure(&Run {
            config: Some(sidecar.config().to_owned()),
            bridge: Some(if run.name.contains(CALM) { CALM } else { CROWD }.to_owned()),
            leveret_pid: Some(sidecar.pid()),
            ..run
        })
    })
}

fn find(extent: &Extent, measure: &(dyn Fn(Run) -> Outcome + Sync)) -> Findings {
    let mut samples = Samples::default();
    for round in 1..=extent.rounds {
        let calm = |case| measure(calm(case, round));
        let crowd = |case| measure(crowd(case, round, extent.burst));
        samples.push(ALONE, CALM, calm("alone"));
        samples.push(ALONE, CROWD, crowd("alone"));
        let (one, other) = thread::scope(|scope| {
            let crowd = scope.spawn(|| crowd("together"));
            (calm("together"), crowd.join().unwrap_or_else(|_| Err("it panicked".to_owned())))
        });
        samples.push(TOGETHER, CALM, one);
        samples.push(TOGETHER, CROWD, other);
    }
    Findings {
        text: format!(
            "The bridge `{CALM}` has {CALM_RATE} msg/s with delays of {CALM_DELAY}, for {SECONDS} s; the bridge `{CROWD}` has \
             {} messages that are due within one second, which are published, wait and leave in that time. Messages of \
             {SIZE} B, one Leveret, one worker.\n\n{}",
            grouped(extent.burst),
            text(&samples)
        ),
        plots: Vec::new(),
        broker: samples.any().map(|report| report.broker.clone()),
    }
}

fn calm(case: &str, round: usize) -> Run {
    Run {
        messages: CALM_RATE * SECONDS,
        rate: CALM_RATE,
        delay: CALM_DELAY.to_owned(),
        lasts: Duration::from_secs(SECONDS),
        ..Run::new(format!("fairness-{case}-{CALM}-{round}"), "leveret")
    }
}

fn crowd(case: &str, round: usize, messages: u64) -> Run {
    Run {
        messages,
        rate: 0,
        delay: format!("{CROWD_WAIT}s"),
        spread: "burst",
        lasts: Duration::from_secs(CROWD_WAIT),
        ..Run::new(format!("fairness-{case}-{CROWD}-{round}"), "leveret")
    }
}

fn text(samples: &Samples) -> String {
    let late: [Metric; 4] = [
        |report| Some(report.lateness_ms?.p50),
        p99_ms,
        |report| Some(report.lateness_ms?.p99_9),
        |report| Some(report.lateness_ms?.max),
    ];
    let mut rows = Vec::new();
    for (case, name) in [(ALONE, "alone"), (TOGETHER, "together")] {
        for bridge in [CALM, CROWD] {
            let mut row = vec![format!("{bridge}, {name}")];
            // How late a crowd is that is due at once says no more than how fast it leaves.
            row.extend(
                late.map(|metric| {
                    cell(samples.median(case, bridge, metric).filter(|_| bridge == CALM), millis)
                }),
            );
            row.push(cell(samples.median(case, bridge, |report| Some(report.delivery_rate)), rate));
            row.push(samples.remarks(case, bridge));
            rows.push(row);
        }
    }
    let ratio = |bridge, metric| {
        let figures = |case| samples.median(case, bridge, metric);
        cell(figures(TOGETHER).zip(figures(ALONE)).map(|(both, alone)| both / alone), rounded)
    };
    format!(
        "{}\nThe 99th percentile of `{CALM}` beside the crowd is {} times that alone; the crowd leaves at {} of its rate \
         alone.\n",
        table(&["bridge", "late: p50", "p99", "p99.9", "latest", "delivered", REMARKS], &rows),
        ratio(CALM, p99_ms),
        ratio(CROWD, |report| Some(report.delivery_rate))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{extent, report};

    #[test]
    fn what_happens_together_is_beside_what_happens_alone() {
        let findings = find(&extent(&[], 1), &|run| {
            let together = if run.name.contains("together") { 3.0 } else { 1.0 };
            let mut report = report(&run, 10.0 * together);
            report.delivery_rate = 900.0 / together;
            Ok(report)
        });
        for text in [
            "| calm, alone | 5.00 ms | 10.0 ms |",
            "| calm, together | 15.0 ms | 30.0 ms |",
            "| crowd, together | – | – | – | – | 300 msg/s |  |",
            "`calm` beside the crowd is 3.00 times that alone; the crowd leaves at 0.333 of its rate",
        ] {
            assert!(findings.text.contains(text), "{text}\n{}", findings.text);
        }
    }

    #[test]
    fn what_failed_is_told() {
        let findings = find(&extent(&[], 1), &|_| Err("it does not start".into()));
        assert!(findings.text.contains("1 of 1 failed: it does not start"));
        assert_eq!(findings.broker, None);
    }
}
