//! The broker's node, by way of `scripts/broker-node`: its process, what it keeps on disk, its stop and its start.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, ensure};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/broker-node");

/// How often a node that starts is asked whether it takes connections.
const LOOK: Duration = Duration::from_millis(10);

/// The unit of a file's blocks, whatever the file system's own is.
const BLOCK: u64 = 512;

/// A node that the script has started.
#[derive(Debug)]
pub(crate) struct Node {
    directory: PathBuf,
    installation: String,
    amqp_port: u16,
}

impl Node {
    /// The node in this directory.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("node.env");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let setting =
            |name| setting(&text, name).with_context(|| format!("{} has no {name}", path.display()));
        Ok(Self {
            directory: directory.to_owned(),
            installation: setting("installation")?.to_owned(),
            amqp_port: setting("amqp_port")?.parse()?,
        })
    }

    /// The product and its version: `RabbitMQ 4.3.6`.
    pub(crate) fn product(&self) -> Result<String> {
        Ok(format!("RabbitMQ {}", script([OsStr::new("version"), self.installation.as_ref()])?.trim()))
    }

    /// The server's process. Another one after every start.
    pub(crate) fn pid(&self) -> Result<u32> {
        let path = self.directory.join("beam.pid");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.trim().parse().with_context(|| format!("{} has no process", path.display()))
    }

    /// What its files take of the disk.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        disk_bytes(&self.directory)
            .with_context(|| format!("cannot read all of {}", self.directory.display()))
    }

    /// The memory that the processes of these queues have, as the broker tells.
    pub(crate) fn queues_bytes(&self, prefix: &str) -> Result<u64> {
        let directory = self.directory.as_os_str();
        let what = ["list_queues", "--quiet", "--no-table-headers", "name", "memory"].map(OsStr::new);
        let listed = script([OsStr::new("ctl"), directory].into_iter().chain(what))?;
        sum_of(&listed, prefix).with_context(|| format!("no queue of {prefix} is in the broker's list"))
    }

    /// Stops it in good order.
    pub(crate) fn stop(&self) -> Result<()> {
        script([OsStr::new("stop"), self.directory.as_os_str()]).map(drop)
    }

    /// Starts it again, and does at once what is to be done when it takes connections. How long that took to come, and
    /// what was done.
    pub(crate) fn start<T>(&self, then: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
        let started = Instant::now();
        let mut starting = Command::new(SCRIPT)
            .arg("start")
            .arg(&self.directory)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {SCRIPT}"))?;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.amqp_port)).is_err() {
            // It gives up by itself, and says why.
            let given_up = starting.try_wait()?.is_some_and(|status| !status.success());
            ensure!(!given_up, "the broker does not start");
            sleep(LOOK);
        }
        let took = started.elapsed();
        let done = then();
        ensure!(starting.wait()?.success(), "the broker does not start");
        Ok((took, done?))
    }
}

fn script<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<String> {
    let mut command = Command::new(SCRIPT);
    let output = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {SCRIPT}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The sum of what is told of all queues whose names begin like this, if there is any.
fn sum_of(listed: &str, prefix: &str) -> Option<u64> {
    let figures = listed.lines().filter(|line| line.starts_with(prefix));
    let mut figures =
        figures.filter_map(|line| line.rsplit_once('\t')?.1.trim().parse::<u64>().ok()).peekable();
    figures.peek()?;
    Some(figures.sum())
}

/// What is deleted meanwhile takes nothing.
fn disk_bytes(path: &Path) -> io::Result<u64> {
    match disk_bytes_of_present(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        read => read,
    }
}

fn disk_bytes_of_present(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        fs::read_dir(path)?.map(|entry| disk_bytes(&entry?.path())).sum()
    } else {
        Ok(metadata.blocks() * BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_their_whole_name() {
        let text = "installation=rabbitmq-4\namqp_port_of_old=1\namqp_port=20001\n";
        assert_eq!(setting(text, "amqp_port"), Some("20001"));
        assert_eq!(setting(text, "port"), None);
    }

    #[test]
    fn only_the_queues_of_that_prefix_count() {
        let listed = "backlog.due\t1000\nleveret.due\t5\nbacklog.level.1s\t234\n";
        assert_eq!(sum_of(listed, "backlog."), Some(1_234));
        assert_eq!(sum_of(listed, "other."), None);
    }

    #[test]
    fn files_count_at_every_depth_and_missing_ones_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(disk_bytes(dir.path()).unwrap(), 0);
        // What no file system can compress.
        let content: Vec<_> = std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect();
        fs::write(deep.join("file"), content).unwrap();
        fs::File::open(deep.join("file")).unwrap().sync_all().unwrap();
        let bytes = disk_bytes(dir.path()).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        assert_eq!(disk_bytes(&deep.join("gone")).unwrap(), 0);
    }
}
