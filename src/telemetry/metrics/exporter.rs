//! The recorder behind the metrics, and their rendering in Prometheus's text format.

use std::fmt::Write;
use std::time::Duration;

use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::catalogue::{self, Entry, Kind, catalogue};
use crate::telemetry::process;

/// How often histograms are folded while nobody scrapes; until then each observation takes memory.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The metrics could not be set up.
#[derive(Debug, Error)]
#[error("cannot set up metrics: they are set up once in a process")]
pub struct InstallError(#[from] BuildError);

/// Renders the metrics. Cheap to clone.
#[derive(Clone)]
pub struct Exporter {
    handle: PrometheusHandle,
}

/// Sets up the process's recorder; call it before [`Metrics::new`](super::Metrics::new), whose handles count into
/// nothing without one.
///
/// # Errors
/// When the process has a recorder already.
pub fn install() -> Result<Exporter, InstallError> {
    let recorder = recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(BuildError::from)?;
    describe_all();
    Ok(Exporter { handle })
}

pub(super) fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for entry in catalogue() {
        if let Kind::Histogram(buckets) = entry.kind {
            builder = builder.set_buckets_for_metric(Matcher::Full(entry.name.to_owned()), buckets)?;
        }
    }
    Ok(builder.build_recorder())
}

pub(super) fn describe_all() {
    for entry in catalogue() {
        match entry.kind {
            Kind::Counter => describe_counter!(entry.name, entry.unit, entry.help),
            Kind::Gauge => describe_gauge!(entry.name, entry.unit, entry.help),
            Kind::Histogram(_) => describe_histogram!(entry.name, entry.unit, entry.help),
        }
    }
}

impl Exporter {
    #[cfg(test)]
    pub(super) fn of(recorder: &PrometheusRecorder) -> Self {
        Self { handle: recorder.handle() }
    }

    /// Every metric in Prometheus's text format, version 0.0.4, with the process's usage read at this moment.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.handle.render();
        render_process(&mut text, &process::usage(process::Whose::Own));
        text
    }

    /// Folds what was observed since the last scrape, now and then, until `stop`.
    pub async fn keep_up(self, stop: CancellationToken) {
        let mut ticks = interval(UPKEEP_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.handle.run_upkeep();
        }
    }
}

/// The recorder's counters are whole numbers, and CPU seconds are not: the process's metrics are written as they are.
fn render_process(text: &mut String, usage: &process::Usage) {
    let mut write = |entry: &Entry, value: Option<f64>| {
        if let Some(value) = value {
            let Entry { name, kind, help, .. } = entry;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}\n{name} {value}\n", kind.as_str());
        }
    };
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    write(&catalogue::PROCESS_CPU, usage.cpu.map(|cpu| cpu.as_secs_f64()));
    write(&catalogue::PROCESS_RESIDENT, whole(usage.resident_bytes));
    write(&catalogue::PROCESS_VIRTUAL, whole(usage.virtual_bytes));
    write(&catalogue::PROCESS_THREADS, whole(usage.threads));
    write(&catalogue::PROCESS_OPEN_FDS, whole(usage.open_fds));
    write(&catalogue::PROCESS_MAX_FDS, whole(usage.max_fds));
    write(&catalogue::PROCESS_START, usage.started.map(|at| at.as_secs_f64()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_that_is_unknown_is_absent() {
        let mut text = String::new();
        let usage = process::Usage { cpu: Some(Duration::from_millis(1_250)), ..process::Usage::default() };
        render_process(&mut text, &usage);
        assert!(
            text.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.25\n"),
            "{text}"
        );
        assert!(!text.contains("process_open_fds"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn upkeep_ends_when_told() {
        let stop = CancellationToken::new();
        let exporter = Exporter::of(&recorder().unwrap());
        let upkeep = exporter.keep_up(stop.clone());
        stop.cancel();
        upkeep.await;
    }
}
