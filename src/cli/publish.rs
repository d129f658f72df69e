//! `leveret publish`: publishes as an application would, and says what the broker made of it.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use super::exit::{Exit, Outcome, Stop};
use super::output::{counted, print};
use super::{ConfigArgs, broker};
use crate::amqp::failure::Failure;
use crate::amqp::publisher::{self, Outgoing, Verdict};
use crate::config::{BridgeConfig, Config};
use crate::domain::duration::{self, compact};
use crate::domain::header;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret publish --routing-key my-queue --delay 5s --body hello
      with the default configuration, the message comes out in the queue `my-queue`
  leveret publish --bridge orders --routing-key order.created --at 2030-01-01T09:00:00+01:00 \\
      --header tenant=a --property message_id=42 --property content_type=application/json \\
      --body-file order.json
  echo hello | leveret publish --routing-key my-queue --body-file - --count 1000 --delay 1m

Every message is confirmed by the broker and persistent, unless --property delivery_mode=1 is given. \
Exit code 1 where the broker did not take a message, or no queue took it: then Leveret has not declared \
the exchange (`leveret run` does), or the exchange is not an entry exchange of a bridge.";

/// Messages that are published before any of their confirms is waited for.
const BATCH: u64 = 500;

#[derive(Debug, Args)]
pub(super) struct PublishArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Publish to this bridge's entry exchange [default: the first bridge]
    #[arg(long, value_name = "NAME", conflicts_with = "exchange")]
    bridge: Option<String>,
    /// Publish to this exchange, whatever it is
    #[arg(long, value_name = "NAME")]
    exchange: Option<String>,
    /// The routing key; where a bridge's target is the default exchange, the name of the queue
    #[arg(long, short = 'k', value_name = "KEY")]
    routing_key: String,
    /// Deliver after this: sets the header x-delay, in milliseconds
    #[arg(long, value_name = "DURATION", conflicts_with = "at", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// Deliver at this moment, RFC 3339 with an offset: sets the header x-deliver-at
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<String>,
    /// A header, as text; can be repeated
    #[arg(long, short = 'H', value_name = "NAME=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
    /// A property: content_type, content_encoding, delivery_mode, priority, correlation_id, reply_to, expiration,
    /// message_id, timestamp, type, user_id or app_id; can be repeated
    #[arg(long, short = 'P', value_name = "NAME=VALUE", value_parser = pair)]
    property: Vec<(String, String)>,
    /// The body; empty unless given
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// The file with the body; `-` for standard input
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Publish so many of the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

