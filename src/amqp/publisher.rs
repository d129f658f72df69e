//! Publishing in batches: each batch has a channel to itself until every message in it has its verdict.
//!
//! Why batches: the client library hands a returned message to *some* publish that is confirmed at about the same
//! time, not always to its own. Within a batch that owns its channel, returned messages can be matched by content;
//! and a channel that the broker closes takes down no publish of another batch.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_fn;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, PublisherConfirm};
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::properties;

/// One message to publish.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Exchange, empty for the default exchange.
    pub exchange: String,
    /// Routing key.
    pub routing_key: String,
    /// Properties, as the broker shall see them.
    pub properties: BasicProperties,
    /// Body.
    pub body: Bytes,
    /// Whether the broker returns it where no queue takes it.
    pub mandatory: bool,
}

/// What became of one publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every queue that it was routed to has it.
    Confirmed,
    /// No queue takes it.
    Returned {
        /// The broker's words, with its reply code.
        answer: String,
    },
    /// A queue refused it.
    Nacked,
    /// Nobody knows; it may have arrived.
    Unknown,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Outcome {
    /// One verdict for each message, in order.
    pub verdicts: Vec<Verdict>,
    /// The failure that ended the channel, if one did.
    pub failure: Option<Failure>,
    /// Confirms that did not come within the patience; their verdicts are still `Unknown`.
    pub lagging: Option<Lagging>,
}

/// Publishes that are written but not yet confirmed.
#[derive(Debug)]
pub struct Lagging {
    confirms: Vec<(usize, PublisherConfirm)>,
    returned: Vec<BasicReturnMessage>,
}

/// Publishes `batch` on `channel` in order, and waits for the confirms no longer than `patience`.
pub async fn publish(channel: &Channel, batch: &[Outgoing], patience: Duration) -> Outcome {
    let mut verdicts = vec![Verdict::Unknown; batch.len()];
    let (confirms, refused) = write(channel, batch).await;
    // What was written before the failure may well be confirmed: asking avoids a duplicate.
    let written = Lagging { confirms, returned: Vec::new() };
    let (failure, lagging) = written.collect(batch, &mut verdicts, patience).await;
    // The confirms know why the channel was closed; the writes after that know only that it was.
    Outcome { verdicts, failure: failure.or(refused), lagging }
}

impl Lagging {
    /// The same confirms for a batch that holds only the messages that lag, in the same order.
    #[must_use]
    pub fn renumbered(mut self) -> Self {
        for (index, (position, _)) in self.confirms.iter_mut().enumerate() {
            *position = index;
        }
        self
    }

    /// Waits for the rest of the confirms, no longer than `patience`.
    pub async fn collect(
        mut self,
        batch: &[Outgoing],
        verdicts: &mut [Verdict],
        patience: Duration,
    ) -> (Option<Failure>, Option<Self>) {
        let deadline = Instant::now() + patience;
        let mut failure = None;
        let mut late = Vec::new();
        for (index, mut confirm) in self.confirms {
            match timeout_at(deadline, &mut confirm).await {
                Ok(Ok(confirmation)) => {
                    let acked = confirmation.is_ack();
                    self.returned.extend(confirmation.take_message());
                    if let Some(verdict) = verdicts.get_mut(index) {
                        *verdict = if acked { Verdict::Confirmed } else { Verdict::Nacked };
                    }
                }
                Ok(Err(error)) => failure = Some(failure.unwrap_or_else(|| Failure::from(error))),
                Err(_elapsed) => late.push((index, confirm)),
            }
        }
        let unmatched = match_returned(batch, verdicts, self.returned);
        let lagging =
            (failure.is_none() && !late.is_empty()).then_some(Self { confirms: late, returned: unmatched });
        (failure, lagging)
    }
}

/// Hands the whole batch to the client before waiting, so that it is written with few system calls.
async fn write(channel: &Channel, batch: &[Outgoing]) -> (Vec<(usize, PublisherConfirm)>, Option<Failure>) {
    let mut writes = Vec::with_capacity(batch.len());
    for message in batch {
        let options = BasicPublishOptions { mandatory: message.mandatory, ..Default::default() };
        let mut write = Box::pin(channel.basic_publish(
            message.exchange.as_str().into(),
            message.routing_key.as_str().into(),
            options,
            &message.body,
            message.properties.clone(),
        ));
        // The first poll queues the frames: polling in order keeps the order of publishing.
        let state = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
        writes.push((write, state));
    }
    let mut confirms = Vec::with_capacity(writes.len());
    let mut failure = None;
    for (index, (write, state)) in writes.into_iter().enumerate() {
        let written = match state {
            Poll::Ready(done) => done,
            Poll::Pending => write.await,
        };
        match written {
            Ok(confirm) => confirms.push((index, confirm)),
            Err(error) => failure = Some(failure.unwrap_or_else(|| Failure::from(error))),
        }
    }
    (confirms, failure)
}

/// Marks the publishes that came back. Returned messages that fit none stay, and cast doubt on what is confirmed.
fn match_returned(
    batch: &[Outgoing],
    verdicts: &mut [Verdict],
    returned: Vec<BasicReturnMessage>,
) -> Vec<BasicReturnMessage> {
    let mut unmatched = Vec::new();
    for back in returned {
        let answer = format!("{}: {}", back.reply_code, back.reply_text);
        let encoded = properties::encode(&back.delivery.properties);
        let found = batch.iter().zip(verdicts.iter_mut()).find(|(sent, verdict)| {
            **verdict == Verdict::Confirmed
                && sent.routing_key == back.delivery.routing_key.as_str()
                && sent.exchange == back.delivery.exchange.as_str()
                && sent.body == back.delivery.data
                && properties::encode(&sent.properties) == encoded
        });
        match found {
            Some((_, verdict)) => *verdict = Verdict::Returned { answer },
            None => unmatched.push(back),
        }
    }
    if !unmatched.is_empty() {
        // One of them was not delivered, and nothing says which: none of them may be settled.
        for verdict in verdicts.iter_mut().filter(|verdict| **verdict == Verdict::Confirmed) {
            *verdict = Verdict::Unknown;
        }
    }
    unmatched
}
