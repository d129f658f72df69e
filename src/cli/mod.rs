//! The commands. Data goes to standard output, logs go to standard error.

use std::process::ExitCode;

/// Runs the command line and returns the process's exit code.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
