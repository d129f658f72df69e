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
use crate::crash_point;
use crate::domain::header;

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

/// Publishes that are written but not yet confirmed, each with its position in the batch, in order.
#[derive(Debug)]
pub struct Lagging(Vec<(usize, PublisherConfirm)>);

/// Publishes `batch` on `channel` in order, and waits for the confirms no longer than `patience`.
pub async fn publish(channel: &Channel, batch: &[Outgoing], patience: Duration) -> Outcome {
    let mut verdicts = vec![Verdict::Unknown; batch.len()];
    let (confirms, refused) = write(channel, batch).await;
    crash_point::pass("published", "any");
    // What was written before the failure may well be confirmed: asking avoids a duplicate.
    let (failure, lagging) = Lagging(confirms).collect(batch, &mut verdicts, patience).await;
    // The confirms know why the channel was closed; the writes after that know only that it was.
    Outcome { verdicts, failure: failure.or(refused), lagging }
}

impl Lagging {
    /// Whether the publish at that position of the batch is one of these.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        self.0.binary_search_by_key(&position, |(position, _)| *position).is_ok()
    }

    /// The same confirms for a batch that holds only the messages that lag, in the same order.
    #[must_use]
    pub fn renumbered(self) -> Self {
        Self(self.0.into_iter().enumerate().map(|(index, (_, confirm))| (index, confirm)).collect())
    }

    /// Waits for the rest of the confirms, no longer than `patience`.
    pub async fn collect(
        self,
        batch: &[Outgoing],
        verdicts: &mut [Verdict],
        patience: Duration,
    ) -> (Option<Failure>, Option<Self>) {
        let deadline = Instant::now() + patience;
        let (mut failure, mut returned, mut late) = (None, Vec::new(), Vec::new());
        for (index, mut confirm) in self.0 {
            match timeout_at(deadline, &mut confirm).await {
                Ok(Ok(confirmation)) => {
                    let acked = confirmation.is_ack();
                    returned.extend(confirmation.take_message());
                    if let Some(verdict) = verdicts.get_mut(index) {
                        *verdict = if acked { Verdict::Confirmed } else { Verdict::Nacked };
                    }
                }
                Ok(Err(error)) => failure = Some(failure.unwrap_or_else(|| Failure::from(error))),
                Err(_elapsed) => late.push((index, confirm)),
            }
        }
        match_returned(batch, verdicts, returned);
        // What came back needs no confirm any more.
        late.retain(|(index, _)| verdicts.get(*index) == Some(&Verdict::Unknown));
        let lagging = (failure.is_none() && !late.is_empty()).then_some(Self(late));
        (failure, lagging)
    }
}