fn moment(text: &str) -> Result<String, String> {
    let moment = text.parse::<jiff::Timestamp>();
    moment
        .map(|_| text.to_owned())
        .map_err(|_| "write it as 2030-01-01T09:00:00+01:00, or with Z for UTC".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    if name.is_empty() {
        return Err("write it as NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(args: PublishArgs) -> Outcome {
    let config = args.config.load()?;
    let exchange = exchange(&config, &args)?;
    let properties = properties(&args).map_err(|why| Stop::new(Exit::Usage, why))?;
    let message = Outgoing {
        exchange,
        routing_key: args.routing_key.clone(),
        properties,
        body: body(&args)?,
        mandatory: true,
    };
    broker::run(publish(config, args, message))
}

fn exchange(config: &Config, args: &PublishArgs) -> Result<String, Stop> {
    if let Some(exchange) = &args.exchange {
        return Ok(exchange.clone());
    }
    let wanted = |bridge: &&BridgeConfig| args.bridge.as_ref().is_none_or(|name| *name == bridge.name);
    config.bridges.iter().find(wanted).map(|bridge| bridge.entry.exchange.clone()).ok_or_else(|| {
        let names: Vec<_> = config.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
        let bridge = args.bridge.as_deref().unwrap_or_default();
        Stop::failure(format!("there is no bridge \"{bridge}\": configured are {}", names.join(", ")))
    })
}

fn body(args: &PublishArgs) -> Result<Bytes, Stop> {
    if let Some(text) = &args.body {
        return Ok(text.clone().into());
    }
    let Some(path) = &args.body_file else { return Ok(Bytes::new()) };
    let mut body = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().read_to_end(&mut body).map(|_| body)
    } else {
        std::fs::read(path)
    };
    read.map(Bytes::from)
        .map_err(|error| Stop::failure(format!("cannot read the body from {}: {error}", path.display())))
}

fn properties(args: &PublishArgs) -> Result<BasicProperties, String> {
    let mut headers = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(text.into());
    for (name, value) in &args.header {
        if name.len() > usize::from(u8::MAX) {
            return Err(format!("the name of header {name} is longer than 255 bytes"));
        }
        headers.insert(name.as_str().into(), text(value));
    }
    if let Some(delay) = args.delay {
        // What must not be early is rounded up.
        let millis = i64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        let value = i32::try_from(millis).map_or(AMQPValue::LongLongInt(millis), AMQPValue::LongInt);
        headers.insert(header::DELAY.into(), value);
    }
    if let Some(at) = &args.at {
        headers.insert(header::DELIVER_AT.into(), text(at));
    }
    let props = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
    args.property.iter().try_fold(props, |props, (name, value)| set(props, name, value))
}

fn set(props: BasicProperties, name: &str, value: &str) -> Result<BasicProperties, String> {
    if value.len() > usize::from(u8::MAX) {
        return Err(format!("property {name} is longer than 255 bytes"));
    }
    let number = |_| format!("property {name} must be a number, not {value:?}");
    Ok(match name {
        "content_type" => props.with_content_type(value.into()),
        "content_encoding" => props.with_content_encoding(value.into()),
        "delivery_mode" => props.with_delivery_mode(value.parse().map_err(number)?),
        "priority" => props.with_priority(value.parse().map_err(number)?),
        "correlation_id" => props.with_correlation_id(value.into()),
        "reply_to" => props.with_reply_to(value.into()),
        "expiration" => props.with_expiration(value.into()),
        "message_id" => props.with_message_id(value.into()),
        "timestamp" => props.with_timestamp(value.parse().map_err(number)?),
        "type" => props.with_type(value.into()),
        "user_id" => props.with_user_id(value.into()),
        "app_id" => props.with_app_id(value.into()),
        _ => {
            return Err(format!(
                "there is no property {name:?}: --help lists them; application data goes into --header"
            ));
        }
    })
}

async fn publish(config: Config, args: PublishArgs, message: Outgoing) -> Outcome {
    let link = broker::connect(&config).await?;
    let channel = link.confirming_channel().await?;
    let patience = config.delivery.confirm_timeout;
    let mut published = 0;
    let mut refused = None;
    while published < args.count && refused.is_none() {
        let size = (args.count - published).min(BATCH);
        let batch: Vec<_> = (0..size).map(|_| message.clone()).collect();
        let outcome = publisher::publish(&channel, &batch, patience).await;
        published += outcome.verdicts.iter().filter(|verdict| **verdict == Verdict::Confirmed).count() as u64;
        refused = match outcome.failure {
            Some(failure @ (Failure::Connection(_) | Failure::Unreadable(_))) => Some(failure.into()),
            Some(failure) => Some(Stop::failure(format!("{failure}{}", hint(&failure, &args)))),
            None => outcome.verdicts.iter().find_map(|verdict| unpublished(verdict, &args)),
        };
    }
    let to = format!("exchange \"{}\" with routing key \"{}\"", message.exchange, message.routing_key);
    if published > 0 {
        print(&format!("published {} to {to}{}\n", counted(published, "message"), when(&args)))?;
    }
    broker::close(link).await;
    match refused {
        None => Ok(Exit::Success),
        Some(stop) => Err(Stop::new(stop.exit, format!("cannot publish to {to}: {}", stop.why))),
    }
}

fn when(args: &PublishArgs) -> String {
    match (args.delay, &args.at) {
        (Some(delay), _) => format!(", due in {}", compact(delay)),
        (_, Some(at)) => format!(", due at {at}"),
        _ => String::new(),
    }
}

fn unpublished(verdict: &Verdict, args: &PublishArgs) -> Option<Stop> {
    match verdict {
        Verdict::Confirmed => None,
        Verdict::Returned { answer } if args.exchange.is_some() => {
            Some(Stop::failure(format!("no queue takes it (the broker answered {answer})")))
        }
        Verdict::Returned { answer } => Some(Stop::failure(format!(
            "no queue takes it (the broker answered {answer}): the bridge's ingress queue is not bound for this \
             routing key; a direct entry exchange takes only the keys in entry.keys, and `leveret run` binds them"
        ))),
        Verdict::Nacked => Some(Stop::failure("a queue refused it: it is full, or its leader is not there")),
        Verdict::Unknown => Some(Stop::failure(
            "the broker did not confirm it in time: it may have a memory or disk alarm, and it may have the message",
        )),
    }
}

fn hint(failure: &Failure, args: &PublishArgs) -> &'static str {
    match failure {
        Failure::Channel { code: 404, .. } if args.exchange.is_none() => {
            "; Leveret declares the exchange when it starts: run `leveret run` with this configuration"
        }
        Failure::Channel { code: 404, .. } => "; declare it, or choose a --bridge",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: PublishArgs,
    }

    fn args(line: &str) -> Result<PublishArgs, clap::Error> {
        let words = ["publish"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn delays_and_properties_are_what_applications_send() {
        let args = args("-k q --delay 90s -H a=b=c -P priority=3 -P message_id=42").unwrap();
        let props = properties(&args).unwrap();
        let headers = props.headers().as_ref().unwrap().inner();
        assert_eq!(headers.get("x-delay"), Some(&AMQPValue::LongInt(90_000)));
        assert_eq!(headers.get("a"), Some(&AMQPValue::LongString("b=c".into())));
        assert_eq!((props.priority(), props.delivery_mode()), (&Some(3), &Some(2)));
        assert_eq!(props.message_id().as_ref().unwrap().as_str(), "42");
    }

    #[test]
    fn long_delays_do_not_wrap_and_fractions_round_up() {
        let long = properties(&args("-k q --delay 30d").unwrap()).unwrap();
        let delay = crate::amqp::properties::header(&long, "x-delay");
        assert_eq!(delay, Some(&AMQPValue::LongLongInt(2_592_000_000)));
        let short = properties(&args("-k q --delay 1500us").unwrap()).unwrap();
        assert_eq!(crate::amqp::properties::header(&short, "x-delay"), Some(&AMQPValue::LongInt(2)));
    }

    #[test]
    fn what_means_nothing_is_wrong_usage() {
        for line in [
            "",
            "-k q --delay 5",
            "-k q --at tomorrow",
            "-k q --at 2030-01-01T09:00:00",
            "-k q --delay 5s --at 2030-01-01T09:00:00Z",
            "-k q --bridge a --exchange b",
            "-k q -H a",
            "-k q --count 0",
        ] {
            assert!(args(line).is_err(), "{line}");
        }
        for line in ["-k q -P priority=high", "-k q -P nonsense=1"] {
            assert!(properties(&args(line).unwrap()).is_err(), "{line}");
        }
    }

    #[test]
    fn the_first_bridge_is_the_default() {
        let config = Config::from_yaml(
            "bridges: [{name: a, entry: {exchange: ea}}, {name: b, entry: {exchange: eb}}]",
        )
        .unwrap();
        assert_eq!(exchange(&config, &args("-k q").unwrap()).unwrap(), "ea");
        assert_eq!(exchange(&config, &args("-k q --bridge b").unwrap()).unwrap(), "eb");
        assert_eq!(exchange(&config, &args("-k q --exchange x").unwrap()).unwrap(), "x");
        let unknown = exchange(&config, &args("-k q --bridge c").unwrap()).unwrap_err();
        assert!(unknown.why.contains("a, b"), "{}", unknown.why);
    }
}
