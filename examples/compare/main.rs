//! The comparison behind `make bench`: measures each scheme in turn, several rounds of it, and writes what it finds into
//! `docs/performance.md`. `scripts/bench` starts a broker for it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it measures, and how far it is, is its output"
)]

mod backlog;
mod burst;
mod ceiling;
mod conditions;
mod experiment;
mod fairness;
#[cfg(test)]
mod fake;
mod idle;
mod ladders;
mod measuring;
mod node;
mod page;
mod probe;
mod rates;
mod samples;
mod sidecar;
mod soak;
mod statistics;
mod watching;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use leveret::bench::plot;

use crate::experiment::{Experiment, Extent, Findings};
use crate::measuring::{Bench, Run};
use crate::node::Node;
use crate::sidecar::Sidecar;

/// Measures Leveret and what people would use instead, each in turn.
#[derive(Debug, Parser)]
struct Options {
    /// What to measure [default: rates, ceiling and burst]
    #[arg(value_enum)]
    experiments: Vec<Experiment>,
    /// How often; `backlog`, `soak` and `idle` are measured once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How long each run of `rates`, `ceiling`, `workers` and `backlog` publishes, and `idle` looks on [default: 60; of
    /// `ceiling` and `workers` 40]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Where `ceiling` begins, in messages a second: to leave out what surely passes
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Messages in a burst, and of the crowd of `fairness`
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    burst: u64,
    /// Messages of 1 KiB that wait in `backlog`
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pending: u64,
    /// How long `soak` publishes
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    soak_minutes: u64,
    /// Messages a second that `soak` publishes
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    soak_rate: u64,
    /// Which schemes `rates`, `ceiling` and `burst` compare
    #[arg(long, value_delimiter = ',', default_value = "direct,relay,leveret,cascade")]
    schemes: Vec<String>,
    /// The page to write to; pictures go to the folder beside it that has its name
    #[arg(long, default_value = "docs/performance.md")]
    page: PathBuf,
    /// Where to leave the report of each run
    #[arg(long, default_value = "target/bench")]
    reports: PathBuf,
    /// The binary
    #[arg(long, default_value = "target/release/leveret")]
    leveret: PathBuf,
    /// The broker
    #[arg(long, env = "LEVERET_AMQP__URI", hide_env_values = true)]
    amqp: Option<String>,
    /// The broker's directory, as `scripts/broker-node` has it
    #[arg(long, value_name = "DIR")]
    node: Option<PathBuf>,
    #[command(flatten)]
    given: conditions::Given,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let experiments = options.in_order();
    // Not after an hour of measuring.
    for experiment in &experiments {
        page::replaced(&read(&options.page)?, experiment.name(), "")?;
    }
    fs::create_dir_all(&options.reports)
        .with_context(|| format!("cannot create {}", options.reports.display()))?;

    let mut empty = Vec::new();
    for experiment in experiments {
        let findings = options.find(experiment).unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", experiment.name());
            Findings::default()
        });
        println!("\n{}\n\n{}", experiment.name(), findings.text);
        match options.conditions(experiment, &findings) {
            Some(conditions) => write(&options.page, experiment, &findings, &conditions)?,
            None => empty.push(experiment.name()),
        }
    }
    ensure!(
        empty.is_empty(),
        "nothing was measured of {}, and the page is as it was there: see {}",
        empty.join(", "),
        options.reports.display()
    );
    Ok(())
}

impl Options {
    /// What to measure. A backlog is there to stay, so nothing comes after it.
    fn in_order(&self) -> Vec<Experiment> {
        let mut experiments = self.experiments.clone();
        if experiments.is_empty() {
            experiments.extend(Experiment::COMPARISONS);
        }
        experiments.sort_by_key(|experiment| *experiment == Experiment::Backlog);
        experiments
    }

    fn extent(&self) -> Extent {
        Extent {
            schemes: self.schemes.clone(),
            rounds: self.rounds.into(),
            seconds: self.seconds,
            from: self.from,
            burst: self.burst,
            pending: self.pending,
            soak_minutes: self.soak_minutes,
            soak_rate: self.soak_rate,
        }
    }

    /// What is computed needs no broker.
    fn find(&self, experiment: Experiment) -> Result<Findings> {
        if experiment == Experiment::Ladders {
            return ladders::run();
        }
        let node = Node::open(self.node.as_deref().context("--node names no broker")?)?;
        let bench = Bench {
            leveret: self.leveret.clone(),
            amqp: self.amqp.clone().context("--amqp names no broker")?,
            broker_pid: node.pid()?,
            leveret_pid: None,
            reports: self.reports.clone(),
        };
        measure(experiment, &self.extent(), &bench, &node)
    }

    /// The line below what was found; none where nothing was.
    fn conditions(&self, experiment: Experiment, findings: &Findings) -> Option<String> {
        if experiment == Experiment::Ladders {
            return (!findings.text.is_empty())
                .then(|| conditions::computed(&self.given, &ladders::parameters()));
        }
        let rounds = experiment.has_rounds().then_some(self.rounds.into());
        Some(conditions::describe(&self.given, findings.broker.as_ref()?, rounds))
    }
}

/// Measures, with a Leveret of the default configuration where the schemes are compared.
fn measure(experiment: Experiment, extent: &Extent, bench: &Bench, node: &Node) -> Result<Findings> {
    let shared = experiment.compares().then(|| Sidecar::start(bench, "leveret", "")).transpose()?;
    let bench = Bench { leveret_pid: shared.as_ref().map(Sidecar::pid), ..bench.clone() };
    let mut measure = |run: &Run| bench.measure(run);
    match experiment {
        Experiment::Ladders => ladders::run(),
        Experiment::Rates => Ok(rates::run(extent, &mut measure)),
        Experiment::Ceiling => Ok(ceiling::run(extent, &mut measure)),
        Experiment::Burst => Ok(burst::run(extent, &mut measure)),
        Experiment::Workers => Ok(workers::run(extent, &bench)),
        Experiment::Fairness => Ok(fairness::run(extent, &bench)),
        Experiment::Backlog => backlog::run(extent, &bench, node),
        Experiment::Soak => soak::run(extent, &bench, node),
        Experiment::Idle => idle::run(extent, &bench, node),
    }
}

/// Writes a section, and its pictures.
fn write(page: &Path, experiment: Experiment, findings: &Findings, conditions: &str) -> Result<()> {
    let mut section = findings.text.trim_end().to_owned();
    let folder = page.with_extension("");
    let folder_name = folder.file_name().unwrap_or_default().to_string_lossy();
    for (name, reports) in &findings.plots {
        if reports.is_empty() {
            continue;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        save(&folder.join(format!("{name}.svg")), &plot::svg(reports))?;
        section.push_str(&format!(
            "\n\n![Lateness over time and its distribution: {name}]({folder_name}/{name}.svg)"
        ));
    }
    section.push_str(&format!("\n\n{conditions}"));
    // Read again: measuring took long, and somebody may have written to the page.
    save(page, &page::replaced(&read(page)?, experiment.name(), &section)?)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn save(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
