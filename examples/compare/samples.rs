//! What was measured, by case and scheme, round by round.

use std::collections::BTreeMap;

use leveret::bench::figure::{grouped, rate};
use leveret::bench::report::{Process, Report};

use crate::statistics::{Summary, ratios};

/// A report, or why there is none.
pub(crate) type Outcome = Result<Report, String>;

/// What a report is asked for.
pub(crate) type Metric = fn(&Report) -> Option<f64>;

/// All schemes, beginning with another one in each round: none always comes after the same one.
pub(crate) fn rotated(schemes: &[String], round: usize) -> impl Iterator<Item = &String> {
    schemes.iter().cycle().skip(round % schemes.len().max(1)).take(schemes.len())
}

/// Outcomes of one experiment. A case is what is the same for all schemes: a rate.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<(u64, String), Vec<Outcome>>);

impl Samples {
    /// Adds the next round's outcome.
    pub(crate) fn push(&mut self, case: u64, scheme: &str, outcome: Outcome) {
        self.0.entry((case, scheme.to_owned())).or_default().push(outcome);
    }

    /// The outcomes of all rounds.
    pub(crate) fn outcomes(&self, case: u64, scheme: &str) -> &[Outcome] {
        self.0.get(&(case, scheme.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// The figure of each round.
    pub(crate) fn figures(&self, case: u64, scheme: &str, metric: Metric) -> Vec<Option<f64>> {
        self.outcomes(case, scheme).iter().map(|outcome| metric(outcome.as_ref().ok()?)).collect()
    }

    /// The median over the rounds that have this figure.
    pub(crate) fn median(&self, case: u64, scheme: &str, metric: Metric) -> Option<f64> {
        Some(Summary::of(self.figures(case, scheme, metric).into_iter().flatten())?.median)
    }

    /// How a scheme compares to another, in the same rounds.
    pub(crate) fn ratio(&self, case: u64, scheme: &str, reference: &str, metric: Metric) -> Option<Summary> {
        Summary::of(ratios(&self.figures(case, scheme, metric), &self.figures(case, reference, metric)))
    }

    /// The report of the round that stands for all: that with the median of a figure.
    pub(crate) fn typical(&self, case: u64, scheme: &str, metric: Metric) -> Option<&Report> {
        let reports = self.outcomes(case, scheme).iter().flatten();
        let mut reports: Vec<_> = reports.filter_map(|report| Some((metric(report)?, report))).collect();
        reports.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let middle = reports.len().saturating_sub(1) / 2;
        reports.get(middle).map(|(_, report)| *report)
    }

    /// Any report, for what is the same in all.
    pub(crate) fn any(&self) -> Option<&Report> {
        self.0.values().flatten().find_map(|outcome| outcome.as_ref().ok())
    }

    /// Why the first run of a scheme failed that did, in any case.
    pub(crate) fn failure(&self, scheme: &str) -> Option<&String> {
        let outcomes =
            self.0.iter().filter(|((_, name), _)| name == scheme).flat_map(|(_, outcomes)| outcomes);
        outcomes.filter_map(|outcome| outcome.as_ref().err()).next()
    }

    /// What should not be, in any round.
    pub(crate) fn remarks(&self, case: u64, scheme: &str) -> String {
        let outcomes = self.outcomes(case, scheme);
        let sum = |count: fn(&Report) -> u64| outcomes.iter().flatten().map(count).sum::<u64>();
        let counts = [
            ("lost", sum(|report| report.lost)),
            ("early", sum(|report| report.early)),
            ("doubled", sum(|report| report.duplicates)),
        ];
        let wrong = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut remarks: Vec<_> = wrong.map(|(name, count)| format!("{} {name}", grouped(count))).collect();
        let slowest = outcomes.iter().flatten().filter(|report| fell_short(report));
        if let Some(slowest) = slowest.map(|report| report.publish_rate).min_by(f64::total_cmp) {
            remarks.push(format!("published at only {}", rate(slowest)));
        }
        if outcomes.iter().flatten().any(|report| report.interrupted) {
            remarks.push("interrupted".to_owned());
        }
        let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        if let Some(why) = failed.first() {
            remarks.push(format!("{} of {} failed: {why}", failed.len(), outcomes.len()));
        }
        if outcomes.is_empty() {
            remarks.push("not measured".to_owned());
        }
        remarks.join("; ")
    }
}

/// Less than 95 % of the rate that was asked for.
pub(crate) fn fell_short(report: &Report) -> bool {
    report.publish_rate < report.settings.rate as f64 * 0.95
}

/// 99th percentile of the lateness, in milliseconds.
pub(crate) fn p99_ms(report: &Report) -> Option<f64> {
    report.lateness_ms.map(|lateness| lateness.p99)
}

/// CPU of the broker for each message, in microseconds.
pub(crate) fn broker_us(report: &Report) -> Option<f64> {
    Some(report.usage.broker?.cpu_us_per_message)
}

/// CPU of Leveret or the relay for each message, in microseconds; none where the scheme has no such process.
pub(crate) fn sidecar_us(report: &Report) -> Option<f64> {
    match report.scheme.as_str() {
        "leveret" | "relay" => Some(report.usage.leveret?.cpu_us_per_message),
        _ => None,
    }
}

/// CPU of all that stands between publisher and consumer for each message, in microseconds.
pub(crate) fn both_us(report: &Report) -> Option<f64> {
    let sidecar = match report.scheme.as_str() {
        // Half of a sum is no sum.
        "leveret" | "relay" => sidecar_us(report)?,
        _ => 0.0,
    };
    Some(broker_us(report)? + sidecar)
}

/// Bytes that the broker wrote for each byte of a message's body.
pub(crate) fn written_ratio(report: &Report) -> Option<f64> {
    let Process { written_bytes, .. } = report.usage.broker?;
    let bodies = report.usage.messages as f64 * report.settings.size as f64;
    (bodies > 0.0).then_some(written_bytes? as f64 / bodies)
}
