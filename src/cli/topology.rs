//! `leveret topology`: what is left in the broker of an earlier configuration.

use std::time::Duration;

use clap::{Args, Subcommand};
use lapin::Channel;
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use tokio::time::sleep;

use super::exit::{Exit, Outcome, Stop};
use super::output::{counted, note, print, table};
use super::{ConfigArgs, broker};
use crate::amqp::connection::Link;
use crate::amqp::failure::Failure;
use crate::amqp::topology::{Names, Topology};
use crate::config::Config;
use crate::domain::ladder::Ladder;
use crate::management::{ManagementClient, QueueInfo};

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret topology prune --dry-run
  leveret topology prune";

const PRUNE_EXAMPLES: &str = "\
Examples:
  leveret topology prune --dry-run
  leveret topology prune --config leveret.yaml

Run it with the configuration that Leveret runs with, once no replica has another ladder any more. A level in \
which something waits is kept: run it again when that is over. It asks RabbitMQ's management API which queues \
there are, and needs `management.url`; to be sure that a level is empty it waits until the broker's statistics \
are newer than the moment from which nothing can enter.

Exit codes: 0 done, kept levels or not; 1 something failed; 69 the broker cannot be reached; 78 the configuration \
is wrong, or has no management.url.";

/// How long one request to the management API may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Until the broker's statistics are certainly newer: a quorum queue counts what it holds every 5 s, and so often does
/// the broker collect the counts.
const STATISTICS: Duration = Duration::from_secs(15);

#[derive(Debug, Subcommand)]
pub(super) enum TopologyCommand {
    /// Delete the queues of levels that the ladder does not name any more, where nothing waits in them
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only show which levels those are, and what is in them
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(command: &TopologyCommand) -> Outcome {
    let TopologyCommand::Prune(args) = command;
    let config = args.config.load()?;
    let topology = Topology::new(&config, &Ladder::new(&config.ladder.levels)?);
    broker::run(async {
        let link = broker::connect(&config).await?;
        let pruned = Pruning::new(&config, &link, &topology)?.run(args.dry_run).await;
        broker::close(link).await;
        let rows = pruned?;
        if rows.is_empty() {
            note(&"every level that is there is in the ladder");
        } else {
            print(&table(["QUEUE", "NOW"], &rows))?;
        }
        Ok(Exit::Success)
    })
}

struct Pruning<'a> {
    names: Names,
    link: &'a Link,
    client: ManagementClient,
    topology: &'a Topology,
}

impl<'a> Pruning<'a> {
    fn new(config: &Config, link: &'a Link, topology: &'a Topology) -> Result<Self, Stop> {
        let why = "only RabbitMQ's management API knows which levels are there: set `management.url`";
        let management = config.management.as_ref().ok_or_else(|| Stop::new(Exit::Configuration, why))?;
        let client = ManagementClient::configured(management, link.endpoint(), PATIENCE);
        Ok(Self {
            names: Names::new(&config.namespace),
            link,
            client: client.map_err(Stop::failure)?,
            topology,
        })
    }

    /// Each level that the ladder does not name, and what became of it.
    async fn run(&self, dry_run: bool) -> Result<Vec<[String; 2]>, Stop> {
        let channel = self.link.channel().await?;
        let mut rows = Vec::new();
        let mut empty = Vec::new();
        for queue in self.old_levels().await? {
            match self.content(&channel, &queue).await? {
                Content::Nothing if dry_run => rows.push([queue.name, "empty".to_owned()]),
                Content::Nothing => empty.push(queue.name),
                Content::Some(kept) => rows.push([queue.name, kept]),
            }
        }
        if !empty.is_empty() {
            rows.extend(self.delete(&channel, empty).await?);
        }
        rows.sort();
        Ok(rows)
    }

    async fn old_levels(&self) -> Result<Vec<QueueInfo>, Stop> {
        let queues = self.client.queues(&self.link.endpoint().vhost, &self.names.level("")).await;
        let mut queues = queues.map_err(|error| Stop::failure(error.to_string()))?;
        queues.retain(|queue| !self.topology.queues.iter().any(|known| known.name == queue.name));
        Ok(queues)
    }

    /// What is in a queue: by the broker's own answer, which is of this moment and does not count what is on its way to
    /// the due queue, and by the statistics, which count that and are some seconds old.
    async fn content(&self, channel: &Channel, queue: &QueueInfo) -> Result<Content, Failure> {
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let found = channel.queue_declare(queue.name.as_str().into(), passive, FieldTable::default()).await?;
        let ready = u64::from(found.message_count());
        Ok(match queue.messages.map(|messages| messages.max(ready)) {
            Some(0) if found.consumer_count() == 0 => Content::Nothing,
            Some(0) => Content::Some("kept: somebody consumes it".to_owned()),
            Some(some) => Content::Some(format!("kept: {} in it", counted(some, "bundle"))),
            None => Content::Some("kept: the broker does not tell what is in it".to_owned()),
        })
    }

    async fn delete(&self, channel: &Channel, names: Vec<String>) -> Result<Vec<[String; 2]>, Stop> {
        // From here on nothing enters them. A replica that still has the old ladder notices, and binds its level again.
        for name in &names {
            let (queue, exchange) = (name.as_str().into(), self.names.level_exchange());
            let (exchange, key) = (exchange.as_str().into(), name.as_str().into());
            channel.queue_unbind(queue, exchange, key, FieldTable::default()).await.map_err(Failure::from)?;
        }
        note(&format_args!("waiting {} s for the broker's statistics", STATISTICS.as_secs()));
        sleep(STATISTICS).await;
        let mut rows = Vec::new();
        for queue in self.old_levels().await?.into_iter().filter(|queue| names.contains(&queue.name)) {
            let now = match self.content(channel, &queue).await? {
                Content::Some(kept) => kept,
                Content::Nothing => {
                    let options = QueueDeleteOptions::default();
                    channel.queue_delete(queue.name.as_str().into(), options).await.map_err(Failure::from)?;
                    "deleted".to_owned()
                }
            };
            rows.push([queue.name, now]);
        }
        Ok(rows)
    }
}

/// What is in a level.
enum Content {
    Nothing,
    /// Something, or nobody knows; in words.
    Some(String),
}
