//! `leveret healthcheck`: asks the admin listener of a Leveret on this machine, for images without a shell.

use std::time::Duration;

use clap::Args;

use super::ConfigArgs;
use super::exit::{Exit, Outcome, Stop};
use super::output::print;
use crate::admin::check;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret healthcheck             exit code 0: connected, declared, consuming; 1: not, and it says why
  leveret healthcheck --live      exit code 0: the process answers, whatever the broker does

In Docker: HEALTHCHECK CMD [\"leveret\", \"healthcheck\"]. Kubernetes asks /livez and /readyz itself. \
It asks the address of `admin.listen` in the configuration; 0.0.0.0 is asked through 127.0.0.1.";

#[derive(Debug, Args)]
pub(super) struct HealthcheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Ask only whether the process is alive (/livez), not whether it is ready (/readyz)
    #[arg(long)]
    live: bool,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = crate::domain::duration::parse)]
    timeout: Duration,
}

pub(super) fn run(args: &HealthcheckArgs) -> Outcome {
    let config = args.config.load()?;
    let Some(listen) = config.admin.listen else {
        return Err(Stop::failure("cannot ask: admin.listen is off in the configuration"));
    };
    let path = if args.live { "/livez" } else { "/readyz" };
    let answer = check::get(listen, path, args.timeout).map_err(|error| match &error {
        check::CheckError::Unreachable { source, .. } => Stop::failure(format!("{error} ({source})")),
        check::CheckError::NotHttp { .. } => Stop::failure(error.to_string()),
    })?;
    print(&answer.body)?;
    Ok(if answer.status == 200 { Exit::Success } else { Exit::Failure })
}
