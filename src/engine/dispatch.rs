//! Publishes what is to be published: one lane for each target of a bridge, one batch of a lane at a time, on channels of a
//! small pool. So the order within a lane holds, a bad target closes only the channel that it had to itself, and a
//! target that does not answer costs only the messages that are for it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use lapin::Channel;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::reputation::Reputation;
use crate::amqp::connection::SharedLink;
use crate::amqp::failure::Failure;
use crate::amqp::publisher::{self, Outcome, Outgoing, Verdict};
use crate::crash_point;
use crate::domain::message::Text;
use crate::domain::packer::Destination;

/// Most channels that publish at the same time.
const MAX_CHANNELS: usize = 16;

/// Most messages in one batch.
const BATCH_MESSAGES: usize = 512;

/// Most bytes in one batch. A message as large as that is published alone: where the broker refuses it for its
/// size, that costs no other.
const BATCH_BYTES: usize = 4 * 1_024 * 1_024;

/// Most targets that do not answer whose answer is waited for at the same time.
const MAX_PROBES: usize = 32;

/// Most batches whose confirms lag that are waited for at the same time.
const MAX_DETACHED: usize = 64;

/// How long a lane waits for confirms before it goes on without those that lag.
const PATIENCE: Duration = Duration::from_secs(3);

/// Messages of one lane are published in order, and share what happens to their channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// Bundles to one destination: a level that does not answer costs only itself.
    Bundles(Destination),
    /// Parked messages.
    Parked,
    /// Deliveries of a bridge to an exchange: a bridge with very many does not stand before another.
    Target { bridge: Text, exchange: String },
    /// Deliveries to an exchange and routing key from which confirms did not come.
    Suspect(Address),
}

impl Lane {
    /// What passes through it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Bundles(_) => "bundles",
            Self::Parked => "parked",
            Self::Target { .. } | Self::Suspect(_) => "target",
        }
    }
}

/// Exchange and routing key.
pub(super) type Address = (String, String);

/// A message to publish, and what belongs to it.
#[derive(Debug)]
pub(super) struct Job<T> {
    pub(super) outgoing: Outgoing,
    pub(super) token: T,
    solo: bool,
}

impl<T> Job<T> {
    /// A job that shares a batch with others, unless it is very large.
    pub(super) fn new(outgoing: Outgoing, token: T) -> Self {
        let solo = outgoing.body.len() >= BATCH_BYTES;
        Self { outgoing, token, solo }
    }

    /// A job in a batch of its own: what the broker may refuse costs no other.
    pub(super) fn solo(outgoing: Outgoing, token: T) -> Self {
        Self { outgoing, token, solo: true }
    }

    fn address(&self) -> Address {
        (self.outgoing.exchange.clone(), self.outgoing.routing_key.clone())
    }
}

/// What became of a job.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is safe in every queue that it was routed to.
    Confirmed,
    /// No queue takes it; the broker's words.
    Returned(String),
    /// A queue refused it.
    Nacked,
    /// The broker refused it, and closed the channel.
    Refused(Failure),
    /// No confirm came in time; it may have arrived.
    Unconfirmed,
}

/// The publishing connection is gone, and every job in flight with it, unsettled.
#[derive(Debug)]
pub(super) struct LinkLost(pub(super) String);

/// A finished batch.
pub(super) struct Finished<T> {
    /// The lane that it was of.
    pub(super) lane: Lane,
    /// Its jobs, each with its fate.
    pub(super) fates: Vec<(Job<T>, Fate)>,
    /// From the first write to the last confirm.
    pub(super) elapsed: Duration,
    /// Jobs whose confirms lag: the lane goes on without them, and their fates come in a batch of their own.
    pub(super) parted: usize,
    /// Whether this is such a batch.
    pub(super) detached: bool,
}

struct Queue<T> {
    waiting: VecDeque<Job<T>>,
    busy: bool,
}

struct Batch<T> {
    lane: Lane,
    outgoing: Vec<Outgoing>,
    tokens: Vec<T>,
    started: Instant,
    // Whether its lane has gone on without it.
    detached: bool,
}

type Published<T> = (Batch<T>, Option<Channel>, Outcome);

/// Lanes, and the channels that they publish on.
pub(super) struct Dispatcher<T> {
    link: SharedLink,
    lanes: HashMap<Lane, Queue<T>>,
    // Lanes that have something to publish and no batch in flight, first come, first served.
    ready: VecDeque<Lane>,
    idle: Vec<Channel>,
    in_flight: JoinSet<Published<T>>,
    // Batches in flight that their lane waits for, apart from probes.
    publishing: usize,
    known: Reputation,
    confirm_timeout: Duration,
}

