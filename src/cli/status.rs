//! `leveret status`: what a person on call wants to know first.

mod queues;
mod running;

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use self::queues::Queue;
use self::running::Running;
use super::exit::{Exit, Outcome};
use super::output::{counted, print, print_json, table};
use super::{ConfigArgs, broker};
use crate::amqp::topology::Topology;
use crate::config::{Config, ManagementConfig};
use crate::domain::ladder::Ladder;
use crate::management::ManagementClient;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret status
  leveret status --all                    levels without a bundle as well
  leveret status --json | jq .problems

Messages of ingress and parked are single messages; those of due and of the levels are bundles, which \
carry one or more. What a running Leveret holds, unacknowledged, is not counted as ready.

Exit codes: 0 all is well; 1 a queue is missing, or nobody consumes; 69 the broker cannot be reached.";

/// How long the management API may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Show levels without a bundle as well
    #[arg(long)]
    all: bool,
    /// Print a JSON object, with every queue
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Status {
    /// The endpoint, without credentials.
    broker: String,
    /// RabbitMQ's version, where the management API is configured and answers.
    version: Option<String>,
    queues: Vec<Queue>,
    /// What the Leveret on this machine says, where one listens.
    running: Option<Running>,
    /// What is wrong; the exit code is 1 where there is anything.
    problems: Vec<String>,
    /// What may deserve attention.
    notes: Vec<String>,
}

pub(super) fn run(args: &StatusArgs) -> Outcome {
    let config = args.config.load()?;
    let ladder = Ladder::new(&config.ladder.levels)?;
    let running = config.admin.listen.and_then(running::ask);
    broker::run(async {
        let link = broker::connect(&config).await?;
        let topology = Topology::new(&config, &ladder);
        let queues = queues::read(&link, &topology).await?;
        let mut notes = queues::notes(&queues);
        let version = match version(&config).await {
            None => None,
            Some(Ok(version)) => Some(version),
            Some(Err(why)) => {
                notes.push(why);
                None
            }
        };
        let problems = queues::problems(&queues);
        let status =
            Status { broker: link.endpoint().to_string(), version, queues, running, problems, notes };
        broker::close(link).await;
        if args.json {
            print_json(&status)?
        } else {
            print(&describe(&status, args.all))?
        }
        Ok(if status.problems.is_empty() { Exit::Success } else { Exit::Failure })
    })
}

fn describe(status: &Status, all: bool) -> String {
    let mut out = format!("broker    {}", status.broker);
    if let Some(version) = &status.version {
        out.push_str(&format!(", RabbitMQ {version}"));
    }
    out.push('\n');
    if let Some(running) = &status.running {
        for line in running.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "leveret   {line}");
        }
    }
    let shown: Vec<_> = status.queues.iter().filter(|queue| all || queue.is_telling()).collect();
    let rows: Vec<_> = shown.iter().map(|queue| queue.row()).collect();
    let _ = write!(out, "\n{}", table(["QUEUE", "READY", "CONSUMERS"], &rows));
    let hidden = status.queues.len() - shown.len();
    if hidden > 0 {
        let _ = writeln!(out, "and {} without a bundle", counted(hidden as u64, "level"));
    }
    if !status.problems.is_empty() || !status.notes.is_empty() {
        out.push('\n');
    }
    for problem in &status.problems {
        let _ = writeln!(out, "problem: {problem}");
    }
    for note in &status.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// RabbitMQ's version, or why it is not known; `None` where the management API is not configured.
async fn version(config: &Config) -> Option<Result<String, String>> {
    let management = config.management.as_ref()?;
    let client = match client(config, management) {
        Ok(client) => client,
        Err(why) => return Some(Err(why)),
    };
    Some(client.overview().await.map(|overview| overview.rabbitmq_version).map_err(|error| error.to_string()))
}

fn client(config: &Config, management: &ManagementConfig) -> Result<ManagementClient, String> {
    let endpoints = config.amqp.endpoints().map_err(|error| error.to_string())?;
    let first = endpoints.first().ok_or("there is no AMQP endpoint")?;
    ManagementClient::configured(management, first, PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::queue::QueueRole;

    #[test]
    fn empty_levels_are_counted_and_shown_on_demand() {
        let queue = |name: &str, role, messages| Queue::present(name, role, messages, 1);
        let status = Status {
            broker: "amqp://localhost".to_owned(),
            version: Some("4.3.6".to_owned()),
            queues: vec![
                queue("leveret.due", QueueRole::Due, 0),
                queue("leveret.level.1s", QueueRole::Level, 0),
                queue("leveret.level.2s", QueueRole::Level, 7),
            ],
            running: None,
            problems: vec!["p".to_owned()],
            notes: vec!["n".to_owned()],
        };
        let short = describe(&status, false);
        assert!(short.starts_with("broker    amqp://localhost, RabbitMQ 4.3.6\n"), "{short}");
        assert!(short.contains("leveret.level.2s") && !short.contains("leveret.level.1s"), "{short}");
        assert!(short.contains("and 1 level without a bundle"), "{short}");
        assert!(short.ends_with("problem: p\nnote: n\n"), "{short}");
        assert!(describe(&status, true).contains("leveret.level.1s"));
    }
}
