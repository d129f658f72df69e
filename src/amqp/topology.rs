//! Names and declarations of all that Leveret keeps in the broker.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};
use serde::Serialize;

use super::failure::Failure;
use crate::config::{Config, EntryKind, Ordering, QueueType};
use crate::domain::ladder::Ladder;
use crate::domain::queue::QueueRole;

/// More returns than any message can live to see. Not `-1`, which RabbitMQ 3.10 takes as "drop at the first
/// return"; and not absent, which from 4.0 on means 20.
const NO_DELIVERY_LIMIT: i64 = 1_000_000_000;

/// The names of Leveret's own exchanges and queues.
#[derive(Debug, Clone)]
pub struct Names {
    namespace: String,
}

impl Names {
    /// Names within a namespace.
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    /// The queue that takes in what is published to a bridge.
    #[must_use]
    pub fn ingress(&self, bridge: &str) -> String {
        format!("{}.ingress.{bridge}", self.namespace)
    }

    /// The bridge whose ingress queue has that name.
    #[must_use]
    pub fn bridge_of<'q>(&self, queue: &'q str) -> Option<&'q str> {
        queue.strip_prefix(&self.namespace)?.strip_prefix(".ingress.")
    }

    /// The exchange that leads to the levels, by their queue names.
    #[must_use]
    pub fn level_exchange(&self) -> String {
        format!("{}.level", self.namespace)
    }

    /// The queue of a level; `label` is its TTL in compact form.
    #[must_use]
    pub fn level(&self, label: &str) -> String {
        format!("{}.level.{label}", self.namespace)
    }

    /// The exchange and the queue of bundles whose hop is over.
    #[must_use]
    pub fn due(&self) -> String {
        format!("{}.due", self.namespace)
    }

    /// The exchange and the queue of messages that could not be delivered.
    #[must_use]
    pub fn parked(&self) -> String {
        format!("{}.parked", self.namespace)
    }

    /// Whether an exchange or queue of that name is Leveret's own.
    #[must_use]
    pub fn owns(&self, name: &str) -> bool {
        name.strip_prefix(&self.namespace).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// One exchange to declare.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// `direct`, `fanout`, `headers` or `topic`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

/// One queue to declare, with its binding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(serialize_with = "role_name")]
    pub role: QueueRole,
    /// Its arguments.
    #[serde(serialize_with = "as_map")]
    pub arguments: Vec<(&'static str, Argument)>,
    /// The exchange that it is bound to.
    pub exchange: String,
    /// The routing keys that it is bound by.
    pub keys: Vec<String>,
}

/// The value of a queue argument.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Argument {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

/// All exchanges and queues of a configuration, in the order of declaration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Topology {
    /// Exchanges.
    pub exchanges: Vec<Exchange>,
    /// Queues and their bindings.
    pub queues: Vec<Queue>,
}

impl Topology {
    /// Lays out the topology of a configuration.
    #[must_use]
    pub fn new(config: &Config, ladder: &Ladder) -> Self {
        let names = Names::new(&config.namespace);
        let exchange = |name, kind| Exchange { name, kind };
        let mut exchanges = vec![
            exchange(names.parked(), "fanout"),
            exchange(names.due(), "fanout"),
            exchange(names.level_exchange(), "direct"),
        ];
        let kept = |role, extra| arguments(config, &names, role, extra);
        let mut queues = vec![
            Queue {
                name: names.parked(),
                role: QueueRole::Parked,
                arguments: kept(QueueRole::Parked, vec![]),
                exchange: names.parked(),
                keys: vec![String::new()],
            },
            Queue {
                name: names.due(),
                role: QueueRole::Due,
                arguments: kept(QueueRole::Due, vec![]),
                exchange: names.due(),
                keys: vec![String::new()],
            },
        ];
        queues.extend(ladder.levels().iter().map(|level| {
            let name = names.level(&level.label);
            let ttl = ("x-message-ttl", Argument::Number(millis(level.ttl)));
            Queue {
                role: QueueRole::Level,
                arguments: kept(QueueRole::Level, vec![ttl]),
                exchange: names.level_exchange(),
                keys: vec![name.clone()],
                name,
            }
        }));
        for bridge in &config.bridges {
            let (kind, keys) = match bridge.entry.kind {
                EntryKind::Topic => ("topic", vec!["#".to_owned()]),
                EntryKind::Fanout => ("fanout", vec![String::new()]),
                EntryKind::Headers => ("headers", vec![String::new()]),
                EntryKind::Direct => ("direct", bridge.entry.keys.clone()),
            };
            exchanges.push(exchange(bridge.entry.exchange.clone(), kind));
            queues.push(Queue {
                name: names.ingress(&bridge.name),
                role: QueueRole::Ingress,
                arguments: kept(QueueRole::Ingress, vec![]),
                exchange: bridge.entry.exchange.clone(),
                keys,
            });
        }
        Self { exchanges, queues }
    }

