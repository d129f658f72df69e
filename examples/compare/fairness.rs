//! Whether a bridge with very many messages due at once makes those of another bridge late.

use std::thread;
use std::time::Duration;

use leveret::bench::figure::{bytes, grouped, millis, rate};
use leveret::bench::report::Report;

use crate::experiment::{Extent, Findings};
use crate::measuring::{Bench, Run, SIZE};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Metric, Outcome, Samples, p99_ms};
use crate::sidecar::Sidecar;

const CALM: &str = "calm";
const CROWD: &str = "crowd";
/// Cases of the samples: each by itself, and both at once, with room in memory for some of the crowd or for all of it.
const CASES: [(u64, &str); 3] = [(ALONE, "alone"), (TOGETHER, "together"), (ROOMY, "together, with room")];
const ALONE: u64 = 1;
const TOGETHER: u64 = 2;
const ROOMY: u64 = 3;
/// Room for all of the crowd, in MiB.
const ROOM: u64 = 256;

/// Messages a second of the calm bridge.
const CALM_RATE: u64 = 100;
const CALM_DELAY: &str = "1s..2s";
/// How long the crowd waits: all of it must be published before.
const CROWD_WAIT: u64 = 25;
/// How long the calm bridge is published to: through all of the crowd's publishing, waiting and draining.
const SECONDS: u64 = 45;

pub(crate) fn run(extent: &Extent, bench: &Bench) -> Findings {
    let usual = Sidecar::start(bench, "fairness", &config("fairness", ""));
    let roomy = format!("hold: {{ max_bytes: {ROOM}MiB }}\n");
    let roomy = Sidecar::start(bench, "fairness-roomy", &config("fairness-roomy", &roomy));
    find(extent, &|case, run| {
        let sidecar = if case == ROOMY { &roomy } else { &usual };
        let sidecar = sidecar.as_ref().map_err(|error| format!("{error:#}"))?;
        bench.measure(&Run {
            config: Some(sidecar.config().to_owned()),
            bridge: Some(if run.name.contains(CALM) { CALM } else { CROWD }.to_owned()),
            leveret_pid: Some(sidecar.pid()),
            ..run
        })
    })
}

fn config(namespace: &str, more: &str) -> String {
    format!(
        "namespace: leveret-{namespace}
{more}bridges:
  - name: {CALM}
    entry: {{ exchange: {namespace}.{CALM} }}
    target: {{ exchange: \"\" }}
  - name: {CROWD}
    entry: {{ exchange: {namespace}.{CROWD} }}
    target: {{ exchange: \"\" }}
"
    )
}

fn find(extent: &Extent, measure: &(dyn Fn(u64, Run) -> Outcome + Sync)) -> Findings {
    let mut samples = Samples::default();
    for round in 1..=extent.rounds {
        for (case, _) in CASES {
            let calm = || measure(case, calm(case, round));
            let crowd = || measure(case, crowd(case, round, extent.burst));
            let (one, other) = if case == ALONE { (calm(), crowd()) } else { at_once(calm, crowd) };
            samples.push(case, CALM, one);
            samples.push(case, CROWD, other);
        }
    }
    Findings {
        text: format!(
            "The bridge `{CALM}` has {CALM_RATE} msg/s with delays of {CALM_DELAY}, for {SECONDS} s; the bridge `{CROWD}` has \
             {} messages that are due within one second, which are published, wait and leave in that time. Messages of \
             {SIZE} B, one Leveret, one worker; *with room* is with `hold.max_bytes: {ROOM}MiB`.\n\n{}",
            grouped(extent.burst),
            text(&samples)
        ),
        plots: Vec::new(),
        broker: samples.any().map(|report| report.broker.clone()),
    }
}

fn at_once(calm: impl FnOnce() -> Outcome, crowd: impl FnOnce() -> Outcome + Send) -> (Outcome, Outcome) {
    thread::scope(|scope| {
        let crowd = scope.spawn(crowd);
        (calm(), crowd.join().unwrap_or_else(|_| Err("it panicked".to_owned())))
    })
}

fn calm(case: u64, round: usize) -> Run {
    Run {
        messages: CALM_RATE * SECONDS,
        rate: CALM_RATE,
        delay: CALM_DELAY.to_owned(),
        lasts: Duration::from_secs(SECONDS),
        ..Run::new(format!("fairness-{case}-{CALM}-{round}"), "leveret")
    }
}

fn crowd(case: u64, round: usize, messages: u64) -> Run {
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
    for (case, name) in CASES {
        for bridge in [CALM, CROWD] {
            let mut row = vec![format!("{bridge}, {name}")];
            // How late a crowd is that is due at once says no more than how fast it leaves.
            row.extend(
                late.map(|metric| {
                    cell(samples.median(case, bridge, metric).filter(|_| bridge == CALM), millis)
                }),
            );
            row.push(cell(samples.median(case, bridge, |report| Some(report.delivery_rate)), rate));
            row.push(cell(samples.median(case, bridge, memory), |most| bytes(most as u64)));
            row.push(samples.remarks(case, bridge));
            rows.push(row);
        }
    }
    let head = ["bridge", "late: p50", "p99", "p99.9", "latest", "delivered", "Leveret's memory", REMARKS];
    table(&head, &rows)
}

/// The most memory that Leveret had.
fn memory(report: &Report) -> Option<f64> {
    Some(report.usage.leveret.as_ref()?.rss_bytes_peak as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{extent, report};

    #[test]
    fn what_happens_together_is_beside_what_happens_alone() {
        let findings = find(&extent(&[], 1), &|case, run| {
            let times = case as f64;
            let mut report = report(&run, 10.0 * times);
            report.delivery_rate = 900.0 / times;
            Ok(report)
        });
        for text in [
            "| calm, alone | 5.00 ms | 10.0 ms |",
            "| calm, together | 10.0 ms | 20.0 ms |",
            "| crowd, together | – | – | – | – | 450 msg/s |",
            "| calm, together, with room | 15.0 ms | 30.0 ms |",
            "| crowd, together, with room | – | – | – | – | 300 msg/s |",
        ] {
            assert!(findings.text.contains(text), "{text}\n{}", findings.text);
        }
    }

    #[test]
    fn what_failed_is_told() {
        let findings = find(&extent(&[], 1), &|_, _| Err("it does not start".into()));
        assert!(findings.text.contains("1 of 1 failed: it does not start"));
        assert_eq!(findings.broker, None);
    }
}
