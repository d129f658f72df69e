//! The commands that end by themselves.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::blocking;

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    #[allow(dead_code, reason = "shown where a command does not end as it should")]
    pub(crate) stderr: String,
}

/// Runs `leveret ARGUMENTS` against the virtual host at `uri`, with the default configuration, and waits for its end.
pub(crate) fn leveret(uri: &str, arguments: &[&str]) -> Ended {
    let output = blocking(|| {
        Command::new(env!("CARGO_BIN_EXE_leveret"))
            .args(arguments)
            .env("LEVERET_AMQP__URI", uri)
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
