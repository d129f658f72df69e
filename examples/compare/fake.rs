//! Reports that nobody measured, for tests.

use std::time::Duration;

use leveret::bench::report::{Bucket, Lateness, Process, Report, Second, Settings, Usage};

use crate::experiment::Extent;
use crate::measuring::Run;

impl Run {
    pub(crate) fn example(scheme: &str, rate: u64) -> Self {
        Self {
            name: "example".into(),
            scheme: scheme.into(),
            messages: rate * 10,
            rate,
            delay: "1s..16s".into(),
            spread: "uniform",
            lasts: Duration::from_secs(10),
        }
    }
}

pub(crate) fn extent(schemes: &[&str], rounds: usize) -> Extent {
    Extent {
        schemes: schemes.iter().map(|scheme| (*scheme).to_owned()).collect(),
        rounds,
        seconds: None,
        burst: 10_000,
    }
}

/// A report in which all went well, with this 99th percentile. The broker takes 100 µs a message, the sidecar 50 µs.
pub(crate) fn report(run: &Run, p99: f64) -> Report {
    let process = |cpu_us_per_message: f64| Process {
        cpu_seconds: 1.0,
        cpu_us_per_message,
        written_bytes: Some(run.messages * 256 * 3),
        rss_bytes_before: 0,
        rss_bytes_after: 0,
        rss_bytes_peak: 0,
    };
    let rate = if run.rate == 0 { 5_000.0 } else { run.rate as f64 };
    let p50 = p99 / 2.0;
    Report {
        scheme: run.scheme.clone(),
        broker: "RabbitMQ 4.3.6".into(),
        leveret: "0.1.0".into(),
        settings: Settings {
            messages: run.messages,
            rate: run.rate,
            size: 256,
            delay: run.delay.clone(),
            spread: run.spread.into(),
            pending: 0,
            queue_type: "quorum".into(),
        },
        interrupted: false,
        published: run.messages,
        confirmed: run.messages,
        publish_rate: rate,
        delivered: run.messages,
        delivery_rate: rate,
        lost: 0,
        duplicates: 0,
        early: 0,
        drained_ms: Some(p99),
        lateness_ms: Some(Lateness { mean: p50, p50, p90: p99, p99, p99_9: p99, max: p99 }),
        usage: Usage {
            broker: Some(process(100.0)),
            leveret: Some(process(50.0)),
            bench: None,
            seconds: 10.0,
            messages: run.messages,
        },
        timeline: vec![Second { second: 0, delivered: run.messages, p50_ms: p50, p99_ms: p99, max_ms: p99 }],
        distribution: vec![Bucket { up_to_ms: p99, count: run.messages }],
    }
}