impl<T: Send + Sync + 'static> Dispatcher<T> {
    pub(super) fn new(link: SharedLink, confirm_timeout: Duration) -> Self {
        Self {
            link,
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            idle: Vec::new(),
            in_flight: JoinSet::new(),
            publishing: 0,
            known: Reputation::default(),
            confirm_timeout,
        }
    }

    /// Queues a job.
    pub(super) fn push(&mut self, lane: Lane, job: Job<T>) {
        let queue =
            self.lanes.entry(lane.clone()).or_insert_with(|| Queue { waiting: VecDeque::new(), busy: false });
        queue.waiting.push_back(job);
        if !queue.busy && queue.waiting.len() == 1 {
            self.ready.push_back(lane);
        }
    }

    /// Queues a delivery; gives it back where its target does not answer at the moment.
    pub(super) fn deliver(&mut self, bridge: Text, job: Job<T>) -> Option<Job<T>> {
        if !self.known.is_suspect(|| job.address()) {
            self.push(Lane::Target { bridge, exchange: job.outgoing.exchange.clone() }, job);
            return None;
        }
        // One message at a time finds out whether it answers again.
        let lane = Lane::Suspect(job.address());
        if self.lanes.contains_key(&lane) || self.probes() >= MAX_PROBES {
            return Some(job);
        }
        self.push(lane, job);
        None
    }

    /// Starts as many batches as there are lanes and channels for; gives back deliveries whose target has been
    /// found not to answer since they were queued.
    #[must_use]
    pub(super) fn start(&mut self) -> Vec<Job<T>> {
        let mut diverted = Vec::new();
        while self.publishing < MAX_CHANNELS
            && let Some(lane) = self.ready.pop_front()
        {
            let Some((outgoing, tokens)) = self.take_batch(&lane, &mut diverted) else { continue };
            let probe = matches!(lane, Lane::Suspect(_));
            let patience = if probe { self.confirm_timeout } else { PATIENCE };
            self.publishing += usize::from(!probe);
            let batch = Batch { lane, outgoing, tokens, started: Instant::now(), detached: false };
            self.in_flight.spawn(publish(self.link.clone(), self.idle.pop(), batch, patience));
        }
        diverted
    }

    /// Waits for the next batch to finish; for ever where none is in flight.
    pub(super) async fn next(&mut self) -> Result<Finished<T>, LinkLost> {
        match self.in_flight.join_next().await {
            Some(Ok((batch, channel, outcome))) => self.finish(batch, channel, outcome),
            Some(Err(error)) => Err(LinkLost(format!("publishing failed: {error}"))),
            None => std::future::pending().await,
        }
    }

    /// Whether nothing waits and nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.lanes.is_empty()
    }

    fn probes(&self) -> usize {
        self.lanes.keys().filter(|lane| matches!(lane, Lane::Suspect(_))).count()
    }

    /// Batches whose lanes have gone on without them.
    fn detached(&self) -> usize {
        self.in_flight.len().saturating_sub(self.publishing + self.probes())
    }

    fn take_batch(&mut self, lane: &Lane, diverted: &mut Vec<Job<T>>) -> Option<(Vec<Outgoing>, Vec<T>)> {
        let mut queue = self.lanes.remove(lane)?;
        let to_target = matches!(lane, Lane::Target { .. });
        let (mut outgoing, mut tokens, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(job) = queue.waiting.pop_front() {
            if to_target && self.known.is_suspect(|| job.address()) {
                diverted.push(job);
                continue;
            }
            let size = job.outgoing.body.len();
            let solo =
                job.solo || to_target && self.known.goes_alone(&job.outgoing.exchange, || job.address());
            if !outgoing.is_empty() && (solo || bytes + size > BATCH_BYTES) {
                queue.waiting.push_front(job);
                break;
            }
            outgoing.push(job.outgoing);
            tokens.push(job.token);
            bytes += size;
            if solo || outgoing.len() >= BATCH_MESSAGES {
                break;
            }
        }
        if outgoing.is_empty() {
            return None;
        }
        queue.busy = true;
        self.lanes.insert(lane.clone(), queue);
        Some((outgoing, tokens))
    }

    fn finish(
        &mut self,
        batch: Batch<T>,
        channel: Option<Channel>,
        outcome: Outcome,
    ) -> Result<Finished<T>, LinkLost> {
        let Outcome { verdicts, failure, lagging } = outcome;
        if let Some(Failure::Connection(text) | Failure::Unreadable(text)) = failure {
            return Err(LinkLost(text));
        }
        let Batch { lane, outgoing, tokens, started, detached } = batch;
        if !detached && !matches!(lane, Lane::Suspect(_)) {
            self.publishing -= 1;
        }
        let alone = outgoing.len() == 1;
        let may_detach = !detached && !matches!(lane, Lane::Suspect(_)) && self.detached() < MAX_DETACHED;
        let (mut fates, mut again, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for (position, ((outgoing, token), verdict)) in
            outgoing.into_iter().zip(tokens).zip(verdicts).enumerate()
        {
            let job = Job::solo(outgoing, token);
            let fate = match (verdict, &failure) {
                (Verdict::Confirmed, _) => Fate::Confirmed,
                (Verdict::Returned { answer }, _) => Fate::Returned(answer),
                (Verdict::Nacked, _) => Fate::Nacked,
                (Verdict::Unknown, Some(failure @ Failure::Channel { .. })) if alone => {
                    Fate::Refused(failure.clone())
                }
                (Verdict::Unknown, None) if lagging.as_ref().is_some_and(|late| late.contains(position)) => {
                    if may_detach {
                        late.push(job);
                        continue;
                    }
                    Fate::Unconfirmed
                }
                // Another message of the batch closed the channel, or a return fits several: each alone tells.
                (Verdict::Unknown, _) => {
                    again.push(job);
                    continue;
                }
            };
            self.known.learn(&job.outgoing.exchange, || job.address(), &fate);
            fates.push((job, fate));
        }
        if let Some(failure) = failure.as_ref().filter(|failure| failure.concerns_whole_exchange()) {
            self.condemn(&lane, alone, failure, &mut fates);
        }
        let parted = late.len();
        match (channel, lagging) {
            (Some(channel), Some(lagging)) if !late.is_empty() => {
                self.detach(&lane, late, channel, lagging, started);
            }
            (Some(channel), None) if failure.is_none() && self.idle.len() < MAX_CHANNELS => {
                self.idle.push(channel)
            }
            // Dropping the channel closes it.
            _ => {}
        }
        self.release(&lane, again, detached);
        Ok(Finished { lane, fates, elapsed: started.elapsed(), parted, detached })
    }

    /// The exchange of a lane is missing, or forbidden. Where that is certain, what waits for it shares the fate.
    fn condemn(&mut self, lane: &Lane, certain: bool, failure: &Failure, fates: &mut Vec<(Job<T>, Fate)>) {
        if let Lane::Target { exchange, .. } = lane {
            self.known.condemn(exchange);
        }
        if certain && let Some(queue) = self.lanes.get_mut(lane) {
            fates.extend(queue.waiting.drain(..).map(|job| (job, Fate::Refused(failure.clone()))));
        }
    }

    /// Waits for the rest of a batch apart from its lane, which goes on.
    fn detach(
        &mut self,
        lane: &Lane,
        late: Vec<Job<T>>,
        channel: Channel,
        lagging: publisher::Lagging,
        started: Instant,
    ) {
        if matches!(lane, Lane::Target { .. }) {
            late.iter().for_each(|job| self.known.suspect(job.address()));
        }
        let (outgoing, tokens) = late.into_iter().map(|job| (job.outgoing, job.token)).unzip();
        let batch = Batch { lane: lane.clone(), outgoing, tokens, started, detached: true };
        let (patience, blocked) = (self.confirm_timeout, self.link.blocked());
        self.in_flight.spawn(async move {
            let outcome = Outcome {
                verdicts: vec![Verdict::Unknown; batch.outgoing.len()],
                failure: None,
                lagging: Some(lagging.renumbered()),
            };
            let outcome = collect(&batch.outgoing, outcome, patience, blocked).await;
            (batch, Some(channel), outcome)
        });
    }

    /// Lets the lane go on; `again` goes first.
    fn release(&mut self, lane: &Lane, again: Vec<Job<T>>, detached: bool) {
        if again.is_empty() && detached {
            return;
        }
        let queue =
            self.lanes.entry(lane.clone()).or_insert_with(|| Queue { waiting: VecDeque::new(), busy: false });
        let was_ready = !queue.busy && !queue.waiting.is_empty();
        for job in again.into_iter().rev() {
            queue.waiting.push_front(job);
        }
        if !detached {
            queue.busy = false;
        }
        if queue.busy || was_ready {
            return;
        }
        if queue.waiting.is_empty() {
            self.lanes.remove(lane);
        } else {
            self.ready.push_back(lane.clone());
        }
    }
}

async fn publish<T>(
    link: SharedLink,
    channel: Option<Channel>,
    batch: Batch<T>,
    patience: Duration,
) -> Published<T> {
    let channel = match channel.filter(|channel| channel.status().connected()) {
        Some(channel) => Ok(channel),
        None => link.confirming_channel().await,
    };
    match channel {
        Ok(channel) => {
            crash_point::pass("publishing", batch.lane.kind());
            let outcome = publisher::publish(&channel, &batch.outgoing, patience).await;
            crash_point::pass("confirmed", batch.lane.kind());
            let outcome = if *link.blocked().borrow() {
                collect(&batch.outgoing, outcome, patience, link.blocked()).await
            } else {
                outcome
            };
            (batch, Some(channel), outcome)
        }
        Err(failure) => {
            let verdicts = vec![Verdict::Unknown; batch.outgoing.len()];
            // A channel that cannot be opened is the connection's trouble, not the batch's.
            let failure = Some(Failure::Connection(failure.to_string()));
            (batch, None, Outcome { verdicts, failure, lagging: None })
        }
    }
}

/// Waits for the confirms that lag. The broker's alarm is no reason to give up on them.
async fn collect(
    batch: &[Outgoing],
    mut outcome: Outcome,
    patience: Duration,
    mut blocked: watch::Receiver<bool>,
) -> Outcome {
    while let Some(lagging) = outcome.lagging.take() {
        // An error means that the connection is gone: then so are the confirms, and collecting says so at once.
        let _ = blocked.wait_for(|blocked| !blocked).await;
        (outcome.failure, outcome.lagging) = lagging.collect(batch, &mut outcome.verdicts, patience).await;
        if !*blocked.borrow() {
            break;
        }
    }
    outcome
}
