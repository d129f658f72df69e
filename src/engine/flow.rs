//! The flow of messages through one session: every arrival is planned, then packed, held or delivered. One task owns
//! all of it, and nothing in it waits for the broker. What becomes of a publish is the business of [`super::fate`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::alarm::Alarm;
use super::clock::{self, Now, Reckoning, Step, StepDetector};
use super::dispatch::{Dispatcher, Job, Lane};
use super::dress::Surroundings;
use super::envelope;
use super::parking::{self, Cause};
use super::receipt::Receipt;
use super::session::SessionError;
use super::source::Arrival;
use super::turns::Turns;
use super::users::Users;
use crate::amqp::publisher::Outgoing;
use crate::config::{BridgeConfig, DeliveryConfig};
use crate::domain::codec::Codec;
use crate::domain::hold::Hold;
use crate::domain::ladder::Ladder;
use crate::domain::message::Message;
use crate::domain::packer::{Destination, OpenLimits, Packed, Packer};
use crate::domain::park::Reason;
use crate::domain::plan::{self, Plan};
use crate::domain::time::UnixMillis;
use crate::telemetry::metrics::{HeldMetrics, LevelMetrics, Metrics};

/// A wait that ends this little before its due time by the wall clock is the clocks' slew: wait for it. A longer one
/// means that the clock was set back, and what was left has decided.
const SLEW: Duration = Duration::from_millis(20);

/// On stopping, what is due within this is still delivered; the rest goes back to the due queue.
const STOPPING_HOLD: Duration = Duration::from_millis(500);

/// A message on its way, with the right to settle it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) message: Message,
    pub(super) receipt: Receipt,
    /// Whether it was read from ingress: then it is not held, so that ingress settles at once and in order.
    pub(super) from_ingress: bool,
    /// Deliveries tried since it was last read from a queue.
    pub(super) attempts: u32,
}

/// What belongs to a publish.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "deliveries are the common case: a box would cost each an allocation"
)]
pub(super) enum Token {
    /// A bundle and the receipts of its messages.
    Bundle(Packed<Receipt>),
    /// A delivery; and the `user_id` that it was published with.
    Delivery { part: Part, user: Option<String> },
    /// A message for the parked queue; its bridge, and why.
    Parked { receipt: Receipt, bridge: String, cause: Cause },
}

/// What waits for its moment.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "messages are the common case: a box would cost each an allocation"
)]
pub(super) enum Held {
    /// A message for its due time, or for another try.
    Message(Part),
    /// A publish that the broker refused for now, for another try.
    Again(Box<(Lane, Job<Token>)>),
}

/// What the flow knows of its configuration and surroundings.
pub(super) struct Setting {
    pub(super) ladder: Ladder,
    pub(super) bridges: HashMap<String, BridgeConfig>,
    pub(super) delivery: DeliveryConfig,
    pub(super) around: Surroundings,
    pub(super) codec: Arc<Codec>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) held: HeldMetrics,
    pub(super) steps: Arc<StepDetector>,
    /// Most in open bundles: more would use up what a source may have unsettled, and stop it until they are closed.
    pub(super) max_open: OpenLimits,
}

/// The flow.
pub(super) struct Flow {
    pub(super) setting: Setting,
    pub(super) users: Users,
    pub(super) packer: Packer<Receipt>,
    pub(super) hold: Hold<Held>,
    pub(super) dispatcher: Dispatcher<Token>,
    pub(super) levels: Vec<LevelMetrics>,
    pub(super) straight: LevelMetrics,
    /// Levels that do not confirm, and until when they are not used.
    pub(super) silent: HashMap<usize, Instant>,
    pub(super) turns: Turns,
    held_bytes: usize,
    reckoning: Reckoning,
    closed: Vec<Packed<Receipt>>,
}

impl Flow {
    pub(super) fn new(
        setting: Setting,
        users: Users,
        packer: Packer<Receipt>,
        dispatcher: Dispatcher<Token>,
    ) -> Self {
        let levels =
            setting.ladder.levels().iter().map(|level| LevelMetrics::register(&level.label)).collect();
        Self {
            setting,
            users,
            packer,
            hold: Hold::default(),
            dispatcher,
            levels,
            straight: LevelMetrics::due(),
            silent: HashMap::new(),
            turns: Turns::default(),
            held_bytes: 0,
            reckoning: Reckoning::new(clock::now()),
            closed: Vec::new(),
        }
    }

