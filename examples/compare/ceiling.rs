//! The highest rate that each scheme carries: stepping up until it fails.

use std::collections::BTreeMap;
use std::time::Duration;

use leveret::bench::figure::{grouped, millis, rate};
use leveret::bench::report::Report;

use crate::experiment::{DELAY, Extent, Findings, LONGEST, Measure};
use crate::measuring::{Run, SIZE};
use crate::page::{REMARKS, cell, table};
use crate::samples::{Outcome, Samples, fell_short, p99_ms, rotated};
use crate::statistics::{Summary, ratios};

const STEPS: [u64; 14] =
    [500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 12_000, 16_000, 20_000];
const SECONDS: u64 = 40;
const REFERENCE: &str = "relay";
/// As late as this, a scheme does not carry the rate any more.
const LIMIT_MS: f64 = 100.0;
/// One step may fail by bad luck.
const FAILURES: usize = 2;

/// Why a step failed.
#[derive(Debug, Clone, PartialEq)]
enum Failure {
    Late(f64),
    Slow(f64),
    Wrong(String),
}

/// The search of one scheme in one round.
#[derive(Debug, Default)]
struct Search {
    highest: Option<u64>,
    failures_in_a_row: usize,
}

impl Search {
    fn record(&mut self, step: u64, passed: bool) {
        if passed {
            self.highest = Some(step);
            self.failures_in_a_row = 0;
        } else {
            self.failures_in_a_row += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.failures_in_a_row >= FAILURES
    }
}

pub(crate) fn run(extent: &Extent, measure: &mut Measure<'_>) -> Findings {
    let mut samples = Samples::default();
    // By scheme, the highest rate of each round.
    let mut highest = BTreeMap::<&String, Vec<Option<f64>>>::new();
    for round in 0..extent.rounds {
        for (scheme, search) in search(extent, round, &mut samples, measure) {
            highest.entry(scheme).or_default().push(search.highest.map(|rate| rate as f64));
        }
    }
    Findings {
        text: format!(
            "{}\nThe 99th percentile of each round at each step: published for {} s, messages of {SIZE} B, delays of \
             {DELAY}, quorum queues. ✗ is a step that failed: later than {LIMIT_MS} ms, or published at less than 95 % of \
             the rate, or with messages lost or early.\n\n{}",
            summary(extent, &highest, &samples),
            extent.seconds.unwrap_or(SECONDS),
            steps(extent, &samples)
        ),
        plots: Vec::new(),
        broker: samples.any().map(|report| report.broker.clone()),
    }
}

/// Step by step with all schemes that still carry it, so that each is compared to the others in the same minutes.
fn search<'a>(
    extent: &'a Extent,
    round: usize,
    samples: &mut Samples,
    measure: &mut Measure<'_>,
) -> BTreeMap<&'a String, Search> {
    let seconds = extent.seconds.unwrap_or(SECONDS);
    let mut searches: BTreeMap<_, _> =
        extent.schemes.iter().map(|scheme| (scheme, Search::default())).collect();
    for (index, step) in STEPS.into_iter().filter(|step| *step >= extent.from).enumerate() {
        for scheme in rotated(&extent.schemes, round + index) {
            let Some(search) = searches.get_mut(scheme).filter(|search| !search.is_over()) else { continue };
            let outcome = measure(&Run {
                messages: step * seconds,
                rate: step,
                lasts: Duration::from_secs(seconds) + LONGEST,
                ..Run::new(format!("ceiling-{step}-{scheme}-{}", round + 1), scheme)
            });
            search.record(step, judge(&outcome).is_ok());
            samples.push(step, scheme, outcome);
        }
    }
    searches
}

fn judge(outcome: &Outcome) -> Result<f64, Failure> {
    let report = outcome.as_ref().map_err(|_| Failure::Wrong("failed".to_owned()))?;
    let Report { lost, early, interrupted, publish_rate, .. } = *report;
    let p99 = p99_ms(report).ok_or_else(|| Failure::Wrong("nothing came".to_owned()))?;
    match p99 {
        _ if lost > 0 => Err(Failure::Wrong(format!("{} lost", grouped(lost)))),
        _ if early > 0 => Err(Failure::Wrong(format!("{} early", grouped(early)))),
        _ if interrupted => Err(Failure::Wrong("interrupted".to_owned())),
        _ if fell_short(report) => Err(Failure::Slow(publish_rate)),
        _ if p99 >= LIMIT_MS => Err(Failure::Late(p99)),
        _ => Ok(p99),
    }
}

fn summary(extent: &Extent, highest: &BTreeMap<&String, Vec<Option<f64>>>, samples: &Samples) -> String {
    let of = |scheme: &str| highest.iter().find(|(name, _)| name.as_str() == scheme).map(|(_, rates)| rates);
    let row = |scheme: &String| {
        let rates = of(scheme).cloned().unwrap_or_default();
        let ratio = of(REFERENCE).and_then(|references| Summary::of(ratios(&rates, references)));
        let none = rates.iter().filter(|rate| rate.is_none()).count();
        let none = (none > 0).then(|| format!("{none} of {} rounds carried no rate", rates.len()));
        let failed = samples.failure(scheme).map(|why| format!("failed: {why}"));
        let remark = none.into_iter().chain(failed).collect::<Vec<_>>().join("; ");
        vec![
            scheme.clone(),
            cell(Summary::of(rates.into_iter().flatten()), |rates| format!("{rates} msg/s")),
            cell(ratio, |ratio| ratio.to_string()),
            remark,
        ]
    };
    let rows: Vec<_> = extent.schemes.iter().map(row).collect();
    table(&["scheme", "highest rate with p99 under 100 ms", "÷ relay's", REMARKS], &rows)
}

