//! An application: publishes, declares and consumes, over lapin.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use tokio::sync::mpsc;

const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const PREFETCH: u16 = 1000;

/// A connection with one channel, in confirm mode.
pub(crate) struct Client {
    connection: Connection,
    channel: Channel,
}

/// A message and when it came.
#[derive(Debug)]
pub(crate) struct Received {
    /// Unix milliseconds.
    pub(crate) at_ms: i64,
    pub(crate) delivery: Delivery,
}

/// What a consumer has collected and nobody has looked at yet; each message is acknowledged as it comes.
pub(crate) struct Inbox {
    messages: mpsc::UnboundedReceiver<Received>,
}

/// Now, in Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(elapsed.as_millis()).unwrap()
}

/// A table of headers or arguments.
pub(crate) fn table<const N: usize>(fields: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in fields {
        table.insert(name.into(), value);
    }
    table
}

/// `amqp://user:password@host,other/vhost` taken apart.
fn of_one_host_each(uri: &str) -> impl Iterator<Item = String> {
    let (before, hosts) = uri.rsplit_once('@').unwrap();
    let (hosts, vhost) = hosts.split_once('/').unwrap();
    hosts.split(',').map(move |host| format!("{before}@{host}/{vhost}"))
}

impl Client {
    /// Connects to a virtual host; of several hosts, separated by commas, to the first that answers.
    pub(crate) async fn connect(uri: &str) -> Self {
        Self::try_connect(uri).await.unwrap()
    }

    /// Connects where the broker may refuse.
    pub(crate) async fn try_connect(uri: &str) -> Result<Self, lapin::Error> {
        let mut failure = io::Error::other("the URI names no host").into();
        for uri in of_one_host_each(uri) {
            match tokio::time::timeout(CONNECT_LIMIT, Self::connect_to(&uri)).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::Error::other("the broker does not answer").into(),
            }
        }
        Err(failure)
    }

    async fn connect_to(uri: &str) -> Result<Self, lapin::Error> {
        let connection = Connection::connect(uri, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { connection, channel })
    }

    /// Its channel, for what is not below.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether its connection is open.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Waits until its connection is lost. What waits for the broker may not notice: now and then the library leaves an
    /// operation that was in progress without an answer.
    pub(crate) async fn lost(&self) {
        while self.is_connected() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Declares a durable queue.
    pub(crate) async fn declare_queue(&self, queue: &str, arguments: FieldTable) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), options, arguments).await.unwrap();
    }

    /// Declares a durable exchange.
    pub(crate) async fn declare_exchange(&self, exchange: &str, kind: ExchangeKind) {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(exchange.into(), kind, options, FieldTable::default()).await.unwrap();
    }

    /// Binds a queue to an exchange.
    pub(crate) async fn bind(&self, queue: &str, exchange: &str, key: &str, arguments: FieldTable) {
        let options = QueueBindOptions::default();
        self.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments).await.unwrap();
    }

    /// How many messages are ready in a queue, at this moment.
    pub(crate) async fn depth(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared =
            self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
        declared.message_count()
    }

    /// Publishes `mandatory` and waits until the broker has taken the message and routed it.
    pub(crate) async fn publish(&self, exchange: &str, key: &str, properties: BasicProperties, body: &[u8]) {
        let confirmation = self.try_publish(exchange, key, properties, body).await.unwrap();
        assert_eq!(confirmation, Confirmation::Ack(None), "publish to {exchange:?} with key {key:?}");
    }

    /// Publishes `mandatory` where the broker may return, nack or refuse.
    pub(crate) async fn try_publish(
        &self,
        exchange: &str,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<Confirmation, lapin::Error> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        self.channel.basic_publish(exchange.into(), key.into(), options, body, properties).await?.await
    }

    /// Consumes a queue on a channel of its own.
    pub(crate) async fn consume(&self, queue: &str) -> Inbox {
        let channel = self.connection.create_channel().await.unwrap();
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await.unwrap();
        let options = BasicConsumeOptions::default();
        let mut consumer =
            channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap();
        let (sender, messages) = mpsc::unbounded_channel();
        // Ends with the consumer, hence with the connection.
        tokio::spawn(async move {
            while let Some(Ok(delivery)) = consumer.next().await {
                let at_ms = now_ms();
                if delivery.ack(BasicAckOptions::default()).await.is_err() {
                    return;
                }
                if sender.send(Received { at_ms, delivery }).is_err() {
                    return;
                }
            }
        });
        Inbox { messages }
    }
}

impl Inbox {
    /// The next message; panics if there is none within `limit`.
    pub(crate) async fn next(&mut self, limit: Duration) -> Received {
        match tokio::time::timeout(limit, self.messages.recv()).await {
            Ok(Some(received)) => received,
            Ok(None) => panic!("the consumer ended"),
            Err(_) => panic!("no message within {limit:?}"),
        }
    }

    /// The next `count` messages; panics, with how many came, if they take longer than `limit` in all.
    pub(crate) async fn take(&mut self, count: usize, limit: Duration) -> Vec<Received> {
        let mut all = Vec::with_capacity(count);
        let collecting = async {
            while all.len() < count {
                all.push(self.messages.recv().await.expect("the consumer ended"));
            }
        };
        let in_time = tokio::time::timeout(limit, collecting).await.is_ok();
        assert!(in_time, "{} of {count} messages within {limit:?}", all.len());
        all
    }

    /// What came and was not looked at, without waiting.
    pub(crate) fn drain(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.messages.try_recv().ok()).collect()
    }
}
