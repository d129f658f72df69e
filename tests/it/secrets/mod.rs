//! No secret, and nothing of a message, is in anything that Leveret writes: whatever it is asked, whatever goes wrong, and
//! however much it is told to log.
//!
//! Each place that takes a secret gets a text that is found nowhere else, and so does each part of a message. Then
//! everything that came out is searched for these texts.

mod commands;
mod running;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::cli::Ended;
use crate::harness::runner::{Case, cases};
pub(crate) use commands::commands_tell_no_secret;
use running::{a_crash_tells_nothing, a_running_one_tells_nothing};

pub(crate) const CASES: &[Case] = cases![shared: a_running_one_tells_nothing];

/// For debug builds, which can be made to crash.
pub(crate) const CRASHES: &[Case] = cases![shared: a_crash_tells_nothing];

/// What came out, and from where.
#[derive(Default)]
struct Written(Vec<(String, String)>);

impl Written {
    fn add(&mut self, from: impl Into<String>, text: impl Into<String>) {
        self.0.push((from.into(), text.into()));
    }

    fn add_command(&mut self, from: &str, ended: Ended) {
        self.add(format!("{from}, exit code {}", ended.code), ended.stdout + &ended.stderr);
    }

    /// Panics where one of the texts is in what came out.
    fn holds_none_of(&self, texts: &[&str]) {
        for (from, written) in &self.0 {
            for text in texts {
                let found = forms(text).into_iter().find(|form| written.contains(form));
                assert!(found.is_none(), "{from} tells {text} as {found:?}:\n{written}");
            }
        }
    }

    /// Panics unless this came out somewhere: what was to be provoked was.
    fn holds(&self, text: &str) {
        let all: Vec<_> = self.0.iter().map(|(from, written)| format!("---- {from}\n{written}")).collect();
        assert!(
            self.0.iter().any(|(_, written)| written.contains(text)),
            "not said: {text}\n{}",
            all.join("\n")
        );
    }
}

/// The text as it is, and as it may be sent or shown: in base64 at any offset, in hexadecimal, as a list of bytes.
fn forms(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let in_base64 = (0..3).filter_map(|offset| {
        // Without what depends on the neighbours.
        let encoded = STANDARD.encode([&vec![b'x'; offset], bytes].concat());
        Some(encoded.get(4..encoded.len() - 4)?.to_owned())
    });
    let hexadecimal = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = bytes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    [text.to_owned(), hexadecimal, list].into_iter().chain(in_base64).collect()
}
