//! Consumes one queue: reads deliveries, hands them on, and acknowledges them when they are settled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Consumer};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::clock;
use super::consuming::Consuming;
use super::envelope;
use super::intake::{self, Refused};
use super::receipt::{Receipt, Settled};
use crate::amqp::connection::SharedLink;
use crate::amqp::failure::Failure;
use crate::amqp::topology::Topology;
use crate::crash_point;
use crate::domain::bundle::BundleError;
use crate::domain::codec::Codec;
use crate::domain::due::DueRules;
use crate::domain::message::{Message, Text};
use crate::domain::prefetch::{Change, Load, Prefetch};
use crate::domain::settlement::Settlement;
use crate::telemetry::metrics::Share;

/// Settled deliveries are gathered this long: one acknowledgement for many.
const GATHER: Duration = Duration::from_millis(10);

/// A settled delivery waits this long for those before it, then is acknowledged alone.
const OUT_OF_ORDER: Duration = Duration::from_millis(50);

/// Pause between attempts to consume again.
const RESUBSCRIBE: Duration = Duration::from_millis(500);

/// What a delivery turned out to be.
#[derive(Debug)]
pub(super) enum Arrival {
    /// An application's message.
    Published { message: Result<Message, Box<Refused>>, receipt: Receipt },
    /// Messages whose hop is over, each with its receipt.
    Bundle(Vec<(Message, Receipt)>),
    /// An envelope that cannot be read.
    Unreadable { properties: BasicProperties, body: Bytes, error: BundleError, receipt: Receipt },
}

impl Arrival {
    /// Bytes that it keeps in memory, near enough for a budget.
    fn size(&self) -> usize {
        match self {
            Self::Published { message: Ok(message), .. } => message.size(),
            Self::Published { message: Err(refused), .. } => refused.message.size(),
            Self::Bundle(messages) => messages.iter().map(|(message, _)| message.size()).sum(),
            Self::Unreadable { body, .. } => body.len(),
        }
    }
}

/// What a queue's deliveries are.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Applications' messages to a bridge.
    Ingress { bridge: Text, rules: DueRules },
    /// Bundles.
    Due { codec: Arc<Codec> },
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Ingress { .. } => "ingress",
            Self::Due { .. } => "due",
        }
    }
}

/// When to stop.
#[derive(Debug, Clone)]
pub(super) struct Signals {
    /// Take no more.
    pub(super) drain: CancellationToken,
    /// Everything is settled that will be: acknowledge and close.
    pub(super) finish: CancellationToken,
}

/// A consumer of one queue.
pub(super) struct Source {
    pub(super) link: SharedLink,
    pub(super) topology: Arc<Topology>,
    pub(super) queue: String,
    pub(super) kind: Kind,
    /// How much may be unsettled.
    pub(super) prefetch: Prefetch,
    pub(super) consuming: Consuming,
    /// Shows the number of unsettled deliveries.
    pub(super) unsettled: Share,
}

struct State {
    /// The name of the kind of its deliveries.
    kind: &'static str,
    channel: Channel,
    settlement: Settlement,
    prefetch: Prefetch,
    /// Of the last delivery: the broker counts those of a channel from 1, without a gap.
    last_tag: u64,
    subscriptions: u64,
    settled: UnboundedSender<Settled>,
    settlements: UnboundedReceiver<Settled>,
    ack_at: Option<Instant>,
}

/// What wakes a source apart from deliveries.
enum Wake {
    Settled(Vec<Settled>),
    Acknowledge,
}

impl Source {
    /// Consumes until drained and finished; an error means that the session is over.
    pub(super) async fn run(
        mut self,
        arrivals: UnboundedSender<Arrival>,
        signals: Signals,
    ) -> Result<(), Failure> {
        let channel = self.link.channel().await?;
        let mut state = State::new(self.kind.name(), channel, self.prefetch.clone());
        let mut arrivals = Some(arrivals);
        let mut consumer = Some(self.subscribe(&mut state).await?);
        self.consuming.set(true);
        let mut stopping = false;
        loop {
            self.unsettled.set(state.settlement.unsettled());
            tokio::select! {
                delivery = next(&mut consumer) => match delivery {
                    Some(Ok(delivery)) => {
                        if let Some(arrivals) = &arrivals {
                            self.take(delivery, &mut state, arrivals)?;
                        }
                    }
                    Some(Err(error)) => return Err(error.into()),
                    // The stream ends when this end cancelled it, or the broker did.
                    None => {
                        consumer = None;
                        if !stopping && !signals.drain.is_cancelled() {
                            self.consuming.set(false);
                            consumer = self.resubscribe(&mut state, &signals.drain).await?;
                            self.consuming.set(consumer.is_some());
                        }
                    }
                },
                wake = state.wake() => state.woken(wake).await?,
                () = signals.drain.cancelled(), if !stopping => {
                    stopping = true;
                    self.consuming.set(false);
                    if let Some(consumer) = &consumer {
                        self.cancel(&state, consumer).await?;
                    }
                    // What was delivered and not yet read goes back to the queue when the channel closes.
                    consumer = None;
                    arrivals = None;
                }
                () = signals.finish.cancelled(), if stopping => break,
            }
            if let (Some(consuming), Some(arrivals)) = (&mut consumer, &arrivals)
                && let Some(change) = state.prefetch.regulate(state.load())
            {
                consumer = self.consume_anew(consuming, change, &mut state, arrivals, &signals.drain).await?;
            }
        }
        state.acknowledge_all().await?;
        self.close(&state).await
    }

