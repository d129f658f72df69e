//! What Leveret and the broker take while nothing is published.

mod activity;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use leveret::bench::figure::{grouped, rounded};

use self::activity::Activity;
use crate::experiment::{Extent, Findings};
use crate::measuring::Bench;
use crate::node::Node;
use crate::page::{cell, table};
use crate::sidecar::Sidecar;

/// The 22 levels of the default ladder and three more, each of which is a queue.
const CONFIG: &str = "\
namespace: idle
ladder: { preset: default, extra: [30m, 24h, 7d] }
bridges:
  - { name: one, entry: { exchange: idle-one }, target: { exchange: '' } }
  - { name: two, entry: { exchange: idle-two }, target: { exchange: '' } }
";
const LEVELS: u64 = 25;

/// How long it is looked on.
const SECONDS: u64 = 60;
/// What was started, or declared, goes on working for so long.
const SETTLE: Duration = Duration::from_secs(30);

/// What a process takes of each second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// Of one core.
    cpu_percent: f64,
    /// How often one of its threads began to wait.
    waits: f64,
}

pub(crate) fn run(extent: &Extent, bench: &Bench, node: &Node) -> Result<Findings> {
    let time = Duration::from_secs(extent.seconds.unwrap_or(SECONDS));
    let [alone] = paces([bench.broker_pid], time)?;
    let sidecar = Sidecar::start(bench, "idle-leveret", CONFIG)?;
    let [broker, leveret] = paces([bench.broker_pid, sidecar.pid()], time)?;
    Ok(Findings {
        text: text(time, alone, broker, leveret),
        plots: Vec::new(),
        broker: Some(node.product()?),
    })
}

/// What these processes take, once they have settled.
fn paces<const N: usize>(pids: [u32; N], time: Duration) -> Result<[Pace; N]> {
    sleep(SETTLE);
    let started = Instant::now();
    let read = || pids.map(Activity::of).into_iter().collect::<Result<Vec<_>>>();
    let before = read()?;
    sleep(time);
    let after = read()?;
    let took = started.elapsed();
    let paces = before.iter().zip(&after).map(|(before, after)| pace(after.since(before), took));
    let paces: Vec<_> = paces.collect();
    paces.try_into().map_err(|_| anyhow::anyhow!("not every process was read"))
}

fn pace((on_cpu, waits): (Duration, u64), took: Duration) -> Pace {
    let seconds = took.as_secs_f64();
    Pace { cpu_percent: on_cpu.as_secs_f64() / seconds * 100.0, waits: waits as f64 / seconds }
}

fn text(time: Duration, alone: Pace, broker: Pace, leveret: Pace) -> String {
    let figures = |pace: Option<Pace>| {
        [
            cell(pace, |pace| format!("{} %", rounded(pace.cpu_percent))),
            cell(pace, |pace| rounded(pace.waits)),
        ]
    };
    let row = |name: &str, broker: Pace, leveret: Option<Pace>| {
        [vec![name.to_owned()], figures(Some(broker)).to_vec(), figures(leveret).to_vec()].concat()
    };
    let head =
        ["", "broker: CPU, of one core", "waits a second", "Leveret: CPU, of one core", "waits a second"];
    let rows = [row("no Leveret", alone, None), row("Leveret", broker, Some(leveret))];
    format!(
        "Nothing is published, for {} s; a ladder of {LEVELS} levels and 2 bridges, quorum queues. A wait is that of a thread \
         that has nothing more to do: what wakes it costs time.\n\n{}",
        grouped(time.as_secs()),
        table(&head, &rows)
    )
}

#[cfg(test)]
mod tests {
    use leveret::config::Config;

    use super::*;

    #[test]
    fn what_is_said_of_the_configuration_is_so() {
        let config = Config::from_yaml(CONFIG).unwrap();
        assert_eq!((config.ladder.levels.len() as u64, config.bridges.len()), (LEVELS, 2));
    }

    #[test]
    fn a_pace_is_that_of_a_second() {
        let pace = pace((Duration::from_millis(30), 50), Duration::from_secs(10));
        assert_eq!((rounded(pace.cpu_percent), rounded(pace.waits)), ("0.300".to_owned(), "5.00".to_owned()));
        let text = text(Duration::from_secs(60), Pace { cpu_percent: 2.0, waits: 400.0 }, pace, pace);
        for row in [
            "| no Leveret | 2.00 % | 400 | – | – |",
            "| Leveret | 0.300 % | 5.00 | 0.300 % | 5.00 |",
            "for 60 s; a ladder of 25 levels",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }
}
