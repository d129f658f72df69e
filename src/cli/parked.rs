//! `leveret parked`: looks through the parked queue, and gives messages another try or discards them.

mod act;
mod filter;
mod list;
mod pass;

use clap::{Args, Subcommand};

use self::filter::{Filter, Selection};
use super::exit::{Exit, Outcome, Stop};
use super::{ConfigArgs, broker};

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret parked list
  leveret parked retry --reason unroutable
  leveret parked discard --id 01JMZ3J5Y2QK8Q0V8N5T0RWE7A

A message is parked where it cannot be delivered: `leveret parked list` says why. It stays until it is \
retried or discarded. Retry it when the reason is removed: it is then delivered at once, as it was \
published.

All of this is safe while Leveret runs, and with several operators at a time. A command takes messages \
out of the queue one by one, without acknowledging them, and looks at each once; those that it does not \
retry or discard are back in the queue when it ends, also when it is killed. Meanwhile nobody else sees \
them: another operator's list may be short. A retried message is acknowledged only when the broker has \
confirmed its new copy, so a command that is killed in between leaves a duplicate (with the same \
x-leveret-id), and never a loss.";

const LIST_EXAMPLES: &str = "\
Examples:
  leveret parked list --reason unroutable --bridge orders
  leveret parked list --json | jq -r '.[].id'

Those that were parked first stand at the top; where there are more than --limit, the broker decides \
which are shown: in a quorum queue, those that were looked at before come last. Bodies are not shown. \
Reasons are listed under --reason; `dead-lettered` is what the broker itself moved here, such as a message whose expiration ended before Leveret took it, and \
`unknown` is what something else published here.";

const RETRY_EXAMPLES: &str = "\
Examples:
  leveret parked retry --id 01JMZ3J5Y2QK8Q0V8N5T0RWE7A
  leveret parked retry --reason exchange-missing --bridge orders
  leveret parked retry --all

A message that fails again is parked again. A bundle that this version cannot read stays parked: retry \
it with a Leveret that can. A message whose texts are not UTF-8 (`unreadable-message`) cannot be retried at all. Exit code 1 where an id was not found or a message stayed parked.";

const DISCARD_EXAMPLES: &str = "\
Examples:
  leveret parked discard --id 01JMZ3J5Y2QK8Q0V8N5T0RWE7A
  leveret parked discard --reason invalid-delay --yes

Discarded messages are gone. Exit code 1 where an id was not found.";

#[derive(Debug, Subcommand)]
pub(super) enum ParkedCommand {
    /// Show parked messages with their reasons
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Give parked messages another try, now
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(RetryArgs),
    /// Remove parked messages for good
    #[command(after_help = DISCARD_EXAMPLES)]
    Discard(DiscardArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Show at most so many messages
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Only those with this reason
    #[arg(long, value_name = "REASON", value_parser = filter::reasons())]
    reason: Option<String>,
    /// Only those of this bridge
    #[arg(long, value_name = "NAME")]
    bridge: Option<String>,
    #[command(flatten)]
    scan: ScanArgs,
    /// Print a JSON array with one object a message
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    scan: ScanArgs,
}

#[derive(Debug, Args)]
pub(super) struct DiscardArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    scan: ScanArgs,
    /// Needed with --reason and --all: discarded messages are gone
    #[arg(long)]
    yes: bool,
}

/// How far to look.
#[derive(Debug, Args)]
struct ScanArgs {
    /// Pass over at most so many messages: they are kept from everybody else until the command ends
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    scan: u64,
}

pub(super) fn run(command: ParkedCommand) -> Outcome {
    match command {
        ParkedCommand::List(args) => {
            let config = args.config.load()?;
            let filter = Filter::listing(args.reason, args.bridge);
            let most = list::Most { shown: args.limit, passed_over: args.scan.scan };
            broker::run(list::list(&config, &filter, most, args.json))
        }
        ParkedCommand::Retry(args) => {
            let config = args.config.load()?;
            broker::run(act::retry(&config, args.selection.into(), args.scan.scan))
        }
        ParkedCommand::Discard(args) => {
            if !args.yes && !args.selection.is_by_id() {
                let why = "discarded messages are gone: look at `leveret parked list`, then add --yes";
                return Err(Stop::new(Exit::Usage, why));
            }
            let config = args.config.load()?;
            broker::run(act::discard(&config, args.selection.into(), args.scan.scan))
        }
    }
}