    /// Closes the channel once the broker has carried out every acknowledgement.
    ///
    /// A quorum queue takes acknowledgements as commands. A channel that has many of them underway keeps the next back,
    /// and forgets them when it is closed: what they settled would come again. To consume is a command too; its answer
    /// comes when those underway are carried out, and by then the channel has sent the rest.
    async fn close(&self, state: &State) -> Result<(), Failure> {
        state.channel.basic_qos(1, BasicQosOptions::default()).await?;
        let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
        // What it is given goes back to the queue with the channel.
        let barrier = state.channel.basic_consume(queue, "".into(), options, FieldTable::default()).await;
        match barrier.map_err(Failure::from) {
            // The queue is gone, and what was to be acknowledged with it.
            Err(Failure::Channel { .. }) => Ok(()),
            Err(failure) => Err(failure),
            Ok(_barrier) => Ok(state.channel.close(200, "bye".into()).await?),
        }
    }

    async fn subscribe(&self, state: &mut State) -> Result<Consumer, Failure> {
        // A tag of its own each time: a quorum queue confuses a consumer with an earlier one of the same tag that
        // has deliveries left, and older versions of RabbitMQ then close the connection.
        state.subscriptions += 1;
        let tag = format!("{}.{}", self.queue, state.subscriptions);
        state.channel.basic_qos(state.prefetch.current(), BasicQosOptions::default()).await?;
        let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
        Ok(state.channel.basic_consume(queue, tag.into(), options, FieldTable::default()).await?)
    }

    async fn cancel(&self, state: &State, consumer: &Consumer) -> Result<(), Failure> {
        Ok(state.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?)
    }

    /// The broker cancelled the consumer: its queue was deleted, or is not available. Unsettled deliveries stay
    /// valid as long as the channel does. `None` when it is to stop before the queue is back.
    async fn resubscribe(
        &self,
        state: &mut State,
        drain: &CancellationToken,
    ) -> Result<Option<Consumer>, Failure> {
        warn!(
            queue = self.queue,
            "the broker cancelled the consumer: declaring the queue and consuming again"
        );
        loop {
            let declared = self.topology.declare(&self.link.channel().await?).await;
            match declared {
                Ok(()) => {
                    let consumer = self.subscribe(state).await?;
                    info!(queue = self.queue, "consuming again");
                    return Ok(Some(consumer));
                }
                Err(error) => warn!(queue = self.queue, %error, "cannot consume yet"),
            }
            let again = Instant::now() + RESUBSCRIBE;
            while Instant::now() < again {
                if !self.settle(state, Some(again), drain).await? {
                    return Ok(None);
                }
            }
        }
    }

    /// Consumes with another prefetch, once there is room. `None` when it is to stop before that.
    async fn consume_anew(
        &self,
        consumer: &mut Consumer,
        change: Change,
        state: &mut State,
        arrivals: &UnboundedSender<Arrival>,
        drain: &CancellationToken,
    ) -> Result<Option<Consumer>, Failure> {
        debug!(queue = self.queue, prefetch = change.prefetch, "changing the prefetch");
        self.cancel(state, consumer).await?;
        // What was on its way before the broker heard of the cancel.
        while let Some(delivery) = consumer.next().await {
            self.take(delivery?, state, arrivals)?;
        }
        while state.settlement.unsettled_bytes() > change.resume_at {
            if !self.settle(state, None, drain).await? {
                return Ok(None);
            }
        }
        Ok(Some(self.subscribe(state).await?))
    }

    /// Handles what is settled next, while nothing is consumed, or waits until then. Whether to go on.
    async fn settle(
        &self,
        state: &mut State,
        until: Option<Instant>,
        drain: &CancellationToken,
    ) -> Result<bool, Failure> {
        let lost = self.link.lost();
        tokio::select! {
            wake = state.wake() => state.woken(wake).await?,
            () = wait_until(until) => {}
            () = lost.cancelled() => return Err(self.link.loss()),
            () = drain.cancelled() => return Ok(false),
        }
        self.unsettled.set(state.settlement.unsettled());
        Ok(true)
    }

