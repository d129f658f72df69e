//! Reports that nobody measured, and a binary that is none, for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leveret::bench::report::{Bucket, Lateness, Process, Report, Second, Settings, Usage};

use crate::experiment::Extent;
use crate::measuring::{Bench, Run};

impl Run {
    pub(crate) fn example(scheme: &str, rate: u64) -> Self {
        Self {
            messages: rate * 10,
            rate,
            lasts: Duration::from_secs(10),
            ..Self::new("example".into(), scheme)
        }
    }
}

pub(crate) fn extent(schemes: &[&str], rounds: usize) -> Extent {
    Extent {
        schemes: schemes.iter().map(|scheme| (*scheme).to_owned()).collect(),
        rounds,
        seconds: None,
        from: 0,
        burst: 10_000,
        pending: 1_000,
        soak_minutes: 20,
        soak_rate: 100,
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
            size: run.size,
            delay: run.delay.clone(),
            spread: run.spread.into(),
            pending: run.pending,
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

/// To be held by a test while it writes a script and starts it: a process that another test starts meanwhile would inherit
/// the open file, and then nobody can start that.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static STARTING: Mutex<()> = Mutex::new(());
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures with a shell script as the binary.
pub(crate) fn bench(dir: &Path, script: &str) -> Bench {
    let leveret = dir.join("leveret");
    fs::write(&leveret, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&leveret, fs::Permissions::from_mode(0o700)).unwrap();
    Bench {
        leveret,
        amqp: "amqp://nobody".to_owned(),
        broker_pid: 1,
        leveret_pid: None,
        reports: dir.to_owned(),
    }
}