    /// Runs until the sources have ended and everything that they brought is settled.
    pub(super) async fn run(
        mut self,
        mut arrivals: UnboundedReceiver<Arrival>,
        lost: CancellationToken,
    ) -> Result<(), SessionError> {
        let mut batch = Vec::new();
        let mut draining = false;
        let mut alarm = Alarm::new();
        loop {
            // Diverting queues jobs in turn.
            loop {
                let diverted = self.dispatcher.start();
                if diverted.is_empty() {
                    break;
                }
                let now = self.now();
                for job in diverted {
                    let Token::Delivery { part, .. } = &job.token else { continue };
                    let bridge = part.message.bridge.clone();
                    self.give_back(job, now);
                    self.delivery_over(&bridge, now);
                }
            }
            if draining && self.is_empty() {
                return Ok(());
            }
            let wake = self.next_wake();
            tokio::select! {
                count = arrivals.recv_many(&mut batch, 256), if !draining => {
                    if count == 0 {
                        draining = true;
                        self.begin_drain();
                    }
                    let now = self.now();
                    for arrival in batch.drain(..) {
                        self.arrive(arrival, now);
                    }
                    self.packer.relieve(self.setting.max_open, now.mono, &mut self.closed);
                }
                finished = self.dispatcher.next() => self.finished(finished?)?,
                () = alarm.wait(wake) => {}
                () = lost.cancelled() => return Err(SessionError::Lost("connection lost".to_owned())),
            }
            self.tick();
        }
    }

    fn is_empty(&self) -> bool {
        self.hold.is_empty() && self.packer.is_empty() && self.turns.is_empty() && self.dispatcher.is_idle()
    }

    fn next_wake(&self) -> Option<Instant> {
        [self.hold.next_due(), self.packer.next_close()].into_iter().flatten().min()
    }

    pub(super) fn now(&mut self) -> Now {
        let now = clock::now();
        if let Some(step) = self.setting.steps.observe(now) {
            let millis = |by: Duration| i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            self.setting.metrics.clock_stepped(match step {
                Step::Forward(by) => millis(by),
                Step::Back(by) => -millis(by),
            });
        }
        now
    }

    /// Does all whose moment has come.
    fn tick(&mut self) {
        let now = self.now();
        while let Some(held) = self.hold.pop_due(now.mono) {
            match held {
                Held::Message(part) => {
                    self.held_bytes -= part.message.size();
                    let early = now.until(part.message.due);
                    if early.is_zero() || early > SLEW {
                        self.deliver(part, now);
                    } else {
                        self.hold(part, early, now);
                    }
                }
                Held::Again(again) => self.dispatcher.push(again.0, again.1),
            }
        }
        self.packer.close_due(now.mono, &mut self.closed);
        self.publish_closed(now);
        self.setting.held.set(self.hold.len(), self.held_bytes);
        self.setting.held.set_due(self.turns.len());
    }

    fn arrive(&mut self, arrival: Arrival, now: Now) {
        match arrival {
            Arrival::Published { message, receipt } => match message {
                Ok(message) => {
                    let delay = message.due.saturating_since(message.accepted_at);
                    self.setting.metrics.bridge(message.bridge.as_str()).accepted(delay);
                    // No more than its delay, also where the clock was set back since the message was read. And without
                    // a delay it is due when it was read, and that is rounded up: perhaps to a moment that is still to
                    // come, for which it must not take the way through a bundle.
                    let left = plan::remaining(message.due, now.wall, Some(delay));
                    self.place(Part { message, receipt, from_ingress: true, attempts: 0 }, left, now);
                }
                Err(refused) => {
                    self.setting.metrics.bridge(refused.message.bridge.as_str()).accepted(Duration::ZERO);
                    let cause = Cause { reason: refused.reason, detail: refused.detail, target: None };
                    self.park(&refused.message, receipt, cause, now);
                }
            },
            Arrival::Bundle(messages) => {
                for (message, receipt) in messages {
                    let left = self.left(&message, now);
                    self.place(Part { message, receipt, from_ingress: false, attempts: 0 }, left, now);
                }
            }
            Arrival::Unreadable { properties, body, error, receipt } => {
                let around = &self.setting.around;
                let detail = error.to_string();
                let outgoing = parking::park_unreadable(
                    &properties,
                    body,
                    &detail,
                    &around.names.parked(),
                    now.wall,
                    around.frame_max,
                );
                self.setting.metrics.unreadable_bundle(&detail);
                let cause = Cause { reason: Reason::UnreadableBundle, detail, target: None };
                let token = Token::Parked { receipt, bridge: String::new(), cause };
                self.dispatcher.push(Lane::Parked, Job::new(outgoing, token));
            }
        }
    }

    /// What is left of a wait after a hop. Where only the clocks' slew is between the clock and what was served, the
    /// clock counts.
    fn left(&self, message: &Message, now: Now) -> Duration {
        let by_clock = message.due.saturating_since(now.wall);
        if by_clock <= SLEW { by_clock } else { plan::remaining(message.due, now.wall, Some(message.left)) }
    }