    /// Fails where the broker has delivered something that never came here: from 4.3 on it may give messages to a consumer
    /// that it has cancelled because of `consumer_timeout`. An acknowledgement of this delivery and all before it would
    /// settle those too. They come again once the channel is closed.
    fn take(
        &self,
        delivery: Delivery,
        state: &mut State,
        arrivals: &UnboundedSender<Arrival>,
    ) -> Result<(), Failure> {
        crash_point::pass("received", self.kind.name());
        let tag = delivery.delivery_tag;
        let expected = state.last_tag + 1;
        if tag != expected {
            let queue = &self.queue;
            return Err(Failure::Connection(format!(
                "delivery {expected} of {queue} went to a consumer that the broker had cancelled"
            )));
        }
        state.last_tag = tag;
        let settled = state.settled.clone();
        let arrival = match &self.kind {
            Kind::Ingress { bridge, rules } => Arrival::Published {
                message: intake::read(delivery, bridge, rules, clock::now().wall_ceil),
                receipt: Receipt::whole(tag, settled),
            },
            Kind::Due { codec } => unpack(codec, delivery, settled),
        };
        state.settlement.delivered(tag, arrival.size());
        // Nobody listens any more only where the session is over, and then the broker delivers it again.
        let _ = arrivals.send(arrival);
        Ok(())
    }
}

impl State {
    fn new(kind: &'static str, channel: Channel, prefetch: Prefetch) -> Self {
        let (settled, settlements) = mpsc::unbounded_channel();
        Self {
            kind,
            channel,
            settlement: Settlement::default(),
            prefetch,
            last_tag: 0,
            subscriptions: 0,
            settled,
            settlements,
            ack_at: None,
        }
    }

    fn load(&self) -> Load {
        Load {
            unacknowledged: self.settlement.unacknowledged(),
            unsettled: self.settlement.unsettled(),
            bytes: self.settlement.unsettled_bytes(),
        }
    }

    /// Waits for settled deliveries, or for the moment to acknowledge them. Cancel-safe.
    async fn wake(&mut self) -> Wake {
        let mut settled = Vec::new();
        tokio::select! {
            // This end holds a sender, so the channel never closes.
            _ = self.settlements.recv_many(&mut settled, 1_024) => Wake::Settled(settled),
            () = wait_until(self.ack_at) => Wake::Acknowledge,
        }
    }

    async fn woken(&mut self, wake: Wake) -> Result<(), Failure> {
        match wake {
            Wake::Settled(settled) => {
                let now = Instant::now();
                for settled in settled {
                    self.take_in(settled, now).await?;
                }
                let at = now + GATHER;
                self.ack_at = Some(self.ack_at.map_or(at, |earlier| earlier.min(at)));
                Ok(())
            }
            Wake::Acknowledge => self.acknowledge(OUT_OF_ORDER).await,
        }
    }

    async fn take_in(&mut self, Settled { tag, rejected }: Settled, now: Instant) -> Result<(), Failure> {
        if rejected {
            self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }).await?;
            self.settlement.rejected(tag);
        } else {
            self.settlement.settled(tag, now);
        }
        Ok(())
    }

    async fn acknowledge(&mut self, patience: Duration) -> Result<(), Failure> {
        for ack in self.settlement.take_acks(Instant::now(), patience) {
            crash_point::pass("acknowledging", self.kind);
            self.channel.basic_ack(ack.tag, BasicAckOptions { multiple: ack.multiple }).await?;
            crash_point::pass("acknowledged", self.kind);
        }
        self.ack_at = self.settlement.owes().then(|| Instant::now() + OUT_OF_ORDER);
        Ok(())
    }

    async fn acknowledge_all(&mut self) -> Result<(), Failure> {
        while let Ok(settled) = self.settlements.try_recv() {
            self.take_in(settled, Instant::now()).await?;
        }
        self.acknowledge(Duration::ZERO).await
    }
}

fn unpack(codec: &Codec, delivery: Delivery, settled: UnboundedSender<Settled>) -> Arrival {
    let tag = delivery.delivery_tag;
    let body = Bytes::from(delivery.data);
    match codec.decode(body.clone()) {
        Ok(mut messages) => {
            // What is left was reckoned for the end of the hop. Where that was cut short, only the clock knows it.
            if !envelope::has_served(delivery.routing_key.as_str(), &delivery.properties) {
                messages.iter_mut().for_each(|message| message.left = Duration::MAX);
            }
            let receipts = Receipt::split(tag, messages.len(), settled);
            Arrival::Bundle(messages.into_iter().zip(receipts).collect())
        }
        Err(error) => Arrival::Unreadable {
            properties: delivery.properties,
            body,
            error,
            receipt: Receipt::whole(tag, settled),
        },
    }
}

async fn next(consumer: &mut Option<Consumer>) -> Option<lapin::Result<Delivery>> {
    match consumer {
        Some(consumer) => consumer.next().await,
        None => std::future::pending().await,
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