/// What each step came to, round by round.
fn steps(extent: &Extent, samples: &Samples) -> String {
    let head: Vec<_> = ["msg/s"].into_iter().chain(extent.schemes.iter().map(String::as_str)).collect();
    let row = |step: u64| {
        let rounds = |scheme: &String| -> String {
            let outcomes = samples.outcomes(step, scheme).iter();
            outcomes.map(|outcome| verdict(judge(outcome))).collect::<Vec<_>>().join(", ")
        };
        [grouped(step)].into_iter().chain(extent.schemes.iter().map(rounds)).collect::<Vec<_>>()
    };
    let is_measured = |row: &Vec<String>| row.iter().skip(1).any(|cell| !cell.is_empty());
    table(&head, &STEPS.into_iter().map(row).filter(is_measured).collect::<Vec<_>>())
}

fn verdict(judged: Result<f64, Failure>) -> String {
    match judged {
        Ok(p99) => millis(p99),
        Err(Failure::Late(p99)) => format!("✗ {}", millis(p99)),
        Err(Failure::Slow(published)) => format!("✗ {}", rate(published)),
        Err(Failure::Wrong(why)) => format!("✗ {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{extent, report};

    /// Publishes the steps at which a scheme gave these percentiles, and what was found.
    fn found(schemes: &[&str], rounds: usize, p99: impl Fn(&Run) -> f64) -> (Vec<(String, u64)>, String) {
        let mut steps = Vec::new();
        let findings = run(&extent(schemes, rounds), &mut |run| {
            steps.push((run.scheme.clone(), run.rate));
            Ok(report(run, p99(run)))
        });
        (steps, findings.text)
    }

    #[test]
    fn a_search_ends_with_the_second_failure_in_a_row() {
        // Fails once at 1,500, and for ever from 3,000 on.
        let (steps, text) = found(&["relay"], 1, |run| match run.rate {
            1_500 | 3_000.. => 100.0,
            _ => 99.0,
        });
        let rates: Vec<_> = steps.into_iter().map(|(_, rate)| rate).collect();
        assert_eq!(rates, [500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000]);
        assert!(text.contains("| relay | 2,500 msg/s | 1.00 |  |"), "{text}");
        assert!(text.contains("| 1,500 | ✗ 100 ms |") && !text.contains("| 5,000 |"), "{text}");
    }

    #[test]
    fn all_take_turns_at_a_step_and_one_ends_without_the_others() {
        let carries = |run: &Run| if run.scheme == "cascade" { 500 } else { 1_500 };
        let (steps, text) =
            found(&["relay", "cascade"], 1, |run| if run.rate > carries(run) { 1e3 } else { 1.0 });
        let steps: Vec<_> = steps.iter().map(|(scheme, rate)| (scheme.as_str(), *rate)).collect();
        assert_eq!(
            steps,
            [
                ("relay", 500),
                ("cascade", 500),
                ("cascade", 1_000),
                ("relay", 1_000),
                ("relay", 1_500),
                ("cascade", 1_500),
                ("relay", 2_000),
                ("relay", 2_500),
            ]
        );
        assert!(text.contains("| cascade | 500 msg/s | 0.333 |"), "{text}");
    }

    #[test]
    fn a_search_begins_where_it_is_told_to() {
        let mut rates = Vec::new();
        let extent = Extent { from: 12_000, ..extent(&["relay"], 1) };
        run(&extent, &mut |run| {
            rates.push(run.rate);
            Ok(report(run, 1.0))
        });
        assert_eq!(rates, [12_000, 16_000, 20_000]);
    }

    #[test]
    fn rounds_are_searched_each_on_its_own() {
        let (_, text) = found(&["relay"], 3, |run| {
            let carries = if run.name.ends_with("-1") { 1_000 } else { 3_000 };
            if run.rate > carries { 1e3 } else { 1.0 }
        });
        assert!(text.contains("| relay | 3,000 (1,000 to 3,000) msg/s | 1.00 (1.00 to 1.00) |"), "{text}");
        assert!(text.contains("| 1,500 | ✗ 1,000 ms, 1.00 ms, 1.00 ms |"), "{text}");
    }

    #[test]
    fn what_is_late_slow_or_wrong_fails() {
        let run = Run::example("leveret", 1_000);
        let judged = |change: fn(&mut Report)| {
            let mut report = report(&run, 50.0);
            change(&mut report);
            judge(&Ok(report)).map_err(|failure| verdict(Err(failure)))
        };
        assert_eq!(judged(|_| {}), Ok(50.0));
        assert_eq!(judged(|report| report.publish_rate = 950.0), Ok(50.0));
        assert_eq!(judged(|report| report.publish_rate = 949.0), Err("✗ 949 msg/s".into()));
        assert_eq!(judged(|report| report.lost = 2), Err("✗ 2 lost".into()));
        assert_eq!(judged(|report| report.early = 1), Err("✗ 1 early".into()));
        assert_eq!(judged(|report| report.lateness_ms = None), Err("✗ nothing came".into()));
        assert_eq!(judge(&Err("broken".into())), Err(Failure::Wrong("failed".into())));
    }

    #[test]
    fn a_scheme_that_is_missing_stops_nobody() {
        let findings = run(&extent(&["relay", "plugin"], 1), &mut |run| match run.scheme.as_str() {
            "plugin" => Err("no such exchange type".into()),
            _ => Ok(report(run, if run.rate > 500 { 1e3 } else { 1.0 })),
        });
        assert!(
            findings.text.contains(
                "| plugin | – | – | 1 of 1 rounds carried no rate; failed: no such exchange type |"
            ),
            "{}",
            findings.text
        );
        assert!(findings.text.contains("| 500 | 1.00 ms | ✗ failed |"), "{}", findings.text);
    }
}
