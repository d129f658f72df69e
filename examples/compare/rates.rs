//! Fixed rates: how late messages come, and what each costs.

use std::time::Duration;

use leveret::bench::figure::{grouped, millis, rounded};
use leveret::bench::report::Report;

use crate::experiment::{DELAY, Extent, Findings, LONGEST, Measure};
use crate::measuring::{Run, SIZE};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Metric, Samples, both_us, broker_us, p99_ms, rotated, sidecar_us, written_ratio};

const RATES: [u64; 4] = [500, 1_000, 2_000, 3_000];
/// Several times as long as the longest delay, so that most of it is at the full rate of both publishing and delivery.
const SECONDS: u64 = 60;
const REFERENCE: &str = "relay";

pub(crate) fn run(extent: &Extent, measure: &mut Measure<'_>) -> Findings {
    let mut samples = Samples::default();
    let seconds = extent.seconds.unwrap_or(SECONDS);
    for round in 0..extent.rounds {
        for rate in RATES {
            for scheme in rotated(&extent.schemes, round) {
                let outcome = measure(&Run {
                    messages: rate * seconds,
                    rate,
                    lasts: Duration::from_secs(seconds) + LONGEST,
                    ..Run::new(format!("rates-{rate}-{scheme}-{}", round + 1), scheme)
                });
                samples.push(rate, scheme, outcome);
            }
        }
    }
    Findings {
        text: format!(
            "Published for {seconds} s, messages of {SIZE} B, delays of {DELAY}, quorum queues.\n\n{}",
            text(&samples, &extent.schemes)
        ),
        plots: plots(&samples, &extent.schemes),
        broker: samples.any().map(|report| report.broker.clone()),
    }
}

fn text(samples: &Samples, schemes: &[String]) -> String {
    let late: [Metric; 2] = [|report| Some(report.lateness_ms?.p50), p99_ms];
    let cost: [Metric; 3] = [broker_us, sidecar_us, both_us];
    let head = [
        "msg/s, scheme",
        "late: p50",
        "p99",
        "p99 ÷ relay's",
        "CPU a message: broker",
        "sidecar",
        "both",
        "both ÷ relay's",
        "written to disk a byte",
        REMARKS,
    ];
    let micros = |us| format!("{} µs", rounded(us));
    let mut rows = Vec::new();
    for rate in RATES {
        for scheme in schemes {
            let figure =
                |metric: Metric, write: fn(f64) -> String| cell(samples.median(rate, scheme, metric), write);
            let ratio = |metric: Metric| {
                cell(samples.ratio(rate, scheme, REFERENCE, metric), |ratio| ratio.to_string())
            };
            let [p50, p99] = late.map(|metric| figure(metric, millis));
            let [broker, sidecar, both] = cost.map(|metric| figure(metric, micros));
            rows.push(vec![
                format!("{} {scheme}", grouped(rate)),
                p50,
                p99,
                ratio(p99_ms),
                broker,
                sidecar,
                both,
                ratio(both_us),
                figure(written_ratio, |ratio| format!("{} B", rounded(ratio))),
                samples.remarks(rate, scheme),
            ]);
        }
    }
    table(&head, &rows)
}

fn plots(samples: &Samples, schemes: &[String]) -> Vec<(String, Vec<Report>)> {
    let at = |rate: u64| {
        let reports = schemes.iter().filter_map(|scheme| samples.typical(rate, scheme, p99_ms));
        (format!("rates-{rate}"), reports.cloned().collect())
    };
    RATES.into_iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{extent, report};

    #[test]
    fn all_are_compared_to_the_relay_of_the_same_round() {
        let findings = run(&extent(&["direct", "relay", "leveret"], 2), &mut |run| {
            let second_round = run.name.ends_with("-2");
            // In the second round, the machine is ten times as slow for everybody.
            let slow = if second_round { 10.0 } else { 1.0 };
            Ok(report(run, slow * if run.scheme == "leveret" { 4.0 } else { 2.0 }))
        });
        let row = "| 500 leveret | 11.0 ms | 22.0 ms | 2.00 (2.00 to 2.00) | 100 µs | 50.0 µs | 150 µs | 1.00 (1.00 to \
                   1.00) | 3.00 B |  |";
        assert!(findings.text.contains(row), "{}", findings.text);
        let direct = "| 500 direct | 5.50 ms | 11.0 ms | 1.00 (1.00 to 1.00) | 100 µs | – | 100 µs | 0.667";
        assert!(findings.text.contains(direct), "{}", findings.text);
        assert_eq!(findings.broker.as_deref(), Some("RabbitMQ 4.3.6"));
        let names: Vec<_> =
            findings.plots.iter().map(|(name, reports)| (name.as_str(), reports.len())).collect();
        assert_eq!(names, [("rates-500", 3), ("rates-1000", 3), ("rates-2000", 3), ("rates-3000", 3)]);
    }

    #[test]
    fn rounds_begin_with_another_scheme() {
        let mut order = Vec::new();
        run(&extent(&["a", "b", "c"], 2), &mut |run| {
            order.push(run.name.clone());
            Err("not of interest".into())
        });
        assert_eq!(order[..3], ["rates-500-a-1", "rates-500-b-1", "rates-500-c-1"]);
        assert_eq!(order[12..15], ["rates-500-b-2", "rates-500-c-2", "rates-500-a-2"]);
        assert_eq!(order.len(), 24);
    }

    #[test]
    fn what_failed_or_went_wrong_is_in_the_table() {
        let findings = run(&extent(&["relay", "leveret"], 2), &mut |run| {
            if run.scheme == "relay" {
                return Err("it does not start".into());
            }
            let good = report(run, 1.0);
            Ok(Report { lost: 1_000, duplicates: 1, publish_rate: 20.0, ..good })
        });
        assert!(
            findings.text.contains("| – | – | – | – | – | 2 of 2 failed: it does not start |"),
            "{}",
            findings.text
        );
        let leveret = "| – | 3.00 B | 2,000 lost; 2 doubled; published at only 20.0 msg/s |";
        assert!(findings.text.contains(leveret), "{}", findings.text);
    }

    #[test]
    fn nothing_at_all_is_no_finding() {
        let findings = run(&extent(&["relay"], 1), &mut |_| Err("no".into()));
        assert_eq!(findings.broker, None);
        assert!(findings.plots.iter().all(|(_, reports)| reports.is_empty()));
    }
}