/// Hands the whole batch to the client before waiting, so that it is written with few system calls. Each confirm comes
/// with the position of its message in the batch.
pub async fn write(
    channel: &Channel,
    batch: &[Outgoing],
) -> (Vec<(usize, PublisherConfirm)>, Option<Failure>) {
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

/// Marks the publishes that came back. Where it cannot be told which of several one was, none of them is settled: each
/// is to be published again alone, and then it can.
fn match_returned(batch: &[Outgoing], verdicts: &mut [Verdict], returned: Vec<BasicReturnMessage>) {
    for back in returned {
        let answer = format!("{}: {}", back.reply_code, back.reply_text);
        let open =
            |index: &usize| matches!(verdicts.get(*index), Some(Verdict::Confirmed | Verdict::Unknown));
        let candidates: Vec<usize> = (0..batch.len())
            .filter(open)
            .filter(|index| {
                batch.len() == 1 || batch.get(*index).is_some_and(|sent| same_message(sent, &back))
            })
            .collect();
        match tell_apart(batch, &candidates, &back) {
            Some(index) => {
                if let Some(verdict) = verdicts.get_mut(index) {
                    *verdict = Verdict::Returned { answer };
                }
            }
            None if candidates.is_empty() => doubt(verdicts, 0..batch.len()),
            None => doubt(verdicts, candidates),
        }
    }
}

fn doubt(verdicts: &mut [Verdict], positions: impl IntoIterator<Item = usize>) {
    for position in positions {
        if let Some(verdict) = verdicts.get_mut(position)
            && *verdict == Verdict::Confirmed
        {
            *verdict = Verdict::Unknown;
        }
    }
}

/// The broker may have changed properties on the way (a timestamp interceptor does), but nothing else.
fn same_message(sent: &Outgoing, back: &BasicReturnMessage) -> bool {
    sent.routing_key == back.delivery.routing_key.as_str()
        && sent.exchange == back.delivery.exchange.as_str()
        && sent.body == back.delivery.data
}

fn tell_apart(batch: &[Outgoing], candidates: &[usize], back: &BasicReturnMessage) -> Option<usize> {
    if let [only] = candidates {
        return Some(*only);
    }
    let find = |matches: &dyn Fn(&Outgoing) -> bool| {
        candidates.iter().copied().find(|index| batch.get(*index).is_some_and(matches))
    };
    let id = properties::text_header(&back.delivery.properties, header::ID);
    if id.is_some() {
        return find(&|sent| properties::text_header(&sent.properties, header::ID) == id);
    }
    let encoded = properties::encode(&back.delivery.properties);
    find(&|sent| properties::encode(&sent.properties) == encoded)
}

#[cfg(test)]
mod tests {
    use lapin::types::{AMQPValue, FieldTable};

    use super::*;

    fn sent(key: &str, id: &str, body: &'static str) -> Outgoing {
        let mut headers = FieldTable::default();
        headers.insert(header::ID.into(), AMQPValue::LongString(id.into()));
        Outgoing {
            exchange: "orders".to_owned(),
            routing_key: key.to_owned(),
            properties: if id.is_empty() {
                BasicProperties::default()
            } else {
                BasicProperties::default().with_headers(headers)
            },
            body: body.into(),
            mandatory: true,
        }
    }

    /// What the broker gives back, after an interceptor of its own has touched it.
    fn back(message: &Outgoing) -> BasicReturnMessage {
        let mut delivery = lapin::message::Delivery::mock(
            0,
            message.exchange.as_str().into(),
            message.routing_key.as_str().into(),
            false,
            message.body.to_vec(),
        );
        delivery.properties = message.properties.clone().with_timestamp(1);
        BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() }
    }

    fn verdicts(batch: &[Outgoing], returned: &[&Outgoing]) -> Vec<&'static str> {
        let mut verdicts = vec![Verdict::Confirmed; batch.len()];
        match_returned(batch, &mut verdicts, returned.iter().map(|message| back(message)).collect());
        let name = |verdict: &Verdict| match verdict {
            Verdict::Confirmed => "confirmed",
            Verdict::Returned { .. } => "returned",
            Verdict::Nacked => "nacked",
            Verdict::Unknown => "unknown",
        };
        verdicts.iter().map(name).collect()
    }

    #[test]
    fn a_returned_message_is_found_by_what_the_broker_does_not_change() {
        let batch = [sent("a", "1", "x"), sent("b", "2", "x"), sent("b", "3", "x"), sent("b", "4", "y")];
        assert_eq!(verdicts(&batch, &[&batch[2]]), ["confirmed", "confirmed", "returned", "confirmed"]);
        assert_eq!(
            verdicts(&batch, &[&batch[3], &batch[0]]),
            ["returned", "confirmed", "confirmed", "returned"]
        );
    }

    #[test]
    fn what_cannot_be_told_apart_is_not_settled() {
        let batch = [sent("b", "", "x"), sent("b", "", "x"), sent("c", "", "x")];
        assert_eq!(verdicts(&batch, &[&batch[0]]), ["unknown", "unknown", "confirmed"]);
        assert_eq!(verdicts(&batch[..1], &[&batch[0]]), ["returned"]);
        // Whatever comes back on a channel with one publish is that publish.
        assert_eq!(verdicts(&batch[..1], &[&sent("changed", "", "wholly")]), ["returned"]);
    }
}
