//! Watches Leveret's own queues while it runs: their depths, and whether a policy would break one.
//!
//! Depths come from the management API where it is configured, otherwise from the broker over AMQP; policies are
//! seen through the management API alone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use tokio::time::{Instant, interval_at};
use tracing::{info, warn};

use super::Shared;
use crate::amqp::connection::Link;
use crate::amqp::topology::Names;
use crate::config::{Endpoint, ManagementConfig};
use crate::domain::queue::QueueRole;
use crate::management::audit::{Conflict, conflicts};
use crate::management::{ManagementClient, QueueInfo};

/// How often depths are asked for over AMQP.
const DEPTHS: Duration = Duration::from_secs(30);

/// How long the management API may take to know of a queue's policy after it was declared.
const POLICY_PATIENCE: Duration = Duration::from_secs(15);

/// How long one request to the management API may take.
const REQUEST: Duration = Duration::from_secs(10);

/// The audit before work begins: the conflicts that forbid it. What the API does not tell forbids nothing, and is
/// asked for again while running.
pub(super) async fn audit(shared: &Shared, endpoint: &Endpoint) -> Vec<Conflict> {
    let Some(config) = &shared.config.management else { return Vec::new() };
    let prefix = format!("{}.", shared.config.namespace);
    let found = match ManagementClient::configured(config, endpoint, REQUEST) {
        Ok(client) => client
            .queues_with_policies(&endpoint.vhost, &prefix, POLICY_PATIENCE)
            .await
            .map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    match found {
        Ok(queues) => {
            observe(shared, &queues);
            let conflicts = audited(shared, &queues);
            if conflicts.is_empty() {
                info!(queues = queues.len(), "no policy interferes with Leveret's queues");
            }
            conflicts
        }
        Err(error) => {
            warn!(error, "cannot audit policies; asking again while running");
            Vec::new()
        }
    }
}

/// Watches until the link is lost.
pub(super) async fn run(shared: &Shared, link: &Link) {
    match &shared.config.management {
        Some(config) => by_management(shared, config, link.endpoint()).await,
        None => by_amqp(shared, link).await,
    }
}

async fn by_management(shared: &Shared, config: &ManagementConfig, endpoint: &Endpoint) {
    let prefix = format!("{}.", shared.config.namespace);
    let mut ticks = interval_at(Instant::now() + config.interval, config.interval);
    loop {
        ticks.tick().await;
        let queues = match ManagementClient::configured(config, endpoint, REQUEST) {
            Ok(client) => client.queues(&endpoint.vhost, &prefix).await.map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match queues {
            Ok(queues) => {
                observe(shared, &queues);
                for conflict in audited(shared, &queues) {
                    warn!(%conflict, "a policy breaks one of Leveret's queues");
                }
            }
            Err(error) => warn!(error, "cannot audit policies"),
        }
    }
}

fn audited(shared: &Shared, queues: &[QueueInfo]) -> Vec<Conflict> {
    let found: Vec<_> = queues
        .iter()
        .filter_map(|queue| Some((queue, role(shared, &queue.name)?)))
        .flat_map(|(queue, role)| conflicts(queue, role))
        .collect();
    shared.metrics.policy_conflicts(found.len());
    found
}

fn observe(shared: &Shared, queues: &[QueueInfo]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for queue in queues {
        let (Some(role), Some(ready)) = (role(shared, &queue.name), queue.messages_ready) else { continue };
        let published = queue.head_message_timestamp.and_then(|at| u64::try_from(at).ok());
        let age = published.map(|at| now.saturating_sub(Duration::from_secs(at)));
        shared.metrics.queue_observed(role, &queue.name, ready, age);
    }
}

/// What a queue of the namespace is for; levels of an earlier ladder are levels too.
fn role(shared: &Shared, name: &str) -> Option<QueueRole> {
    let level = Names::new(&shared.config.namespace).level("");
    let known = shared.topology.queues.iter().find(|queue| queue.name == name).map(|queue| queue.role);
    known.or_else(|| name.starts_with(&level).then_some(QueueRole::Level))
}

async fn by_amqp(shared: &Shared, link: &Link) {
    let mut ticks = interval_at(Instant::now() + DEPTHS, DEPTHS);
    loop {
        ticks.tick().await;
        // A queue that is missing closes the channel: the source that consumes it deals with that.
        let Ok(channel) = link.channel().await else { continue };
        for queue in &shared.topology.queues {
            let passive = QueueDeclareOptions { passive: true, ..Default::default() };
            match channel.queue_declare(queue.name.as_str().into(), passive, FieldTable::default()).await {
                Ok(found) => {
                    let ready = found.message_count().into();
                    shared.metrics.queue_observed(queue.role, &queue.name, ready, None);
                }
                Err(error) => {
                    warn!(queue = queue.name, %error, "cannot ask for the depth of a queue");
                    break;
                }
            }
        }
    }
}
