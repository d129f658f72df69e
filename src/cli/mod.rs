//! The commands. Data goes to standard output, logs and errors go to standard error.

mod bench;
mod broker;
mod exit;
mod healthcheck;
mod inspect;
mod output;
mod parked;
mod print;
mod properties;
mod publish;
mod run;
mod stack;
mod status;
mod topology;
mod validate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use self::exit::{Exit, Outcome};
use crate::config::{self, Config, ConfigErrors};

const EXIT_CODES: &str = "\
Exit codes:
  0   done, and all is well
  1   something failed, or is not as it should be
  2   wrong usage
  69  the broker cannot be reached
  75  `run` was stopped, and not everything was settled in time
  78  the configuration is wrong, or contradicts what the broker holds

Start with:
  leveret validate --config leveret.yaml
  leveret run --config leveret.yaml
  leveret publish --routing-key QUEUE --delay 5s --body hello";

/// Delayed messages for any stock RabbitMQ.
#[derive(Debug, Parser)]
#[command(name = "leveret", version, about, after_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar until it is told to stop (SIGTERM, SIGINT)
    Run(ConfigArgs),
    /// Check a configuration without a broker, and tell everything that is wrong with it at once
    #[command(after_help = validate::EXAMPLES)]
    Validate(ConfigArgs),
    /// Print what a configuration comes to
    #[command(after_help = print::EXAMPLES)]
    Print(print::PrintArgs),
    /// Publish messages to a bridge, delayed or not
    #[command(after_help = publish::EXAMPLES)]
    Publish(publish::PublishArgs),
    /// Show what is in a bundle, the body of a message in a level queue or the due queue
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::InspectArgs),
    /// Show how Leveret is doing: broker, queues, consumers, what waits and what is parked
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArgs),
    /// Ask a running Leveret on this machine whether it is ready
    #[command(after_help = healthcheck::EXAMPLES)]
    Healthcheck(healthcheck::HealthcheckArgs),
    /// List, retry or discard messages that could not be delivered
    #[command(subcommand, after_help = parked::EXAMPLES)]
    Parked(parked::ParkedCommand),
    /// Remove what an earlier configuration left in the broker
    #[command(subcommand, after_help = topology::EXAMPLES)]
    Topology(topology::TopologyCommand),
    /// Measure a broker: how late messages come, and what that costs, with Leveret and with other schemes
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::BenchArgs>),
    /// The relay of `bench --scheme relay`
    #[command(name = crate::bench::relay::COMMAND, hide = true)]
    BenchRelay(bench::RelayArgs),
}

/// Where the configuration is.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// Configuration file (YAML); also by LEVERET_CONFIG. Without one: amqp://localhost and the default bridge
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    fn load(&self) -> Result<Config, ConfigErrors> {
        config::load(self.config.as_deref(), config::environment())
    }

    /// What the configuration is called in a sentence.
    fn name(&self) -> String {
        config::file(self.config.as_deref(), config::environment())
            .map_or_else(|| "the configuration without a file".to_owned(), |path| path.display().to_string())
    }
}

/// The command line, for those who only want to know what is in it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line and returns the process's exit code.
#[must_use]
pub fn main() -> ExitCode {
    stack::with_room(|| {
        let cli = match Cli::try_parse() {
            Ok(cli) => cli,
            Err(error) => return misused(&error),
        };
        let exit = dispatch(cli.command).unwrap_or_else(|stop| {
            output::complain(&stop.why);
            stop.exit
        });
        exit.into()
    })
}

/// Help, or what is wrong with the command line. The parser repeats arguments, and one may be a URI with a password.
fn misused(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let masked = output::masked(&text);
    if masked == text {
        error.exit()
    }
    output::note(&masked.trim_end());
    Exit::Usage.into()
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Print(args) => print::run(&args),
        Command::Publish(args) => publish::run(args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Healthcheck(args) => healthcheck::run(&args),
        Command::Parked(command) => parked::run(command),
        Command::Topology(command) => topology::run(&command),
        Command::Bench(args) => bench::run(&args),
        Command::BenchRelay(args) => bench::relay(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_explains_itself() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