    /// Declares everything, durable. Declaring what is there already changes nothing.
    pub async fn declare(&self, channel: &Channel) -> Result<(), DeclareError> {
        for exchange in &self.exchanges {
            let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
            let kind = match exchange.kind {
                "fanout" => ExchangeKind::Fanout,
                "headers" => ExchangeKind::Headers,
                "topic" => ExchangeKind::Topic,
                _ => ExchangeKind::Direct,
            };
            channel
                .exchange_declare(exchange.name.as_str().into(), kind, options, FieldTable::default())
                .await
                .map_err(|error| DeclareError::new("exchange", &exchange.name, error))?;
        }
        for queue in &self.queues {
            queue.declare(channel).await?;
        }
        Ok(())
    }
}

impl Queue {
    async fn declare(&self, channel: &Channel) -> Result<(), DeclareError> {
        let mut table = FieldTable::default();
        for (key, value) in &self.arguments {
            let value = match value {
                Argument::Text(text) => AMQPValue::LongString(text.as_str().into()),
                Argument::Number(number) => AMQPValue::LongLongInt(*number),
                Argument::Flag(flag) => AMQPValue::Boolean(*flag),
            };
            table.insert((*key).into(), value);
        }
        let fail = |error| DeclareError::new("queue", &self.name, error);
        channel
            .queue_declare(self.name.as_str().into(), QueueDeclareOptions::durable(), table)
            .await
            .map_err(fail)?;
        for key in &self.keys {
            let options = QueueBindOptions::default();
            let (queue, exchange) = (self.name.as_str().into(), self.exchange.as_str().into());
            channel
                .queue_bind(queue, exchange, key.as_str().into(), options, FieldTable::default())
                .await
                .map_err(fail)?;
        }
        Ok(())
    }
}

fn arguments(
    config: &Config,
    names: &Names,
    role: QueueRole,
    mut arguments: Vec<(&'static str, Argument)>,
) -> Vec<(&'static str, Argument)> {
    let text = |value: &str| Argument::Text(value.to_owned());
    let quorum = config.queue_type == QueueType::Quorum;
    arguments.push(("x-queue-type", text(if quorum { "quorum" } else { "classic" })));
    match role {
        QueueRole::Level => {
            arguments.push(("x-dead-letter-exchange", Argument::Text(names.due())));
            if quorum {
                arguments.push(("x-dead-letter-strategy", text("at-least-once")));
                arguments.push(("x-overflow", text("reject-publish")));
            }
        }
        QueueRole::Ingress | QueueRole::Due => {
            // This catches what the broker itself would otherwise drop, and what Leveret can park in no other way.
            arguments.push(("x-dead-letter-exchange", Argument::Text(names.parked())));
            if config.ordering == Ordering::Single {
                arguments.push(("x-single-active-consumer", Argument::Flag(true)));
            }
        }
        QueueRole::Parked => {}
    }
    if quorum && role != QueueRole::Level {
        arguments.push(("x-delivery-limit", Argument::Number(NO_DELIVERY_LIMIT)));
    }
    arguments
}

fn as_map<S: serde::Serializer>(
    arguments: &[(&'static str, Argument)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(arguments.iter().map(|(key, value)| (key, value)))
}

fn role_name<S: serde::Serializer>(role: &QueueRole, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.as_str())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A declaration that the broker refused, or that the connection did not outlive.
#[derive(Debug, thiserror::Error)]
#[error("cannot declare {kind} \"{name}\": {failure}{}", self.hint())]
pub struct DeclareError {
    kind: &'static str,
    name: String,
    /// What the broker said.
    pub failure: Failure,
}

impl DeclareError {
    fn new(kind: &'static str, name: &str, error: lapin::Error) -> Self {
        Self { kind, name: name.to_owned(), failure: error.into() }
    }

    /// Whether trying again cannot help: what is there differs from what the configuration asks for.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self.failure, Failure::Channel { code: 406, .. })
    }

    fn hint(&self) -> String {
        match &self.failure {
            Failure::Channel { code: 406, .. } => format!(
                "; one of that name exists with other properties: choose another `namespace` or exchange, \
                 or, once it is empty, delete the {} and start again",
                self.kind
            ),
            Failure::Channel { code: 403, .. } => {
                "; give the user the permissions that the README lists".to_owned()
            }
            _ => String::new(),
        }
    }
}
