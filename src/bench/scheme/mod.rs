//! What is measured: each scheme declares what it needs, says how a message is published through it, and takes its
//! objects away again.

mod cascade;

use std::time::Duration;

use lapin::options::{
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};

use self::cascade::Cascade;
use crate::amqp::failure::Failure;
use crate::config::QueueType;
use crate::domain::{duration, header};

/// The schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scheme {
    /// Through a running Leveret
    Leveret,
    /// No delay, one queue: the ceiling of the broker
    Direct,
    /// A process that forwards each message at once: the floor of any sidecar
    Relay,
    /// Queues of 1, 2, 4 ... seconds, joined by topic exchanges: what NServiceBus and Celery declare
    Cascade,
    /// An exchange of type x-delayed-message, on a broker that has the plugin
    Plugin,
}

impl Scheme {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leveret => "leveret",
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::Cascade => "cascade",
            Self::Plugin => "plugin",
        }
    }

    /// Whether it delays at all.
    #[must_use]
    pub fn delays(self) -> bool {
        !matches!(self, Self::Direct | Self::Relay)
    }

    /// Whether the broker returns what no queue takes. The plugin's exchange returns everything, since it routes later.
    #[must_use]
    pub fn confirms_routing(self) -> bool {
        self != Self::Plugin
    }

    /// The delay to ask for where this one is wanted: the cascade knows whole seconds only, the other schemes
    /// milliseconds.
    #[must_use]
    pub fn attainable(self, delay: Duration) -> Duration {
        if !self.delays() {
            Duration::ZERO
        } else if self == Self::Cascade {
            Duration::from_secs(delay.as_secs_f64().ceil() as u64)
        } else {
            Duration::from_millis(u64::try_from(duration::millis_rounded_up(delay)).unwrap_or(u64::MAX))
        }
    }
}

/// Where a message goes, and with which headers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Address {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) headers: FieldTable,
}

/// The entry and the target of the bridge that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// Its entry exchange.
    pub entry: String,
    /// Its target exchange.
    pub target: String,
}

/// A scheme with all that it declared.
pub(super) struct Stage {
    pub(super) scheme: Scheme,
    /// The queue that is consumed.
    pub(super) queue: String,
    /// The queue that the relay forwards from.
    pub(super) relayed: String,
    /// The queue of messages that are only to wait.
    pub(super) pending: String,
    queue_type: QueueType,
    bridge: Bridge,
    delayed_exchange: String,
    cascade: Cascade,
}

impl Stage {
    /// Names for one run. `longest` is the longest delay of any message.
    pub(super) fn new(scheme: Scheme, queue_type: QueueType, bridge: Bridge, longest: Duration) -> Self {
        let run = format!("leveret-bench.{}.{:06x}", scheme.name(), fastrand::u32(..0x100_0000));
        let cascade = Cascade::new(&run, scheme.attainable(longest));
        Self {
            scheme,
            relayed: format!("{run}.ingress"),
            pending: format!("{run}.pending"),
            delayed_exchange: format!("{run}.delayed"),
            queue: run,
            queue_type,
            bridge,
            cascade,
        }
    }

    /// Declares all that the scheme needs. `with_pending` tells whether there will be messages that are only to wait.
    pub(super) async fn set_up(&self, channel: &Channel, with_pending: bool) -> Result<(), Failure> {
        queue(channel, &self.queue, self.queue_type, FieldTable::default()).await?;
        if with_pending {
            let mut arguments = FieldTable::default();
            // Where nothing delays, they have to stay in it; else what comes at last is not worth keeping.
            if self.scheme.delays() {
                arguments.insert("x-max-length".into(), AMQPValue::LongInt(0));
            }
            queue(channel, &self.pending, self.queue_type, arguments).await?;
        }
        let queues = std::iter::once(&self.queue).chain(with_pending.then_some(&self.pending));
        match self.scheme {
            Scheme::Direct => {}
            Scheme::Relay => queue(channel, &self.relayed, self.queue_type, FieldTable::default()).await?,
            Scheme::Leveret => {
                for name in queues.filter(|_| !self.bridge.target.is_empty()) {
                    bind(channel, name, &self.bridge.target, name).await?;
                }
            }
            Scheme::Cascade => {
                self.cascade.declare(channel, self.queue_type).await?;
                for name in queues {
                    bind(channel, name, &self.cascade.delivery(), &Cascade::pattern(name)).await?;
                }
            }
            Scheme::Plugin => {
                let kind = ExchangeKind::Custom("x-delayed-message".to_owned());
                let mut arguments = FieldTable::default();
                arguments.insert("x-delayed-type".into(), AMQPValue::LongString("direct".into()));
                exchange(channel, &self.delayed_exchange, kind, arguments).await?;
                for name in queues {
                    bind(channel, name, &self.delayed_exchange, name).await?;
                }
            }
        }
        Ok(())
    }

    /// How to publish a message for that queue.
    pub(super) fn address(&self, queue: &str, delay: Duration) -> Address {
        // Whatever carries it, the message is the same: one with the header that asks for the delay.
        let to = |exchange: &str, key: &str| {
            let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
            let mut headers = FieldTable::default();
            headers.insert(header::DELAY.into(), AMQPValue::LongLongInt(millis));
            Address { exchange: exchange.to_owned(), routing_key: key.to_owned(), headers }
        };
        match self.scheme {
            Scheme::Direct => to("", queue),
            Scheme::Relay if queue == self.queue => to("", &self.relayed),
            Scheme::Relay => to("", queue),
            Scheme::Leveret => to(&self.bridge.entry, queue),
            Scheme::Cascade => {
                let (exchange, key) = self.cascade.route(queue, delay);
                to(&exchange, &key)
            }
            Scheme::Plugin => to(&self.delayed_exchange, queue),
        }
    }

    /// Takes away what the run declared. What messages are still to come to stays where `complete` is not set.
    pub(super) async fn tear_down(&self, channel: &Channel, complete: bool) -> Result<(), Failure> {
        let delete = async |name: &str| {
            channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.map_err(Failure::from)
        };
        let gone = async |name: &str| {
            channel
                .exchange_delete(name.into(), ExchangeDeleteOptions::default())
                .await
                .map_err(Failure::from)
        };
        if complete || self.scheme != Scheme::Leveret {
            delete(&self.queue).await?;
        }
        if self.scheme != Scheme::Leveret {
            delete(&self.pending).await?;
        }
        match self.scheme {
            Scheme::Direct | Scheme::Leveret => {}
            Scheme::Relay => {
                delete(&self.relayed).await?;
            }
            Scheme::Cascade => {
                for name in self.cascade.queues() {
                    delete(&name).await?;
                }
                for name in self.cascade.exchanges() {
                    gone(&name).await?;
                }
            }
            Scheme::Plugin => gone(&self.delayed_exchange).await?,
        }
        Ok(())
    }
}

async fn queue(
    channel: &Channel,
    name: &str,
    kind: QueueType,
    mut arguments: FieldTable,
) -> Result<(), Failure> {
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.as_str().into()));
    channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await?;
    Ok(())
}

async fn exchange(
    channel: &Channel,
    name: &str,
    kind: ExchangeKind,
    arguments: FieldTable,
) -> Result<(), Failure> {
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    Ok(channel.exchange_declare(name.into(), kind, options, arguments).await?)
}

async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) -> Result<(), Failure> {
    let options = QueueBindOptions::default();
    Ok(channel.queue_bind(queue.into(), exchange.into(), key.into(), options, FieldTable::default()).await?)
}
