//! `leveret bench`: what a broker gives, with Leveret and with what people would use instead.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::exit::{Exit, Outcome, Stop};
use super::output::{note, print, print_json};
use crate::bench::load::{Delays, Spread};
use crate::bench::report::Report;
use crate::bench::scheme::{Bridge, Scheme};
use crate::bench::{self, BenchError, Plan, plot, relay};
use crate::config::{self, Config, QueueType};
use crate::domain::duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret bench --amqp amqp://localhost --rate 1000 --messages 60000
      through the default bridge of a Leveret that runs already, delays of 1 to 16 s
  leveret bench --scheme relay --rate 1000 --messages 60000 --json relay.json --plot relay.svg
      the same through a sidecar that does nothing: what any sidecar costs on this broker
  leveret bench --delay 30s --spread burst --messages 100000 --rate 0
      100,000 messages that are all due within the same second
  leveret bench --pending 1000000 --size 1024 --broker-pid $(pgrep -o beam.smp) --leveret-pid $(pgrep -o leveret)
      with a million messages waiting, and what that takes

It declares queues of its own (leveret-bench.*), and deletes them when all has come. Messages of --pending stay in \
Leveret's queues until they are due, 6 to 12 hours later, and then vanish in the queue leveret-bench.leveret.*.pending, \
which is left for that: measure on a broker that may be thrown away.
A password in --amqp shows in the list of processes: LEVERET_AMQP__URI does not.
Ctrl-C ends the run, and prints what was measured until then.
Exit code 1 where a message was lost or early.";

/// How long nothing may come, once everything is due, before the rest counts as lost. Longer than RabbitMQ's pause before
/// it tries a dead letter again.
const PATIENCE: &str = "200s";

/// The configuration's key for the broker, as a variable.
const AMQP_URI: &str = "LEVERET_AMQP__URI";

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    config: super::ConfigArgs,
    /// The broker, instead of what the configuration says
    #[arg(long, value_name = "URI")]
    amqp: Option<String>,
    /// What is measured
    #[arg(long, value_enum, default_value_t = Scheme::Leveret)]
    scheme: Scheme,
    /// For the scheme leveret: publish to this bridge's entry exchange [default: the first bridge]
    #[arg(long, value_name = "NAME")]
    bridge: Option<String>,
    /// Messages to publish and wait for
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: u64,
    /// Messages to publish a second; 0 for as many as the broker confirms
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    rate: u64,
    /// Bytes of a body: JSON, behind 16 bytes that say which message it is
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = size)]
    size: usize,
    /// The delay of each message: one, or a range of them. The cascade is given whole seconds, since it knows no others
    #[arg(long, value_name = "FROM..TO", default_value = "1s..16s", value_parser = delays)]
    delay: (Duration, Duration),
    /// How the delays are spread over the range
    #[arg(long, value_enum, default_value_t = Spread::Uniform)]
    spread: Spread,
    /// Publish so many messages before, which only wait meanwhile
    #[arg(long, value_name = "N", default_value_t = 0)]
    pending: u64,
    /// The type of the queues that are declared: quorum or classic
    #[arg(long, value_name = "TYPE", default_value = "quorum", value_parser = queue_type)]
    queue_type: QueueType,
    /// The id of the broker's process (beam.smp), for its CPU time, memory and disk writes
    #[arg(long, value_name = "PID")]
    broker_pid: Option<u32>,
    /// The id of Leveret's process, for the same. The relay's is known
    #[arg(long, value_name = "PID")]
    leveret_pid: Option<u32>,
    /// What has not come this long after everything was due, and after the last message, is lost
    #[arg(long, value_name = "DURATION", default_value = PATIENCE, value_parser = duration::parse)]
    patience: Duration,
    /// Write the report as JSON to this file; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw lateness over time, and its distribution, to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn size(text: &str) -> Result<usize, String> {
    const LARGEST: usize = 16 * 1_024 * 1_024;
    let size = text.parse().map_err(|_| "write a number of bytes".to_owned())?;
    if size > LARGEST { Err(format!("at most {LARGEST}: RabbitMQ takes none larger")) } else { Ok(size) }
}

