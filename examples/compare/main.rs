//! The comparison behind `make bench`: measures each scheme in turn, several rounds of it, and writes what it finds into
//! `docs/performance.md`. `scripts/bench` starts a broker and Leveret for it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it measures, and how far it is, is its output"
)]

mod burst;
mod ceiling;
mod conditions;
mod experiment;
mod fairness;
#[cfg(test)]
mod fake;
mod measuring;
mod page;
mod rates;
mod samples;
mod sidecar;
mod statistics;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use leveret::bench::plot;

use crate::experiment::{Experiment, Extent, Findings};
use crate::measuring::Bench;

/// Measures Leveret and what people would use instead, each in turn.
#[derive(Debug, Parser)]
struct Options {
    /// What to measure [default: all]
    #[arg(value_enum)]
    experiments: Vec<Experiment>,
    /// How often
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How long each run of `rates` and `ceiling` publishes [default: 60 and 40]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Where `ceiling` begins, in messages a second: to leave out what surely passes
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Messages in a burst
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    burst: u64,
    /// Which schemes
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
    amqp: String,
    /// The broker's process
    #[arg(long)]
    broker_pid: u32,
    /// The process of the Leveret that serves that broker
    #[arg(long)]
    leveret_pid: u32,
    #[command(flatten)]
    given: conditions::Given,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let experiments = if options.experiments.is_empty() {
        vec![
            Experiment::Rates,
            Experiment::Ceiling,
            Experiment::Burst,
            Experiment::Workers,
            Experiment::Fairness,
        ]
    } else {
        options.experiments.clone()
    };
    // Not after an hour of measuring.
    for experiment in &experiments {
        page::replaced(&read(&options.page)?, experiment.name(), "")?;
    }
    fs::create_dir_all(&options.reports)
        .with_context(|| format!("cannot create {}", options.reports.display()))?;

    let extent = Extent {
        schemes: options.schemes.clone(),
        rounds: options.rounds.into(),
        seconds: options.seconds,
        from: options.from,
        burst: options.burst,
    };
    let bench = Bench {
        leveret: options.leveret.clone(),
        amqp: options.amqp.clone(),
        broker_pid: options.broker_pid,
        leveret_pid: options.leveret_pid,
        reports: options.reports.clone(),
    };
    let mut empty = Vec::new();
    for experiment in experiments {
        let mut measure = |run: &measuring::Run| bench.measure(run);
        let findings = match experiment {
            Experiment::Rates => rates::run(&extent, &mut measure),
            Experiment::Ceiling => ceiling::run(&extent, &mut measure),
            Experiment::Burst => burst::run(&extent, &mut measure),
            Experiment::Workers => workers::run(&extent, &bench),
            Experiment::Fairness => fairness::run(&extent, &bench),
        };
        println!("\n{}\n\n{}", experiment.name(), findings.text);
        match &findings.broker {
            Some(broker) => {
                let conditions = conditions::describe(&options.given, broker, extent.rounds);
                write(&options.page, experiment, &findings, &conditions)?;
            }
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
