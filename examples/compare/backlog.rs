//! Many messages that wait, far from due: what they cost, and what a start takes while they do.

mod text;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use leveret::bench::report::Report;
use leveret::telemetry::process::{self, Whose};

use crate::experiment::{Extent, Findings, LONGEST};
use crate::measuring::{Bench, Run};
use crate::node::Node;
use crate::probe::Probe;
use crate::samples::{Outcome, Samples};
use crate::sidecar::Sidecar;

/// Names of its own: what waits stays with the broker, and must be in nobody's way.
const CONFIG: &str = "\
namespace: backlog
bridges:
  - name: backlog
    entry: { exchange: backlog-entry }
    target: { exchange: '' }
";
const ENTRY: &str = "backlog-entry";
/// How the names of Leveret's queues begin.
const QUEUES: &str = "backlog.";

const SIZE: usize = 1 << 10;
/// Messages a second of a load.
const RATE: u64 = 1_000;
/// How long it publishes.
const SECONDS: u64 = 60;
/// Filling is no slower than this.
const SLOWEST_FILL: u64 = 1_000;
/// The broker goes on writing for so long after the last message.
const SETTLE: Duration = Duration::from_secs(30);

/// The loads: while nothing waits, while all waits, and while all waits after the broker's start.
const LOADS: [&str; 3] = ["none", "waiting", "started"];

/// What was found out, but for the loads.
#[derive(Debug)]
struct Figures {
    filled_in: Duration,
    before: Sizes,
    after: Sizes,
    leveret: Start,
    broker: Start,
}

/// What is taken, in bytes.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    broker: u64,
    /// The processes of the queues, which are a part of the broker.
    queues: u64,
    disk: u64,
    leveret: u64,
    /// The most that it ever was.
    leveret_peak: u64,
}

/// How long something took to be ready, and until a message came out. Both begin with its start.
#[derive(Debug, Clone, Copy)]
struct Start {
    ready: Duration,
    delivered: Duration,
}

pub(crate) fn run(extent: &Extent, bench: &Bench, node: &Node) -> Result<Findings> {
    let mut samples = Samples::default();
    let [none, waiting, started] = LOADS;
    let sidecar = Sidecar::start(bench, "backlog-leveret", CONFIG)?;
    // A broker that has just been started is slow, and that must not make what waits look cheap.
    load("warm-up", extent, bench, &sidecar).map_err(Error::msg)?;
    samples.push(extent.pending, none, load(none, extent, bench, &sidecar));

    sleep(SETTLE);
    let before = sizes(bench, node, &sidecar)?;
    let filled_in = fill(extent, bench, &sidecar)?;
    sleep(SETTLE);
    let after = sizes(bench, node, &sidecar)?;
    samples.push(extent.pending, waiting, beside(extent, load(waiting, extent, bench, &sidecar)));
    // The load is part of what it has ever had to keep.
    let after = Sizes { leveret_peak: sizes(bench, node, &sidecar)?.leveret_peak, ..after };

    sidecar.kill()?;
    let (sidecar, leveret) = start_leveret(bench)?;
    tell("leveret", leveret);
    node.stop()?;
    let broker = start_broker(bench, node)?;
    tell("the broker", broker);
    let bench = Bench { broker_pid: node.pid()?, ..bench.clone() };
    samples.push(extent.pending, started, beside(extent, load(started, extent, &bench, &sidecar)));

    let figures = Figures { filled_in, before, after, leveret, broker };
    Ok(Findings {
        text: text::of(&samples, &figures, extent),
        plots: vec![("backlog".to_owned(), plot(&samples, extent))],
        broker: Some(node.product()?),
    })
}

fn load(name: &str, extent: &Extent, bench: &Bench, sidecar: &Sidecar) -> Outcome {
    let seconds = extent.seconds.unwrap_or(SECONDS);
    bench.measure(&Run {
        messages: RATE * seconds,
        rate: RATE,
        size: SIZE,
        lasts: Duration::from_secs(seconds) + LONGEST,
        config: Some(sidecar.config().to_owned()),
        leveret_pid: Some(sidecar.pid()),
        ..Run::new(format!("backlog-{name}"), "leveret")
    })
}

/// A load knows nothing of what waits since another run.
fn beside(extent: &Extent, outcome: Outcome) -> Outcome {
    let mut report = outcome?;
    report.settings.pending = extent.pending;
    Ok(report)
}

/// Publishes what is to wait, and behind it one message that is not: when that comes, Leveret has taken all. How long that
/// took.
fn fill(extent: &Extent, bench: &Bench, sidecar: &Sidecar) -> Result<Duration> {
    let started = Instant::now();
    let outcome = bench.measure(&Run {
        messages: 1,
        rate: 1,
        size: SIZE,
        delay: "1ms".to_owned(),
        pending: extent.pending,
        lasts: Duration::from_secs(extent.pending / SLOWEST_FILL),
        config: Some(sidecar.config().to_owned()),
        leveret_pid: Some(sidecar.pid()),
        ..Run::new("backlog-fill".to_owned(), "leveret")
    });
    let took = started.elapsed();
    ensure!(outcome.map_err(Error::msg)?.delivered == 1, "the message behind all that wait has not come");
    Ok(took)
}

fn sizes(bench: &Bench, node: &Node, sidecar: &Sidecar) -> Result<Sizes> {
    let broker = process::usage(Whose::Of(bench.broker_pid));
    let leveret = process::usage(Whose::Of(sidecar.pid()));
    Ok(Sizes {
        broker: broker.resident_bytes.context("cannot read the memory of the broker")?,
        queues: node.queues_bytes(QUEUES)?,
        disk: node.disk_bytes()?,
        leveret: leveret.resident_bytes.context("cannot read the memory of leveret")?,
        leveret_peak: leveret.resident_peak_bytes.context("cannot read the memory of leveret")?,
    })
}

/// Starts it with a message that was published while there was none.
fn start_leveret(bench: &Bench) -> Result<(Sidecar, Start)> {
    let probe = Probe::publish(&bench.amqp, ENTRY)?;
    let started = Instant::now();
    let mut sidecar = Sidecar::spawn(bench, "backlog-leveret-again", CONFIG)?;
    sidecar.wait_until_ready()?;
    let ready = started.elapsed();
    Ok((sidecar, Start { ready, delivered: probe.delivered()?.duration_since(started) }))
}

/// Starts it, and publishes a message as soon as it takes one.
fn start_broker(bench: &Bench, node: &Node) -> Result<Start> {
    let (ready, (at, probe)) = node.start(|| Ok((Instant::now(), Probe::publish(&bench.amqp, ENTRY)?)))?;
    Ok(Start { ready, delivered: ready + probe.delivered()?.duration_since(at) })
}

fn tell(what: &str, Start { ready, delivered }: Start) {
    eprintln!(
        "backlog: {what} was ready {ready:.2?} after its start, and the first message came after {delivered:.2?}"
    );
}

/// With and without; a third would have no name that tells it from the second.
fn plot(samples: &Samples, extent: &Extent) -> Vec<Report> {
    let outcomes = LOADS.iter().take(2).flat_map(|load| samples.outcomes(extent.pending, load));
    outcomes.filter_map(|outcome| outcome.as_ref().ok()).cloned().collect()
}
