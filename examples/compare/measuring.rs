//! One measurement: `leveret bench` as a process of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use leveret::bench::figure::{millis, rate};
use leveret::bench::report::Report;

use crate::experiment::DELAY;
use crate::samples::Outcome;

/// Bytes of a message, in most runs.
pub(crate) const SIZE: usize = 256;

/// How long a run may take beyond what it has to: the tool's own patience with lost messages, and a slow drain.
const SLACK: Duration = Duration::from_secs(600);

/// How long a run that was told to end may take to write its report.
const GRACE: Duration = Duration::from_secs(20);

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) scheme: String,
    pub(crate) messages: u64,
    /// Messages a second; 0 is as fast as possible.
    pub(crate) rate: u64,
    pub(crate) delay: String,
    pub(crate) spread: &'static str,
    /// Bytes of a body.
    pub(crate) size: usize,
    /// Messages that are published before, and only wait meanwhile.
    pub(crate) pending: u64,
    /// How long it takes at least.
    pub(crate) lasts: Duration,
    /// The configuration of another Leveret than the one that all share.
    pub(crate) config: Option<PathBuf>,
    /// Another bridge than the first one.
    pub(crate) bridge: Option<String>,
    /// The process of another Leveret than the one that all share.
    pub(crate) leveret_pid: Option<u32>,
}

impl Run {
    /// One of nothing, with what most runs have in common. The name tells it from all others: `rates-1000-leveret-1`.
    pub(crate) fn new(name: String, scheme: &str) -> Self {
        Self {
            name,
            scheme: scheme.to_owned(),
            messages: 0,
            rate: 0,
            delay: DELAY.to_owned(),
            spread: "uniform",
            size: SIZE,
            pending: 0,
            lasts: Duration::ZERO,
            config: None,
            bridge: None,
            leveret_pid: None,
        }
    }
}

/// Starts measurements.
#[derive(Debug, Clone)]
pub(crate) struct Bench {
    /// The binary.
    pub(crate) leveret: PathBuf,
    pub(crate) amqp: String,
    pub(crate) broker_pid: u32,
    /// The process of the Leveret that all share, where there is one.
    pub(crate) leveret_pid: Option<u32>,
    /// Where reports and logs are left, for a closer look.
    pub(crate) reports: PathBuf,
}

impl Bench {
    /// Measures. Whatever goes wrong is an outcome.
    pub(crate) fn measure(&self, run: &Run) -> Outcome {
        let outcome = self.run(run).map_err(|error| format!("{error:#}"));
        tell(&run.name, &outcome);
        outcome
    }

    fn run(&self, run: &Run) -> Result<Report> {
        let report = self.reports.join(format!("{}.json", run.name));
        let log = self.reports.join(format!("{}.log", run.name));
        // That of an earlier run must not be taken for this one's.
        let _ = fs::remove_file(&report);
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        // The relay is started by what measures it; the others have nothing there, or it is idle.
        let leveret_pid = run.leveret_pid.or(self.leveret_pid).filter(|_| run.scheme == "leveret");
        let mut child = Command::new(&self.leveret)
            .args(["bench", "--scheme", &run.scheme, "--queue-type", "quorum"])
            .args(["--messages", &run.messages.to_string(), "--rate", &run.rate.to_string()])
            .args(["--size", &run.size.to_string(), "--pending", &run.pending.to_string()])
            .args(["--delay", &run.delay, "--spread", run.spread])
            .args(run.config.iter().flat_map(|path| [OsStr::new("--config"), path.as_os_str()]))
            .args(run.bridge.iter().flat_map(|name| ["--bridge", name]))
            .args(["--broker-pid", &self.broker_pid.to_string()])
            .args(leveret_pid.map(|pid| format!("--leveret-pid={pid}")))
            // Not as an argument: it has a password.
            .env("LEVERET_AMQP__URI", &self.amqp)
            .arg("--json")
            .arg(&report)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("cannot start {}", self.leveret.display()))?;
        let status = wait(&mut child, run.lasts + SLACK)?;
        // A run that lost messages fails, and has a report that says so.
        if let Ok(json) = fs::read(&report) {
            return serde_json::from_slice(&json)
                .with_context(|| format!("cannot read {}", report.display()));
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing said");
        anyhow::bail!("{last} ({status})")
    }
}

/// Waits for its end, and sees to it when that does not come: first as Ctrl-C does, since it then still tells what it
/// has measured.
fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    if let Some(status) = ends_within(child, limit)? {
        return Ok(status);
    }
    signal(child, "INT");
    if let Some(status) = ends_within(child, GRACE)? {
        return Ok(status);
    }
    child.kill()?;
    Ok(child.wait()?)
}

/// Sends a signal to a process that has not been waited for: only then is it certainly this one.
pub(crate) fn signal(child: &Child, name: &str) {
    let _ = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
}

pub(crate) fn ends_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || started.elapsed() > limit {
            return Ok(status);
        }
        sleep(Duration::from_millis(50));
    }
}

fn tell(name: &str, outcome: &Outcome) {
    match outcome {
        Ok(report) => {
            let late = report.lateness_ms.map_or_else(
                || "nothing came".to_owned(),
                |late| format!("p50 {}, p99 {} late", millis(late.p50), millis(late.p99)),
            );
            let (published, delivered) = (rate(report.publish_rate), rate(report.delivery_rate));
            eprintln!("{name}: published {published}, delivered {delivered}, {late}");
        }
        Err(why) => eprintln!("{name}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    /// What a run comes to where the binary is this shell script. `$json` is where the report belongs.
    fn outcome(script: &str) -> Outcome {
        let _alone = fake::alone();
        let dir = tempfile::tempdir().unwrap();
        let script = format!("for json; do :; done\n{script}");
        fake::bench(dir.path(), &script).measure(&Run::example("leveret", 500))
    }

    #[test]
    fn a_report_counts_even_where_the_run_failed() {
        let report = fake::report(&Run::example("leveret", 500), 7.0);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(outcome(&format!("echo '{json}' >\"$json\"; exit 1")), Ok(report));
    }

    #[test]
    fn what_ends_without_a_report_says_why() {
        let why = outcome("echo progress; echo 'leveret: no such scheme' >&2; exit 2").unwrap_err();
        assert_eq!(why, "leveret: no such scheme (exit status: 2)");
        assert!(outcome("exit 0").unwrap_err().starts_with("nothing said"));
        assert!(outcome("echo nonsense >\"$json\"").unwrap_err().starts_with("cannot read"));
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let _alone = fake::alone();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!wait(&mut child, Duration::ZERO).unwrap().success());
    }
}
