//! Sets up logging, once per process. Everything goes to standard error: standard output is for data.

use std::io::{self, IsTerminal};

use thiserror::Error;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, ParseError, filter_fn};
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Why logging could not be set up.
#[derive(Debug, Error)]
pub enum LogsError {
    /// The level is neither a level nor a list of directives.
    #[error(
        "cannot read log level {level:?}: give error, warn, info, debug or trace, \
         or directives such as \"info,leveret::engine=debug\""
    )]
    Level {
        /// What was given.
        level: String,
        /// What the parser says.
        source: ParseError,
    },
    /// Somebody set up logging before.
    #[error("cannot set up logging a second time in one process")]
    Twice(#[from] TryInitError),
}

/// Starts logging to standard error, as JSON lines or as text, with RFC 3339 timestamps in UTC.
///
/// `level` is a level (`info`) or a list of directives (`info,leveret::engine=debug`). The AMQP client is silent unless
/// a directive names it, since it logs what Leveret handles and reports itself.
///
/// # Errors
/// When `level` cannot be read, or logging is already set up.
pub fn init(json: bool, level: &str) -> Result<(), LogsError> {
    let colours = io::stderr().is_terminal();
    subscriber(json, colours, level, io::stderr)?.try_init()?;
    Ok(())
}

fn subscriber<W>(
    json: bool,
    colours: bool,
    level: &str,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogsError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // Directives of the operator come last, and of two for one target the later wins.
    let filter = EnvFilter::builder()
        .parse(format!("lapin=off,{level}"))
        .map_err(|source| LogsError::Level { level: level.to_owned(), source })?;
    let registry = registry().with(filter).with(filter_fn(carries_no_payload));
    Ok(if json {
        Box::new(registry.with(layer().json().flatten_event(true).with_writer(writer)))
    } else {
        Box::new(registry.with(layer().with_ansi(colours).with_writer(writer)))
    })
}

/// `lapin` prints whole messages, bodies too, under this target, and every frame at `trace`. No level and no directive
/// may turn that on.
fn carries_no_payload(metadata: &Metadata<'_>) -> bool {
    let client = metadata.target().starts_with("lapin");
    !(client && *metadata.level() == Level::TRACE
        || metadata.target().starts_with("lapin::returned_messages"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(json: bool, level: &str, events: impl FnOnce()) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = subscriber(json, false, level, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, events);
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn no_message_is_ever_logged() {
        for level in
            ["trace", "lapin::returned_messages=trace", "lapin=trace", "info,lapin::returned_messages=warn"]
        {
            let text = logged(false, level, || {
                tracing::error!(target: "lapin::returned_messages", "the body of a message");
                tracing::error!(target: "lapin::returned_messages::inner", "the body of a message");
                tracing::trace!(target: "lapin::channels", "a frame with the body of a message");
                tracing::error!(target: "leveret", "a word of our own");
            });
            assert!(!text.contains("body"), "{level}: {text}");
            assert_eq!(text.contains("our own"), !level.starts_with("lapin"), "{level}: {text}");
        }
    }

    #[test]
    fn the_client_is_silent_unless_asked() {
        let events = || {
            tracing::error!(target: "lapin::channel", "broken");
            tracing::warn!(target: "lapin::channel", "chatter");
        };
        let quiet = logged(false, "debug", events);
        assert_eq!(quiet, "");
        let asked = logged(false, "info,lapin=debug", events);
        assert!(asked.contains("chatter"), "{asked}");
    }

    #[test]
    fn json_is_one_object_a_line_with_a_utc_timestamp() {
        let text = logged(true, "info", || tracing::info!(bridge = "orders", "started"));
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(line["message"], "started");
        assert_eq!(line["bridge"], "orders");
        let timestamp = line["timestamp"].as_str().unwrap();
        assert!(timestamp.ends_with('Z'), "{timestamp}");
        timestamp.parse::<jiff::Timestamp>().unwrap();
    }

    #[test]
    fn text_has_no_colours_away_from_a_terminal_and_escapes_what_it_quotes() {
        let text = logged(false, "info", || tracing::info!(detail = "one\ntwo \u{1b}[31m", "parked"));
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(text.lines().count(), 1, "{text:?}");
    }

    #[test]
    fn a_bad_level_says_what_is_allowed() {
        let error = init(false, "leveret=loud").unwrap_err().to_string();
        assert!(error.contains("leveret=loud") && error.contains("debug"), "{error}");
    }
}
