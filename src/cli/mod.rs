//! The commands. Data goes to standard output, logs and errors go to standard error.

mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Config, ConfigErrors};

/// Delayed messages for any stock RabbitMQ.
#[derive(Debug, Parser)]
#[command(name = "leveret", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar until it is told to stop (SIGTERM, SIGINT)
    Run(ConfigArgs),
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
}

/// What a command ends with, in the numbers of `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// Done.
    Success = 0,
    /// Something else failed.
    Failure = 1,
    /// The broker cannot be reached.
    Unreachable = 69,
    /// Stopped, but not everything was settled in time.
    DeadlinePassed = 75,
    /// The configuration is wrong, or contradicts what the broker holds.
    Configuration = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Runs the command line and returns the process's exit code.
#[must_use]
pub fn main() -> ExitCode {
    // The parser itself prints help, and usage errors with code 2.
    let exit = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
    };
    exit.into()
}

/// Prints an error for the operator.
#[allow(
    clippy::print_stderr,
    reason = "errors of a command are for the terminal, also before logs are set up"
)]
fn complain(error: &impl std::fmt::Display) {
    eprintln!("leveret: {error}");
}
