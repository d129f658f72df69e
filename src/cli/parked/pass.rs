//! One pass through the parked queue: every message is looked at once, and is back in the queue at the end unless it
//! was removed.
//!
//! A message that is returned goes before all that were never looked at (and, in a quorum queue, behind those that were
//! returned before), so what was looked at must be kept until the end. Kept is only its number: bodies are dropped one
//! by one. Each consumer keeps one window of messages, its prefetch, and then makes way for the next; so no more than a
//! window of bodies is ever in memory. Windows are returned one after another, which keeps their order. To get messages
//! singly would cost the broker one Raft command each, some milliseconds; and what is returned by closing the channel
//! comes back in any order.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use tokio::time::{sleep, timeout};

use super::super::broker;
use super::super::exit::Stop;
use crate::amqp::connection::Link;
use crate::amqp::failure::Failure;
use crate::amqp::topology::Names;
use crate::config::Config;

/// Messages that one consumer keeps.
const WINDOW: u16 = 200;
const FULL: usize = WINDOW as usize;

/// When nothing has come for so long, the pass asks whether anything is left: somebody else may have taken it.
const QUIET: Duration = Duration::from_millis(500);

/// After so many quiet times in which something was left, the broker is not going to deliver it.
const PATIENCE: u32 = 20;

/// How long, at the end, the broker may take for what it was told.
const SETTLING: Duration = Duration::from_secs(10);

/// Pause between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// A pass under way.
pub(super) struct Pass {
    link: Link,
    channel: Channel,
    queue: String,
    consumer: Option<Consumer>,
    /// The delivery tags of the messages that are kept.
    kept: BTreeSet<u64>,
    /// The last delivery tag of each window that is full.
    windows: Vec<u64>,
    /// Messages that were in the queue at the start and have not been looked at: the pass ends, although new ones come.
    unseen: u64,
    /// How many may be kept.
    most_kept: usize,
    /// Ready in the queue at the start.
    pub(super) ready: u64,
    /// Consumers of the queue at the start: other passes.
    others: u32,
}

impl Pass {
    /// Connects, and counts what there is. The pass ends before it keeps more than `most_kept` messages.
    pub(super) async fn begin(config: &Config, most_kept: u64) -> Result<Self, Stop> {
        let queue = Names::new(&config.namespace).parked();
        let link = broker::connect(config).await?;
        let channel = link.channel().await?;
        let qos = channel.basic_qos(WINDOW, BasicQosOptions::default()).await;
        qos.map_err(|error| explain(error.into(), &queue))?;
        let mut pass = Self {
            link,
            channel,
            queue,
            consumer: None,
            kept: BTreeSet::new(),
            windows: Vec::new(),
            unseen: 0,
            most_kept: usize::try_from(most_kept).unwrap_or(usize::MAX),
            ready: 0,
            others: 0,
        };
        (pass.ready, pass.others) = pass.counts().await?;
        pass.unseen = pass.ready;
        Ok(pass)
    }

