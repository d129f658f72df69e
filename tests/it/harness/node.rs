//! A private RabbitMQ node in a temporary directory, by way of `scripts/broker-node`.
//!
//! The script knows how to start one; this owns its life. A guard process holds the read end of a pipe whose write end
//! is here: when the node is dropped, or this process dies in whatever way, the pipe closes, and the guard kills the
//! node and removes its directory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use super::blocking;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/broker-node");

/// A RabbitMQ on this machine from which nodes are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installation {
    /// The distribution's.
    Installed,
    /// One of the 4 series, in a root file system of its own.
    RabbitMq4,
}

impl Installation {
    /// The installation that the script calls `name`.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "installed" => Ok(Self::Installed),
            "rabbitmq-4" => Ok(Self::RabbitMq4),
            _ => Err(format!("no broker is called {name:?} (installed, rabbitmq-4)")),
        }
    }

    /// Its version, `3.10.8`.
    pub(crate) fn version(self) -> Result<String, String> {
        script(&["version", &self.to_string()]).map(|output| output.trim().to_owned())
    }
}

impl fmt::Display for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Installed => "installed",
            Self::RabbitMq4 => "rabbitmq-4",
        })
    }
}

/// What a node has beside the usual.
#[derive(Default)]
pub(crate) struct Extra<'a> {
    /// Added to its `rabbitmq.conf`; `@DIR@` stands for its directory.
    pub(crate) conf: &'a str,
    /// Plugins of its installation to enable.
    pub(crate) plugins: &'a [&'a str],
    /// Files to be in its directory, by name.
    pub(crate) files: &'a [(&'a str, Vec<u8>)],
}

/// A node that belongs to this process.
pub(crate) struct Node {
    directory: PathBuf,
    guard: Mutex<Child>,
    /// What it is called among nodes.
    pub(crate) name: String,
    /// The port on 127.0.0.1 where it speaks AMQP; it keeps it over restarts.
    pub(crate) amqp_port: u16,
    /// The port of its management API.
    pub(crate) management_port: u16,
}

impl Node {
    /// Starts a node and waits until it serves.
    pub(crate) fn start(installation: Installation, extra: &Extra<'_>) -> Result<Self, String> {
        let node = Self::guarded()?;
        let write = |name: &str, content: &[u8]| {
            std::fs::write(node.directory.join(name), content)
                .map_err(|error| format!("cannot configure a node: {error}"))
        };
        write("extra.conf", extra.conf.as_bytes())?;
        if !extra.plugins.is_empty() {
            write("extra-plugins", (extra.plugins.join("\n") + "\n").as_bytes())?;
        }
        extra.files.iter().try_for_each(|(name, content)| write(name, content))?;
        node.serving("start", &installation.to_string())
    }

    /// Starts another node of the same installation in the cluster of this one, and waits until it serves.
    pub(crate) fn join(&self) -> Result<Self, String> {
        Self::guarded()?.serving("join", self.directory_name()?)
    }

    /// A directory, and a guard over what will be in it.
    fn guarded() -> Result<Self, String> {
        // The guard removes the directory, which survives this process if need be.
        let directory = tempfile::Builder::new()
            .prefix("leveret-node-")
            .tempdir()
            .map_err(|error| format!("cannot make a directory for a node: {error}"))?
            .keep();
        let guard = Command::new(SCRIPT)
            .arg("guard")
            .arg(&directory)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {SCRIPT}: {error}"))?;
        Ok(Self {
            directory,
            guard: Mutex::new(guard),
            name: String::new(),
            amqp_port: 0,
            management_port: 0,
        })
    }

    fn serving(mut self, command: &str, of: &str) -> Result<Self, String> {
        self.script(command, &[of])?;
        self.name = self.setting("node_name")?;
        self.amqp_port = self.setting("amqp_port")?;
        self.management_port = self.setting("management_port")?;
        Ok(self)
    }

    /// Starts it again after [`Node::stop`] or [`Node::kill`], with the same ports and data.
    pub(crate) fn start_again(&self) {
        self.script("start", &[]).unwrap();
    }

    /// Stops it in good order.
    pub(crate) fn stop(&self) {
        self.script("stop", &[]).unwrap();
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&self) {
        self.script("kill", &[]).unwrap();
    }

    /// Runs `rabbitmqctl` on it, which takes seconds.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        self.script("ctl", arguments).unwrap()
    }

    /// Enables a plugin that RabbitMQ comes with, which takes seconds.
    pub(crate) fn enable_plugin(&self, name: &str) {
        self.script("plugins", &["enable", name]).unwrap();
    }

    /// Ends it for good, with its directory.
    pub(crate) fn dispose(&self) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        drop(guard.stdin.take());
        if let Err(error) = blocking(|| guard.wait()) {
            eprintln!("cannot wait for the guard of {}: {error}", self.directory.display());
        }
    }

    /// Where it keeps its files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn script(&self, command: &str, arguments: &[&str]) -> Result<String, String> {
        let mut all = vec![command, self.directory_name()?];
        all.extend(arguments);
        script(&all)
    }

    fn directory_name(&self) -> Result<&str, String> {
        self.directory.to_str().ok_or_else(|| "the temporary directory is not UTF-8".to_owned())
    }

    fn setting<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let path = self.directory.join("node.env");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .ok_or_else(|| format!("{} has no {name}", path.display()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.dispose();
    }
}

fn script(arguments: &[&str]) -> Result<String, String> {
    let output = blocking(|| Command::new(SCRIPT).args(arguments).stdin(Stdio::null()).output())
        .map_err(|error| format!("cannot run {SCRIPT}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("broker-node {}: {}: {}", arguments.join(" "), output.status, why.trim()))
    }
}