fn delays(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let parse = |text| duration::parse(text).map_err(|error| error.to_string());
    let (from, to) = (parse(from)?, parse(to)?);
    if from > to { Err("write the shorter one first".to_owned()) } else { Ok((from, to)) }
}

fn queue_type(text: &str) -> Result<QueueType, String> {
    [QueueType::Quorum, QueueType::Classic]
        .into_iter()
        .find(|kind| kind.as_str() == text)
        .ok_or_else(|| format!("it is one of {}", QueueType::NAMES.join(", ")))
}

/// The relay that `bench --scheme relay` starts.
#[derive(Debug, Args)]
pub(super) struct RelayArgs {
    #[command(flatten)]
    config: super::ConfigArgs,
    #[arg(long)]
    from: String,
    #[arg(long)]
    to: String,
}

pub(super) fn relay(args: &RelayArgs) -> Outcome {
    let config = args.config.load()?;
    runtime()?.block_on(relay::run(&config.amqp, &args.from, &args.to))?;
    Ok(Exit::Success)
}

pub(super) fn run(args: &BenchArgs) -> Outcome {
    let plan = plan(args)?;
    let report = runtime()?.block_on(measure(&plan))?;
    publish(args, &report)?;
    let whole = report.lost == 0 && report.early == 0;
    Ok(if whole { Exit::Success } else { Exit::Failure })
}

/// Several threads: what measures must not wait for what publishes.
fn runtime() -> Result<tokio::runtime::Runtime, Stop> {
    tokio::runtime::Runtime::new()
        .map_err(|error| Stop::failure(format!("cannot start its threads: {error}")))
}

async fn measure(plan: &Plan) -> Result<Report, Stop> {
    let interrupt = CancellationToken::new();
    let ended = interrupt.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            ended.cancel();
        }
    });
    Ok(bench::run(plan, &interrupt).await?)
}

fn publish(args: &BenchArgs, report: &Report) -> Result<(), Stop> {
    let cannot = |path: &PathBuf, error: &dyn std::fmt::Display| {
        Stop::failure(format!("cannot write {}: {error}", path.display()))
    };
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::svg(std::slice::from_ref(report)))
            .map_err(|error| cannot(path, &error))?;
    }
    match &args.json {
        Some(path) if path.as_os_str() == "-" => return print_json(report),
        Some(path) => {
            let json = serde_json::to_vec_pretty(report).map_err(|error| cannot(path, &error))?;
            std::fs::write(path, json).map_err(|error| cannot(path, &error))?;
        }
        None => {}
    }
    if report.interrupted {
        note(&"interrupted: this is what was measured until then");
    }
    print(&report.table())
}

fn plan(args: &BenchArgs) -> Result<Plan, Stop> {
    let instead = args.amqp.clone().map(|uri| (AMQP_URI, uri));
    let environment = config::environment().filter(|(name, _)| instead.is_none() || name != AMQP_URI);
    let given = instead.iter().map(|(name, uri)| ((*name).to_owned(), uri.clone()));
    let config = config::load(args.config.config.as_deref(), environment.chain(given))?;
    Ok(Plan {
        scheme: args.scheme,
        bridge: bridge(&config, args)?,
        messages: args.messages,
        rate: args.rate,
        size: args.size,
        delays: Delays { from: args.delay.0, to: args.delay.1, spread: args.spread },
        pending: args.pending,
        queue_type: args.queue_type,
        broker_pid: args.broker_pid,
        leveret_pid: args.leveret_pid,
        patience: args.patience,
        own_process: relay::Origin { config: args.config.config.clone(), variable: instead },
        amqp: config.amqp,
    })
}

fn bridge(config: &Config, args: &BenchArgs) -> Result<Bridge, Stop> {
    let wanted = args.bridge.as_ref();
    let bridge = config.bridges.iter().find(|bridge| wanted.is_none_or(|name| *name == bridge.name));
    let bridge = bridge.ok_or_else(|| {
        Stop::failure(format!("there is no bridge \"{}\"", wanted.map_or("", String::as_str)))
    })?;
    Ok(Bridge { entry: bridge.entry.exchange.clone(), target: bridge.target.exchange.clone() })
}

impl From<BenchError> for Stop {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Connect(error) => error.into(),
            error => Self::failure(error.to_string()),
        }
    }
}
