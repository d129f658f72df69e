//! Leveret's queues as the broker tells them to whoever asks for one by name.

use lapin::Channel;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use serde::{Serialize, Serializer};

use super::super::exit::Stop;
use super::super::output::counted;
use crate::amqp::connection::Link;
use crate::amqp::failure::Failure;
use crate::amqp::topology::Topology;
use crate::domain::queue::QueueRole;

/// One queue.
#[derive(Debug, Serialize)]
pub(super) struct Queue {
    name: String,
    #[serde(serialize_with = "role_name")]
    role: QueueRole,
    /// Absent where the broker did not tell.
    #[serde(flatten)]
    counts: Option<Counts>,
    /// Why the broker did not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip)]
    missing: bool,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Counts {
    messages_ready: u32,
    consumers: u32,
}

/// Asks for every queue of the topology.
pub(super) async fn read(link: &Link, topology: &Topology) -> Result<Vec<Queue>, Stop> {
    let mut queues = Vec::with_capacity(topology.queues.len());
    let mut channel = link.channel().await?;
    for queue in &topology.queues {
        let (name, role) = (queue.name.clone(), queue.role);
        let (counts, refusal, missing) = match ask(&channel, &name).await {
            Ok(counts) => (Some(counts), None, false),
            // The answer has closed the channel.
            Err(Failure::Channel { code, text }) => {
                channel = link.channel().await?;
                (None, Some(format!("{code}: {text}")), code == 404)
            }
            Err(failure) => return Err(failure.into()),
        };
        queues.push(Queue { name, role, counts, refusal, missing });
    }
    Ok(queues)
}

async fn ask(channel: &Channel, name: &str) -> Result<Counts, Failure> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(name.into(), options, FieldTable::default()).await?;
    Ok(Counts { messages_ready: queue.message_count(), consumers: queue.consumer_count() })
}

/// What is wrong with them.
pub(super) fn problems(queues: &[Queue]) -> Vec<String> {
    let mut problems = Vec::new();
    let missing = queues.iter().filter(|queue| queue.missing).count();
    if missing > 0 && missing == queues.len() {
        return vec!["no queue of Leveret's is there: it has not run with this configuration yet".to_owned()];
    }
    for queue in queues {
        let name = &queue.name;
        match (&queue.counts, &queue.refusal) {
            (None, _) if queue.missing => {
                problems.push(format!("queue \"{name}\" is missing: start Leveret, which declares it"));
            }
            (None, Some(refusal)) => problems.push(format!("cannot ask for queue \"{name}\": {refusal}")),
            (Some(Counts { consumers: 0, .. }), _) if queue.is_consumed() => {
                problems.push(format!("nobody consumes queue \"{name}\": no Leveret runs on this bridge"));
            }
            _ => {}
        }
    }
    let consumed = || queues.iter().filter(|queue| queue.is_consumed());
    if consumed().all(|queue| queue.counts.is_some_and(|counts| counts.consumers == 0)) {
        problems.retain(|problem| !problem.starts_with("nobody consumes"));
        problems.push("nobody consumes: no Leveret is connected to this broker".to_owned());
    }
    problems
}

/// What may deserve attention.
pub(super) fn notes(queues: &[Queue]) -> Vec<String> {
    let parked = queues.iter().filter(|queue| queue.role == QueueRole::Parked);
    let parked: u64 =
        parked.filter_map(|queue| queue.counts).map(|counts| u64::from(counts.messages_ready)).sum();
    let verb = if parked == 1 { "is" } else { "are" };
    (parked > 0)
        .then(|| format!("{} {verb} parked: see `leveret parked list`", counted(parked, "message")))
        .into_iter()
        .collect()
}

impl Queue {
    /// Whether a running Leveret consumes it.
    const fn is_consumed(&self) -> bool {
        matches!(self.role, QueueRole::Ingress | QueueRole::Due)
    }

    /// Whether it tells anything: a level in which nothing waits, or which is missing, does not.
    pub(super) fn is_telling(&self) -> bool {
        self.role != QueueRole::Level || self.counts.is_some_and(|counts| counts.messages_ready > 0)
    }

    /// Name, messages ready and consumers.
    pub(super) fn row(&self) -> [String; 3] {
        let told = |count: fn(Counts) -> u32| match self.counts {
            Some(counts) => count(counts).to_string(),
            None => if self.missing { "missing" } else { "unknown" }.to_owned(),
        };
        let consumers = if self.is_consumed() { told(|counts| counts.consumers) } else { "-".to_owned() };
        [self.name.clone(), told(|counts| counts.messages_ready), consumers]
    }

    #[cfg(test)]
    pub(super) fn present(name: &str, role: QueueRole, messages_ready: u32, consumers: u32) -> Self {
        let counts = Some(Counts { messages_ready, consumers });
        Self { name: name.to_owned(), role, counts, refusal: None, missing: false }
    }
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn role_name<S: Serializer>(role: &QueueRole, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(name: &str, role: QueueRole) -> Queue {
        Queue {
            counts: None,
            refusal: Some("404".to_owned()),
            missing: true,
            ..Queue::present(name, role, 0, 0)
        }
    }

    #[test]
    fn all_is_well_where_everything_is_there_and_consumed() {
        let queues = [
            Queue::present("parked", QueueRole::Parked, 0, 0),
            Queue::present("due", QueueRole::Due, 0, 1),
            Queue::present("level", QueueRole::Level, 9, 0),
            Queue::present("ingress", QueueRole::Ingress, 5, 2),
        ];
        assert!(problems(&queues).is_empty() && notes(&queues).is_empty());
    }

    #[test]
    fn what_is_missing_or_not_consumed_is_a_problem() {
        let some = [
            missing("level", QueueRole::Level),
            Queue::present("due", QueueRole::Due, 0, 1),
            Queue::present("ingress", QueueRole::Ingress, 5, 0),
        ];
        let found = problems(&some);
        assert!(found[0].contains("\"level\" is missing"), "{found:?}");
        assert!(found[1].contains("nobody consumes queue \"ingress\""), "{found:?}");
        let none =
            [Queue::present("due", QueueRole::Due, 0, 0), Queue::present("in", QueueRole::Ingress, 0, 0)];
        assert_eq!(problems(&none), ["nobody consumes: no Leveret is connected to this broker"]);
        let nothing = [missing("due", QueueRole::Due), missing("in", QueueRole::Ingress)];
        assert_eq!(problems(&nothing).len(), 1);
    }

    #[test]
    fn parked_messages_are_noted() {
        let queues = [Queue::present("parked", QueueRole::Parked, 1, 0)];
        assert_eq!(notes(&queues), ["1 message is parked: see `leveret parked list`"]);
    }
}