    /// Sends a message of which `left` remains on its way.
    pub(super) fn place(&mut self, part: Part, left: Duration, now: Now) {
        match plan::plan(&self.setting.ladder, left) {
            Plan::Deliver if part.from_ingress => self.deliver(part, now),
            // What is overdue is held as well, for no time: so it takes its turn among what else is due.
            Plan::Deliver => self.hold_until_due(part, left, now),
            // Nothing is held in ingress deliveries: a bundle straight to the due queue brings it back to be held.
            Plan::Hold if part.from_ingress => self.pack(Destination::Due, part, left, now),
            Plan::Hold => self.hold_until_due(part, left, now),
            Plan::Level(level) => {
                let level = self.answering(level, now);
                self.pack(Destination::Level(level), part, left, now);
            }
        }
    }

    /// The level, or the next shorter one that answers.
    fn answering(&mut self, level: usize, now: Now) -> usize {
        if self.silent.is_empty() {
            return level;
        }
        self.silent.retain(|_, until| *until > now.mono);
        (0..=level).rev().find(|level| !self.silent.contains_key(level)).unwrap_or(level)
    }

    fn hold_until_due(&mut self, part: Part, left: Duration, now: Now) {
        let due = part.message.due;
        // What is left says otherwise than the clock where that was set back.
        if left < due.saturating_since(now.wall) {
            return self.hold(part, left, now);
        }
        let until = self.reckoning.instant(due, now);
        self.hold_until(until, part);
    }

    pub(super) fn hold(&mut self, part: Part, left: Duration, now: Now) {
        self.hold_until(now.mono + left, part);
    }

    fn hold_until(&mut self, until: Instant, part: Part) {
        self.held_bytes += part.message.size();
        self.hold.push(until, Held::Message(part));
    }

    pub(super) fn pack(&mut self, destination: Destination, part: Part, left: Duration, now: Now) {
        let Part { message, receipt, .. } = part;
        self.packer.add(destination, message, left, receipt, now.mono, &mut self.closed);
        self.publish_closed(now);
    }

    fn publish_closed(&mut self, now: Now) {
        for packed in std::mem::take(&mut self.closed) {
            self.send(packed, Job::new, now);
        }
    }

    /// Publishes a closed bundle.
    pub(super) fn send(
        &mut self,
        packed: Packed<Receipt>,
        job: impl FnOnce(Outgoing, Token) -> Job<Token>,
        now: Now,
    ) {
        let Setting { ladder, around, codec, .. } = &self.setting;
        match envelope::seal(&packed, ladder, &around.names, codec, now.wall) {
            Ok(outgoing) => {
                let lane = Lane::Bundles(packed.destination);
                self.dispatcher.push(lane, job(outgoing, Token::Bundle(packed)));
            }
            // Its receipts are dropped: the broker keeps what it carries.
            Err(error) => error!(%error, "messages stay unacknowledged in the queue that they came from"),
        }
    }

    pub(super) fn park_part(&mut self, part: Part, cause: Cause, now: Now) {
        self.park(&part.message, part.receipt, cause, now);
    }

    pub(super) fn park(&mut self, message: &Message, receipt: Receipt, cause: Cause, now: Now) {
        let around = &self.setting.around;
        let outgoing = parking::park(message, &cause, &around.names.parked(), now.wall, around.frame_max);
        let token = Token::Parked { receipt, bridge: message.bridge.to_string(), cause };
        self.dispatcher.push(Lane::Parked, Job::new(outgoing, token));
    }

    /// Nothing more will come: what is open is sent, what is held for longer goes back to the due queue.
    fn begin_drain(&mut self) {
        let now = self.now();
        let held: Vec<_> = self.hold.drain().collect();
        self.held_bytes = 0;
        for (until, held) in held {
            match held {
                Held::Message(part) => {
                    let by_clock = part.message.due.saturating_since(now.wall);
                    let left = by_clock.min(until.saturating_duration_since(now.mono));
                    if part.attempts == 0 && left <= STOPPING_HOLD {
                        self.hold(part, left, now);
                    } else {
                        self.pack(Destination::Due, part, left, now);
                    }
                }
                Held::Again(again) => self.dispatcher.push(again.0, again.1),
            }
        }
        self.packer.close_all(now.mono, &mut self.closed);
        self.publish_closed(now);
    }
}

/// The level for another try of a message that its target has refused since then: the longer that is ago, the
/// rarer the tries.
pub(super) fn retry_level(ladder: &Ladder, since: UnixMillis, now: UnixMillis) -> Destination {
    const RAREST: Duration = Duration::from_secs(60);
    const SOONEST: Duration = Duration::from_secs(1);
    let pause = (now.saturating_since(since) / 4).clamp(SOONEST, RAREST);
    let fitting = ladder.levels().partition_point(|level| level.ttl <= pause);
    Destination::Level(fitting.saturating_sub(1))
}
