//! `leveret inspect`: what is in a bundle.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, Outcome, Stop};
use super::output::{counted, exchange, harmless, moment, print, print_json};
use super::properties as words;
use crate::amqp::properties;
use crate::domain::bundle;
use crate::domain::codec::Codec;
use crate::domain::duration::compact;
use crate::domain::message::Message;
use crate::engine::keys;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret inspect bundle.bin
  leveret inspect --json < bundle.bin | jq '.[].id'

Bundles are the bodies of the messages in the queues `<namespace>.level.…` and `<namespace>.due`. To take \
one without removing it, from the management API:
  curl -su guest:guest -H 'content-type: application/json' \\
    -d '{\"count\":1,\"ackmode\":\"ack_requeue_true\",\"encoding\":\"base64\"}' \\
    http://localhost:15672/api/queues/%2f/leveret.due/get | jq -r '.[0].payload' | leveret inspect

Base64, as the management API and its pages show bodies, is recognised and decoded.";

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The file with the bundle; `-` or nothing for standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show bodies as well: as text where they are UTF-8, else in base64
    #[arg(long)]
    bodies: bool,
    /// Print a JSON array with one object a message
    #[arg(long)]
    json: bool,
    /// A file with the key that the bundle is encrypted with, as in bundle.key_files; may be given several times
    #[arg(long, value_name = "FILE")]
    key_file: Vec<PathBuf>,
}

pub(super) fn run(args: &InspectArgs) -> Outcome {
    let keys = keys::keys(&args.key_file).map_err(|error| Stop::failure(error.to_string()))?;
    let messages = Codec::new(false, keys)
        .decode(unarmoured(read(args)?).into())
        .map_err(|error| Stop::failure(format!("cannot read the bundle: {error}")))?;
    if args.json {
        print_json(&messages.iter().map(|message| as_json(message, args.bodies)).collect::<Value>())?;
    } else {
        print(&describe(&messages, args.bodies))?;
    }
    Ok(Exit::Success)
}

fn read(args: &InspectArgs) -> Result<Vec<u8>, Stop> {
    let mut bytes = Vec::new();
    match args.file.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => std::fs::read(path)
            .map_err(|error| Stop::failure(format!("cannot read {}: {error}", path.display()))),
        None => io::stdin()
            .read_to_end(&mut bytes)
            .map(|_| bytes)
            .map_err(|error| Stop::failure(format!("cannot read standard input: {error}"))),
    }
}

/// The bytes, out of base64 where they are in it. No bundle looks like base64, nor the reverse: the magic tells.
fn unarmoured(bytes: Vec<u8>) -> Vec<u8> {
    let text: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let decoded = BASE64_STANDARD.decode(text).ok().filter(|_| !bundle::has_magic(&bytes));
    decoded.filter(|decoded| bundle::has_magic(decoded)).unwrap_or(bytes)
}

fn describe(messages: &[Message], bodies: bool) -> String {
    let mut out = format!("{} in the bundle\n", counted(messages.len() as u64, "message"));
    for (number, message) in (1..).zip(messages) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\nmessage {number}: {}", message.id);
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "  {name:<13}  {text}");
        };
        line("bridge", harmless(message.bridge.as_str()));
        line("exchange", exchange(message.exchange.as_str()));
        line("routing key", harmless(message.routing_key.as_str()));
        line("due", format!("{} ({} ms)", moment(message.due), message.due));
        line("left", compact(message.left));
        line("accepted at", format!("{} ({} ms)", moment(message.accepted_at), message.accepted_at));
        line("hops", message.hops.to_string());
        if let Some(since) = message.refused_since {
            line("refused since", format!("{} ({since} ms)", moment(since)));
        }
        if !message.key.as_bytes().is_empty() {
            line("key", harmless(message.key.as_str()));
        }
        match properties::decode(&message.properties) {
            Some(props) => words::lines(&props).into_iter().for_each(|text| line("property", text)),
            None => line("properties", "cannot be read".to_owned()),
        }
        line("body", counted(message.body.len() as u64, "byte"));
        if bodies && !message.body.is_empty() {
            out.push_str(&body(&message.body));
            out.push('\n');
        }
    }
    out
}

/// A body for a terminal: line breaks and tabs are kept.
fn body(body: &Bytes) -> String {
    match words::bytes(body) {
        Value::String(text) => text.split('\n').map(shown_line).collect::<Vec<_>>().join("\n"),
        _ => format!("base64: {}", BASE64_STANDARD.encode(body)),
    }
}

fn shown_line(line: &str) -> String {
    line.split('\t').map(harmless).collect::<Vec<_>>().join("\t")
}

fn as_json(message: &Message, bodies: bool) -> Value {
    let Message {
        id,
        bridge,
        exchange,
        routing_key,
        due,
        left,
        accepted_at,
        hops,
        refused_since,
        key,
        properties: props,
        body,
    } = message;
    let mut object = json!({
        "id": id.to_string(),
        "bridge": bridge.as_str(),
        "exchange": exchange.as_str(),
        "routing_key": routing_key.as_str(),
        "due": moment(*due),
        "due_ms": due.0,
        "left_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        "accepted_at": moment(*accepted_at),
        "accepted_at_ms": accepted_at.0,
        "hops": hops,
        "refused_since_ms": refused_since.map(|since| since.0),
        "key": key.as_str(),
        "properties": properties::decode(props).map(|props| words::as_json(&props)),
        "body_bytes": body.len(),
    });
    if let Some(object) = object.as_object_mut().filter(|_| bodies) {
        object.insert("body".to_owned(), words::bytes(body));
    }
    object
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lapin::BasicProperties;
    use ulid::Ulid;

    use super::*;
    use crate::domain::time::UnixMillis;

    fn message() -> Message {
        Message {
            id: Ulid(42),
            bridge: "orders".into(),
            exchange: "orders.delayed".into(),
            routing_key: "order.created".into(),
            due: UnixMillis(1_767_225_600_000),
            left: Duration::from_millis(1_500),
            accepted_at: UnixMillis(1_767_225_590_000),
            hops: 3,
            refused_since: None,
            key: "k\n".into(),
            properties: properties::encode(&BasicProperties::default().with_priority(7)),
            body: Bytes::from_static(b"a\x1bb\nc"),
        }
    }

    #[test]
    fn a_message_is_told_in_full_and_its_body_only_on_demand() {
        let text = describe(&[message()], false);
        for part in
            ["2026-01-01T00:00:00.000Z (1767225600000 ms)", "1s500ms", "k\\n", "priority: 7", "5 bytes"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("\\u{1b}b"));
        assert!(describe(&[message()], true).ends_with("a\\u{1b}b\nc\n"));
        assert_eq!(as_json(&message(), true)["body"], "a\x1bb\nc");
        assert_eq!(as_json(&message(), false).get("body"), None);
    }

    #[test]
    fn bundles_are_read_raw_and_in_base64() {
        let raw = bundle::encode(&[message()]).to_vec();
        let armoured = format!("{}\n", BASE64_STANDARD.encode(&raw));
        assert_eq!(unarmoured(armoured.into_bytes()), raw);
        assert_eq!(unarmoured(raw.clone()), raw);
        assert_eq!(unarmoured(b"abcd".to_vec()), b"abcd");
    }
}