    /// Messages that are ready in the queue, and its consumers.
    async fn counts(&self) -> Result<(u64, u32), Stop> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let name = self.queue.as_str().into();
        let queue = self.channel.queue_declare(name, options, FieldTable::default()).await;
        let queue = queue.map_err(|error| explain(error.into(), &self.queue))?;
        Ok((queue.message_count().into(), queue.consumer_count()))
    }

    /// The next message. It is kept, unless it is [removed](Self::remove).
    pub(super) async fn next(&mut self) -> Result<Option<Delivery>, Stop> {
        if self.unseen == 0 || self.is_full() {
            return Ok(None);
        }
        let Some(delivery) = self.receive().await? else {
            self.unseen = 0;
            return Ok(None);
        };
        self.unseen -= 1;
        self.kept.insert(delivery.delivery_tag);
        let window = self.windows.last().map_or(0, |last| last + 1)..;
        if self.kept.range(window).count() == FULL {
            self.windows.push(delivery.delivery_tag);
            self.stop_consuming().await?;
        }
        Ok(Some(delivery))
    }

    /// The next delivery; `None` where nothing is left.
    async fn receive(&mut self) -> Result<Option<Delivery>, Stop> {
        let mut quiet = 0;
        loop {
            let consumer = self.consumer().await?;
            match timeout(QUIET, consumer.next()).await {
                Ok(Some(delivery)) => return Ok(Some(delivery.map_err(Failure::from)?)),
                Ok(None) => {
                    return Err(Stop::failure("the broker cancelled reading the parked queue; try again"));
                }
                Err(_elapsed) => quiet += 1,
            }
            if self.counts().await?.0 == 0 {
                return Ok(None);
            }
            if quiet == PATIENCE {
                let queue = &self.queue;
                return Err(Stop::failure(format!(
                    "the broker does not deliver what is in queue \"{queue}\": has the queue lost its leader?"
                )));
            }
        }
    }

    async fn consumer(&mut self) -> Result<&mut Consumer, Stop> {
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => {
                let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
                let consumer =
                    self.channel.basic_consume(queue, "".into(), options, FieldTable::default()).await;
                consumer.map_err(|error| explain(error.into(), &self.queue))?
            }
        };
        Ok(self.consumer.insert(consumer))
    }

    /// What the consumer has, it keeps.
    async fn stop_consuming(&mut self) -> Result<(), Stop> {
        let Some(consumer) = self.consumer.take() else { return Ok(()) };
        let cancelled = self.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
        cancelled.map_err(|error| Failure::from(error).into())
    }

    /// Removes a message from the queue for good, and makes room for another.
    pub(super) async fn remove(&mut self, delivery_tag: u64) -> Result<(), Stop> {
        self.channel
            .basic_ack(delivery_tag, BasicAckOptions { multiple: false })
            .await
            .map_err(Failure::from)?;
        self.kept.remove(&delivery_tag);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= self.most_kept
    }

    /// Whether the pass has kept as many messages as it may, and more were there.
    pub(super) fn is_cut_short(&self) -> bool {
        self.unseen > 0 && self.is_full()
    }

    /// Returns what was kept, in order, and waits until the broker has handled all of it.
    pub(super) async fn end(mut self) -> Result<(), Stop> {
        // A consumer would be given again what is returned.
        self.stop_consuming().await?;
        // The broker refuses a tag that is not kept. Tag 0 is everything that is left, also what was not looked at.
        let last_kept = |window: &u64| self.kept.range(..=window).next_back().copied();
        let mut returned: Vec<_> = self.windows.iter().filter_map(last_kept).collect();
        returned.dedup();
        for last in returned.into_iter().chain([0]) {
            let options = BasicNackOptions { multiple: true, requeue: true };
            self.channel.basic_nack(last, options).await.map_err(Failure::from)?;
        }
        self.wait_until_settled().await?;
        self.channel.close(200, "done".into()).await.map_err(Failure::from)?;
        broker::close(self.link).await;
        Ok(())
    }

    /// The broker holds back acknowledgements of a quorum queue where more than a few dozen are on their way, and
    /// forgets them when their channel is closed: removed messages would come back. A cancelled consumer counts until
    /// the queue has heard of the last message that it had.
    async fn wait_until_settled(&self) -> Result<(), Stop> {
        let settling = async {
            while self.counts().await?.1 > self.others {
                sleep(LOOK).await;
            }
            Ok(())
        };
        // Somebody else's consumer that has come meanwhile counts as well: then the time has to do.
        timeout(SETTLING, settling).await.unwrap_or(Ok(()))
    }
}

fn explain(failure: Failure, queue: &str) -> Stop {
    match failure {
        Failure::Channel { code: 404, .. } => Stop::failure(format!(
            "there is no queue \"{queue}\": Leveret has not run with this configuration yet; check `amqp` (the \
             virtual host) and `namespace`"
        )),
        Failure::Channel { .. } | Failure::ChannelGone => {
            Stop::failure(format!("cannot read queue \"{queue}\": {failure}"))
        }
        failure @ (Failure::Connection(_) | Failure::Unreadable(_)) => failure.into(),
    }
}
