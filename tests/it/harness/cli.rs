//! The commands that end by themselves.

use std::process::{Command, Stdio};

use leveret::config::Config;
use serde_json::Value;

use super::{blocking, users};

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    #[allow(dead_code, reason = "shown where a command does not end as it should")]
    pub(crate) stderr: String,
}

/// Commands that are an operator's, who has what the sidecar has; the others are an application's.
const AS_SIDECAR: [&str; 2] = ["parked", "status"];

/// Runs `leveret ARGUMENTS` against the virtual host at `uri`, with the default configuration, and waits for its end.
/// An operator's command connects as the sidecar does, unless the URI names another than the broker's administrator.
pub(crate) fn leveret(uri: &str, arguments: &[&str]) -> Ended {
    leveret_in(uri, &[], arguments)
}

/// The same with these environment variables.
pub(crate) fn leveret_in(uri: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let is_operators = arguments.first().is_some_and(|command| AS_SIDECAR.contains(command));
    let uri = if is_operators { users::as_last_sidecar(uri, &Config::default()) } else { uri.to_owned() };
    run(&[environment, &[("LEVERET_AMQP__URI", &uri)]].concat(), arguments)
}

/// Runs `leveret ARGUMENTS` with these environment variables, and waits for its end.
pub(crate) fn run(environment: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let output = blocking(|| {
        Command::new(env!("CARGO_BIN_EXE_leveret"))
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
    })
    .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ended { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

impl Ended {
    /// Panics, with all that it wrote, unless it ended with this code.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Its output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
