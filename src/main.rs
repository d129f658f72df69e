//! The `leveret` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    leveret::cli::main()
}
