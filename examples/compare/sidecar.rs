//! A Leveret of an experiment's own, with a configuration of its own, apart from the one that all share.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use leveret::admin::check;

use crate::measuring::{Bench, ends_within, signal};

/// How long it may take until it is ready.
const READY: Duration = Duration::from_secs(60);
/// How often it is asked.
const LOOK: Duration = Duration::from_millis(5);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take to stop: longer than it gives itself.
const GRACE: Duration = Duration::from_secs(30);

/// A running `leveret run`. Stopped when it is dropped; killed when this process ends in any other way.
#[derive(Debug)]
pub(crate) struct Sidecar {
    child: Child,
    guard: Child,
    config: PathBuf,
    log: PathBuf,
    admin: SocketAddr,
}

impl Sidecar {
    /// Starts one and waits until it is ready. Its configuration and its log are left with the reports, under this name.
    /// The broker and the admin listener are no part of the configuration.
    pub(crate) fn start(bench: &Bench, name: &str, yaml: &str) -> Result<Self> {
        let mut sidecar = Self::spawn(bench, name, yaml)?;
        sidecar.wait_until_ready()?;
        Ok(sidecar)
    }

    /// Starts one and waits for nothing.
    pub(crate) fn spawn(bench: &Bench, name: &str, yaml: &str) -> Result<Self> {
        let config = bench.reports.join(format!("{name}.yaml"));
        let log = bench.reports.join(format!("{name}.log"));
        fs::write(&config, yaml).with_context(|| format!("cannot write {}", config.display()))?;
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let admin = free_address();
        let child = Command::new(&bench.leveret)
            .arg("run")
            .arg("--config")
            .arg(&config)
            // The environment goes before the file, and has those of the Leveret that all share.
            .env("LEVERET_AMQP__URI", &bench.amqp)
            .env("LEVERET_ADMIN__LISTEN", admin.to_string())
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("cannot start {}", bench.leveret.display()))?;
        let guard = guard(&child)?;
        Ok(Self { child, guard, config, log, admin })
    }

    /// Waits until it is ready; fails where it ends before, or takes too long.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.is_ready() {
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none(), "leveret has ended: see {}", self.log.display());
            ensure!(started.elapsed() < READY, "leveret is not ready: see {}", self.log.display());
            sleep(LOOK);
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        check::get(self.admin, "/readyz", ANSWER).is_ok_and(|answer| answer.status == 200)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its configuration file.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// Kills it at once, as a crash would.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // In good order, so that nothing is redelivered to whoever comes next. Nobody is told of a failure: it is
        // killed then.
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(&self.child, "TERM");
        }
        if !matches!(ends_within(&mut self.child, GRACE), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}

/// Kills a process when the pipe from this one closes, however this one ends.
fn guard(child: &Child) -> Result<Child> {
    let script = "read -r _; kill -KILL \"$0\"";
    let mut guard = Command::new("sh");
    guard.args(["-c", script, &child.id().to_string()]).stdin(Stdio::piped());
    guard.spawn().context("cannot start a shell")
}

/// A port that nobody has, below the range from which the kernel takes ports for outgoing connections.
fn free_address() -> SocketAddr {
    let addresses = std::iter::repeat_with(|| (Ipv4Addr::LOCALHOST, fastrand::u16(20_000..32_000)).into());
    let mut free = addresses.filter(|address: &SocketAddr| TcpListener::bind(address).is_ok());
    free.next().unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    /// A sidecar where the binary is this shell script.
    fn sidecar(dir: &Path, script: &str) -> Sidecar {
        Sidecar::spawn(&fake::bench(dir, script), "own", "namespace: own\n").unwrap()
    }

    fn eventually(mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(20));
            sleep(LOOK);
        }
    }

    #[test]
    fn one_that_ends_is_not_waited_for() {
        let _alone = fake::alone();
        let dir = tempfile::tempdir().unwrap();
        let mut sidecar = sidecar(dir.path(), "echo \"$1 $2 $LEVERET_AMQP__URI\"; cat \"$3\"; exit 2");
        let why = sidecar.wait_until_ready().unwrap_err().to_string();
        assert!(why.starts_with("leveret has ended: see"), "{why}");
        let said = fs::read_to_string(&sidecar.log).unwrap();
        assert_eq!(said, "run --config amqp://nobody\nnamespace: own\n");
    }

    #[test]
    fn one_that_is_dropped_stops_in_good_order() {
        let _alone = fake::alone();
        let dir = tempfile::tempdir().unwrap();
        let script = "trap 'echo stopped; exit' TERM; echo started; while :; do sleep 0.01; done";
        let sidecar = sidecar(dir.path(), script);
        let log = sidecar.log.clone();
        eventually(|| fs::read_to_string(&log).unwrap() == "started\n");
        drop(sidecar);
        assert_eq!(fs::read_to_string(&log).unwrap(), "started\nstopped\n");
    }

    #[test]
    fn none_is_left_behind() {
        let _alone = fake::alone();
        let dir = tempfile::tempdir().unwrap();
        let mut sidecar = sidecar(dir.path(), "exec sleep 1000");
        // What happens to the pipe when this process dies.
        drop(sidecar.guard.stdin.take());
        eventually(|| sidecar.child.try_wait().unwrap().is_some());
    }
}
