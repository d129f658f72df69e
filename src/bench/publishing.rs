//! The publisher: at a steady rate, confirmed, with a bounded number of confirms outstanding.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, PublisherConfirm};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::load::{Bodies, Delays};
use super::run::Shared;
use super::scheme::{Address, Stage};
use crate::amqp::failure::Failure;
use crate::amqp::publisher::{self, Outgoing};

/// Most publishes whose confirms are outstanding.
const WINDOW: usize = 5_000;

/// Publishes are handed over this often: in what becomes due within it they come together, as those of several
/// publishers would.
const TICK: Duration = Duration::from_millis(1);

/// Most messages that are handed over at once.
const MOST_AT_ONCE: u64 = 500;

/// What is to be published, and to whom.
pub(super) struct Publishing<'a> {
    pub(super) stage: &'a Stage,
    pub(super) queue: &'a str,
    pub(super) delays: Delays,
    pub(super) messages: u64,
    /// Messages a second; as many as the broker confirms where it is zero.
    pub(super) rate: u64,
    pub(super) size: usize,
}

/// Publishes until all are confirmed, or told to stop. Tells `shared` of each, where there is one.
pub(super) async fn publish(
    channel: &Channel,
    what: Publishing<'_>,
    shared: Option<&Arc<Shared>>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let bodies = Bodies::new(what.size);
    let window = Arc::new(Semaphore::new(WINDOW));
    let (confirm, confirms) = mpsc::unbounded_channel();
    let confirming = tokio::spawn(confirmed(confirms, window.clone(), shared.cloned()));
    let started = Instant::now();
    let (mut next, mut refused) = (0, None);
    while next < what.messages && !stop.is_cancelled() && !confirming.is_finished() {
        let since = started.elapsed();
        let allowed = if what.rate == 0 {
            next + MOST_AT_ONCE
        } else {
            (since.as_secs_f64() * what.rate as f64) as u64 + 1
        };
        let count = allowed.min(what.messages).saturating_sub(next).min(MOST_AT_ONCE);
        if count == 0 {
            let at = Duration::from_secs_f64(next as f64 / what.rate.max(1) as f64);
            sleep_until(started + at.max(since + TICK)).await;
            continue;
        }
        // Its permits come back one by one, with the confirms.
        let permits = window.acquire_many(u32::try_from(count).unwrap_or(u32::MAX));
        let permits = tokio::select! {
            permits = permits => permits,
            () = stop.cancelled() => break,
        };
        // It is closed where a confirm says why.
        let Ok(permits) = permits else { break };
        permits.forget();
        let batch: Vec<_> =
            (next..next + count).map(|sequence| what.message(&bodies, sequence, started.elapsed())).collect();
        let (written, failure) = publisher::write(channel, &batch).await;
        for (position, written) in written {
            // The receiver is gone only where it has failed, and says so below.
            let _ = confirm.send((next + position as u64, written));
        }
        if let Some(shared) = shared {
            let mut tally = shared.tally();
            (0..count).for_each(|_| tally.published());
        }
        if failure.is_some() {
            refused = failure;
            break;
        }
        next += count;
    }
    drop(confirm);
    if stop.is_cancelled() {
        confirming.abort();
        return Ok(());
    }
    // A confirm knows why the channel was closed; a write after that knows only that it was.
    confirming.await.unwrap_or_else(|error| Err(Failure::Connection(error.to_string())))?;
    refused.map_or(Ok(()), Err)
}

impl Publishing<'_> {
    fn message(&self, bodies: &Bodies, sequence: u64, since_start: Duration) -> Outgoing {
        let delay = self.stage.scheme.attainable(self.delays.pick(since_start));
        let due_us = wall_micros().saturating_add(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
        let Address { exchange, routing_key, headers } = self.stage.address(self.queue, delay);
        Outgoing {
            exchange,
            routing_key,
            properties: properties(headers),
            body: bodies.stamped(sequence, due_us),
            mandatory: self.stage.scheme.confirms_routing(),
        }
    }
}

fn properties(headers: FieldTable) -> BasicProperties {
    BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("application/json".into())
        .with_headers(headers)
}

async fn confirmed(
    confirms: mpsc::UnboundedReceiver<(u64, PublisherConfirm)>,
    window: Arc<Semaphore>,
    shared: Option<Arc<Shared>>,
) -> Result<(), Failure> {
    let ended = confirm_all(confirms, &window, shared).await;
    if ended.is_err() {
        window.close();
    }
    ended
}

async fn confirm_all(
    mut confirms: mpsc::UnboundedReceiver<(u64, PublisherConfirm)>,
    window: &Semaphore,
    shared: Option<Arc<Shared>>,
) -> Result<(), Failure> {
    while let Some((sequence, confirm)) = confirms.recv().await {
        let confirmation = confirm.await?;
        window.add_permits(1);
        let acked = confirmation.is_ack();
        if let Some(back) = confirmation.take_message() {
            let (code, text) = (back.reply_code, &back.reply_text);
            return Err(Failure::Channel { code, text: text.to_string() });
        }
        if let (true, Some(shared)) = (acked, &shared) {
            shared.tally().confirmed(sequence);
        }
    }
    Ok(())
}

/// The wall clock in microseconds since the Unix epoch.
pub(super) fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
