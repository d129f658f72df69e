//! Configuration: one YAML file, environment overrides, defaults; read raw, then checked whole.
//!
//! What is here is checked: who holds a [`Config`] need not doubt any value in it. [`load`] makes one or tells
//! everything that is wrong at once. [`Config::to_yaml`] writes it back with secrets masked.

mod amqp;
mod choice;
mod duration;
mod effective;
mod env;
mod keys;
mod ladder;
mod limits;
mod load;
mod nearest;
mod node;
mod pattern;
mod problem;
mod read;
mod read_amqp;
mod reader;
mod rules;
mod schema;
mod secret;
mod shape;
mod size;
mod uri;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use amqp::{AmqpConfig, EndpointsError, Host, HostsSource, TlsConfig, TlsConflict, UriSource};
pub use choice::{Compression, DeliveredHeader, EntryKind, LogFormat, Ordering, QueueType, Unroutable};
pub use load::{THREAD_STACK, environment, file, has_thread_stack, load};
pub use pattern::ExchangePattern;
pub use problem::{ConfigErrors, Problem};
pub use schema::json_schema;
pub use secret::{Secret, SecretError, SecretSource};
pub use uri::{Endpoint, UriError, parse as parse_uri};

/// The bridge that there is without any file.
const DEFAULT_BRIDGE: &str = "default";
/// The entry exchange that there is without any file.
const DEFAULT_ENTRY: &str = "delay";

/// The whole configuration, checked. Its [`Default`] is what holds without any file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The broker, and how to connect to it.
    pub amqp: AmqpConfig,
    /// Every name that Leveret declares begins with it and a dot.
    pub namespace: String,
    /// The type of Leveret's own queues.
    pub queue_type: QueueType,
    /// How several replicas share a bridge.
    pub ordering: Ordering,
    /// Workers of the process, each with connections of its own, 1 to 64.
    pub workers: u16,
    /// The levels that messages wait in.
    pub ladder: LadderConfig,
    /// A longer delay is parked. From a second to a hundred years.
    pub max_delay: Duration,
    /// At least one; names and entry exchanges are unique.
    pub bridges: Vec<BridgeConfig>,
    /// How many messages travel together.
    pub bundle: BundleConfig,
    /// Taking messages from the entry exchanges.
    pub intake: IntakeConfig,
    /// The last stretch of a wait, in memory.
    pub hold: HoldConfig,
    /// Publishing to the targets.
    pub delivery: DeliveryConfig,
    /// Stopping.
    pub shutdown: ShutdownConfig,
    /// The listener for liveness, readiness and metrics.
    pub admin: AdminConfig,
    /// RabbitMQ's management API; without it no policy is audited there.
    pub management: Option<ManagementConfig>,
    /// Logs.
    pub log: LogConfig,
}

/// The levels that messages wait in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LadderConfig {
    /// The TTLs: 1 to 64, ascending, unique, in whole milliseconds, each from 10 ms to 10 years; the smallest is at
    /// most a minute, since what is below it waits in memory.
    pub levels: Vec<Duration>,
}

/// One entry exchange joined to one target exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Unique; `[a-z0-9._-]{1,64}`.
    pub name: String,
    /// Where applications publish.
    pub entry: EntryConfig,
    /// Where messages come out.
    pub target: TargetConfig,
    /// The delay of a message without any delay header; at most `max_delay`.
    pub default_delay: Duration,
    /// What happens to a message that the target routes to no queue.
    pub unroutable: Unroutable,
    /// What becomes of the `x-delay` header at delivery.
    pub delivered_header: DeliveredHeader,
    /// Whether `x-leveret-id` is added at delivery.
    pub annotate: bool,
}

/// The exchange that applications publish to; Leveret declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryConfig {
    /// Its name; unique, neither the broker's (`amq.`) nor Leveret's own.
    pub exchange: String,
    /// Its type; `type` in the file.
    pub kind: EntryKind,
    /// The routing keys of a direct exchange; empty for every other type.
    pub keys: Vec<String>,
}

/// Where messages come out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetConfig {
    /// The exchange; empty for the default exchange. Never an entry exchange.
    pub exchange: String,
    /// The exchanges that a message may choose by its `x-delay-exchange` header. None fits an entry exchange.
    pub allow: Vec<ExchangePattern>,
}

/// How many messages travel together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleConfig {
    /// Messages in one bundle, 1 to 10,000.
    pub max_messages: usize,
    /// Bytes of one bundle, 4 KiB to 8 MiB; a larger message travels alone.
    pub max_bytes: usize,
    /// How their content is compressed.
    pub compression: Compression,
    /// Files with encryption keys: the first encrypts, all decrypt; none for no encryption.
    pub key_files: Vec<PathBuf>,
}

/// Taking messages from the entry exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntakeConfig {
    /// Unsettled messages of one bridge, at least 1 for each worker.
    pub prefetch: u16,
}

/// The last stretch of a wait, in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldConfig {
    /// Unsettled bundles, at least 1 for each worker.
    pub prefetch: u16,
    /// Bytes taken from all queues and not yet settled; at least one whole bundle for each worker.
    pub max_bytes: usize,
}

/// Publishing to the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// A message that full target queues refuse for so long is parked.
    pub give_up_after: Duration,
    /// The connection is given up when the broker does not confirm a publish for so long.
    pub confirm_timeout: Duration,
}

/// Stopping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShutdownConfig {
    /// How long a graceful stop may take.
    pub grace: Duration,
}

/// The listener for liveness, readiness and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Its address; `None` where it is off.
    pub listen: Option<SocketAddr>,
}

/// RabbitMQ's management API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagementConfig {
    /// `http://` or `https://`, without a slash at the end.
    pub url: String,
    /// The user; the one for AMQP where there is none.
    pub username: Option<SecretSource>,
    /// Given exactly where `username` is.
    pub password: Option<SecretSource>,
    /// PEM; trusted instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// How often the audit of policies is repeated.
    pub interval: Duration,
}

/// Logs, on standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// For people or for machines.
    pub format: LogFormat,
    /// A directive string of `tracing_subscriber::EnvFilter`; known to be valid.
    pub level: String,
}
