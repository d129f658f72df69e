//! What the Leveret on this machine says of itself, by its admin listener.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::super::output::counted;
use crate::admin::check;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running Leveret.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Running {
    ready: bool,
    /// Why it is not ready.
    reasons: Vec<String>,
    /// Messages delivered since it started.
    delivered: u64,
    /// Stays in a level that a delivered message needed, on average.
    mean_hops: Option<f64>,
    /// Upper bounds of the lateness of half, and of 99 %, of the deliveries, in seconds; absent where it is unknown.
    lateness_p50: Option<f64>,
    lateness_p99: Option<f64>,
}

/// Asks the admin listener; `None` where nobody answers, which is the usual case away from its machine.
pub(super) fn ask(listen: SocketAddr) -> Option<Running> {
    let ready = check::get(listen, "/readyz", PATIENCE).ok()?;
    let metrics = check::get(listen, "/metrics", PATIENCE).ok()?;
    let reasons = if ready.status == 200 { "" } else { &ready.body };
    Some(Running {
        ready: ready.status == 200,
        reasons: reasons.lines().map(str::to_owned).collect(),
        ..measured(&metrics.body)
    })
}

impl Running {
    /// In words.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![if self.ready {
            "ready, on this machine".to_owned()
        } else {
            format!("not ready: {}", self.reasons.join("; "))
        }];
        let mut told = counted(self.delivered, "message") + " delivered since it started";
        if let Some(hops) = self.mean_hops {
            told += &format!(", {hops:.1} hops each on average");
        }
        lines.push(told);
        if let (Some(p50), Some(p99)) = (self.lateness_p50, self.lateness_p99) {
            lines.push(format!("late by {} (median) and {} (99 %)", within(p50), within(p99)));
        }
        lines
    }
}

/// Seconds as an upper bound.
fn within(seconds: f64) -> String {
    match seconds {
        s if s.is_infinite() => "more than a minute".to_owned(),
        s if s < 1.0 => format!("{} ms at most", (s * 1_000.0).round()),
        s => format!("{s} s at most"),
    }
}

fn measured(metrics: &str) -> Running {
    let hops = sum(metrics, "leveret_message_hops_count");
    let lateness = buckets(metrics, "leveret_delivery_lateness_seconds_bucket");
    Running {
        ready: false,
        reasons: Vec::new(),
        delivered: sum(metrics, "leveret_messages_delivered_total") as u64,
        mean_hops: (hops > 0.0).then(|| sum(metrics, "leveret_message_hops_sum") / hops),
        lateness_p50: quantile(&lateness, 0.5),
        lateness_p99: quantile(&lateness, 0.99),
    }
}

/// The lines of a metric: labels and value.
fn samples<'m>(metrics: &'m str, name: &'m str) -> impl Iterator<Item = (&'m str, f64)> {
    metrics.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then_some(())?;
        Some((labels, value.parse().ok()?))
    })
}

/// A metric over all bridges.
fn sum(metrics: &str, name: &str) -> f64 {
    samples(metrics, name).map(|(_, value)| value).sum()
}

/// A histogram over all bridges: upper bounds, ascending, and how many observations are within each.
fn buckets(metrics: &str, name: &str) -> Vec<(f64, f64)> {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (labels, count) in samples(metrics, name) {
        let bound = labels.split_once("le=\"").and_then(|(_, rest)| rest.split_once('"'));
        let Some(bound) = bound.and_then(|(bound, _)| bound.parse::<f64>().ok()) else { continue };
        match buckets.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, total)) => *total += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    buckets
}

/// The upper bound of the bucket that the quantile falls into.
fn quantile(buckets: &[(f64, f64)], quantile: f64) -> Option<f64> {
    let (_, total) = buckets.last().filter(|(_, total)| *total > 0.0)?;
    buckets.iter().find(|(_, within)| *within >= total * quantile).map(|(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# TYPE leveret_message_hops histogram
leveret_messages_delivered_total{bridge=\"a\"} 98
leveret_messages_delivered_total{bridge=\"b\"} 2
leveret_message_hops_sum{bridge=\"a\"} 200
leveret_message_hops_count{bridge=\"a\"} 98
leveret_message_hops_sum{bridge=\"b\"} 50
leveret_message_hops_count{bridge=\"b\"} 2
leveret_delivery_lateness_seconds_bucket{bridge=\"a\",le=\"0.002\"} 90
leveret_delivery_lateness_seconds_bucket{bridge=\"a\",le=\"0.02\"} 98
leveret_delivery_lateness_seconds_bucket{bridge=\"a\",le=\"+Inf\"} 98
leveret_delivery_lateness_seconds_bucket{bridge=\"b\",le=\"0.002\"} 0
leveret_delivery_lateness_seconds_bucket{bridge=\"b\",le=\"0.02\"} 0
leveret_delivery_lateness_seconds_bucket{bridge=\"b\",le=\"+Inf\"} 2
";

    #[test]
    fn metrics_are_summed_over_bridges() {
        let running = measured(METRICS);
        assert_eq!((running.delivered, running.mean_hops), (100, Some(2.5)));
        assert_eq!((running.lateness_p50, running.lateness_p99), (Some(0.002), Some(f64::INFINITY)));
        let lines = running.lines();
        assert_eq!(lines[1], "100 messages delivered since it started, 2.5 hops each on average");
        assert_eq!(lines[2], "late by 2 ms at most (median) and more than a minute (99 %)");
    }

    #[test]
    fn nothing_delivered_means_nothing_measured() {
        let running = measured("leveret_delivery_lateness_seconds_bucket{bridge=\"a\",le=\"+Inf\"} 0\n");
        assert_eq!((running.delivered, running.mean_hops, running.lateness_p99), (0, None, None));
        assert_eq!(running.lines().len(), 2);
    }
}
