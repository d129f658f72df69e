//! One Leveret and its broker in virtual time: the real planner, packer and hold, driven as `engine/flow` drives them.
//! The broker only keeps what it is given, and nothing waits for it.

use std::cell::Cell;
use std::mem;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use leveret::amqp::properties;
use leveret::domain::bundle;
use leveret::domain::codec::Codec;
use leveret::domain::hold::Hold;
use leveret::domain::message::Message;
use leveret::domain::packer::{self, Destination, Packed, Packer};
use leveret::domain::plan::{self, Plan};
use leveret::domain::time::UnixMillis;
use leveret::engine::envelope;

use super::counts::{Counts, Sent};
use super::settings::Settings;
use super::shortening::Stay;

/// The wall time at which a simulation begins.
pub(crate) const EPOCH: UnixMillis = UnixMillis(1_767_225_600_000);

/// What a bundle's pass through the broker takes besides its TTL: to publish, to dead-letter and to read it.
pub(crate) const TRANSIT: Duration = Duration::from_millis(20);

/// A message that an application publishes; its times are yet to be set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Publication {
    /// Since the start.
    pub(crate) at: Duration,
    pub(crate) delay: Duration,
    pub(crate) message: Message,
}

/// Publishes these, in the order of their moments, and counts what happens within the window, which ends the simulation.
/// Messages stay in each level as long as `stays` says.
pub(crate) fn run(
    settings: &Settings,
    stays: &[Stay],
    publications: impl IntoIterator<Item = Publication>,
    window: Range<Duration>,
) -> Counts {
    let mut world = World::new(settings, stays);
    let start = world.start;
    let mut publications = publications.into_iter().peekable();
    loop {
        let published = publications.peek().map(|publication| start + publication.at);
        let next = [published, world.next_event()].into_iter().flatten().min();
        let Some(now) = next.filter(|next| *next < start + window.end) else { return world.counts };
        world.now = now;
        world.counting = now >= start + window.start;
        while let Some(publication) = publications.next_if(|publication| start + publication.at <= now) {
            world.publish(publication);
        }
        world.receive();
        world.tick();
    }
}

/// What belongs to a message on its way.
#[derive(Debug)]
struct Token {
    /// When the application wants it: not before, and hardly after.
    wanted: Instant,
    /// The delivery of the due queue that brought it; none from ingress.
    carrier: Option<Rc<Carrier>>,
}

/// A delivery of the due queue: it is settled when the last of its messages is sent on.
#[derive(Debug)]
struct Carrier(Rc<Cell<usize>>);

impl Carrier {
    fn new(unsettled: &Rc<Cell<usize>>) -> Rc<Self> {
        unsettled.set(unsettled.get() + 1);
        Rc::new(Self(unsettled.clone()))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct World<'a> {
    settings: &'a Settings,
    stays: &'a [Stay],
    start: Instant,
    now: Instant,
    packer: Packer<Token>,
    hold: Hold<(Message, Token)>,
    /// Bundles until they come out of the due queue: messages, and when each is wanted.
    broker: Hold<Vec<(Message, Instant)>>,
    unsettled: Rc<Cell<usize>>,
    closed: Vec<Packed<Token>>,
    codec: Codec,
    /// Bytes of an envelope's properties: always the same.
    envelope: usize,
    counting: bool,
    counts: Counts,
}

impl<'a> World<'a> {
    fn new(settings: &'a Settings, stays: &'a [Stay]) -> Self {
        // Only the origin of virtual time: no clock is read again.
        let start = Instant::now();
        let levels = settings.ladder.levels().iter().map(packer::Stay::in_level).collect();
        Self {
            settings,
            stays,
            start,
            now: start,
            packer: Packer::new(settings.limits, packer::Stay::DUE, levels),
            hold: Hold::default(),
            broker: Hold::default(),
            unsettled: Rc::default(),
            closed: Vec::new(),
            codec: Codec::new(settings.compress, Vec::new()),
            envelope: properties::encode(&envelope::properties(&[], EPOCH)).len(),
            counting: false,
            counts: Counts::default(),
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let all = [self.broker.next_due(), self.hold.next_due(), self.packer.next_close()];
        all.into_iter().flatten().min()
    }

    fn publish(&mut self, Publication { at, delay, mut message }: Publication) {
        message.accepted_at = EPOCH.saturating_add(self.now - self.start);
        message.due = message.accepted_at.saturating_add(delay);
        let left = message.due.saturating_since(self.wall_clock());
        self.place(message, Token { wanted: self.start + at + delay, carrier: None }, left);
    }

    /// Reads what has come out of the due queue.
    fn receive(&mut self) {
        while let Some(bundle) = self.broker.pop_due(self.now) {
            let carrier = Carrier::new(&self.unsettled);
            for (message, wanted) in bundle {
                let left = plan::remaining(message.due, self.wall_clock(), Some(message.left));
                self.place(message, Token { wanted, carrier: Some(carrier.clone()) }, left);
            }
        }
        self.packer.relieve(self.settings.open, self.now, &mut self.closed);
        if self.counting {
            let Counts { most_in_memory, most_unsettled, .. } = &mut self.counts;
            *most_in_memory = (*most_in_memory).max(self.hold.len() + self.packer.len());
            *most_unsettled = (*most_unsettled).max(self.unsettled.get());
        }
    }

    /// As `Flow::place` does.
    fn place(&mut self, message: Message, token: Token, left: Duration) {
        let from_ingress = token.carrier.is_none();
        match plan::plan(&self.settings.ladder, left) {
            Plan::Level(level) => self.pack(Destination::Level(level), message, token, left),
            Plan::Hold if from_ingress => self.pack(Destination::Due, message, token, left),
            Plan::Deliver if from_ingress => self.deliver(&message, &token),
            Plan::Deliver | Plan::Hold => self.hold.push(self.instant(message.due), (message, token)),
        }
    }

    fn pack(&mut self, destination: Destination, message: Message, token: Token, left: Duration) {
        self.packer.add(destination, message, left, token, self.now, &mut self.closed);
    }

    /// Does all whose moment has come.
    fn tick(&mut self) {
        while let Some((message, token)) = self.hold.pop_due(self.now) {
            self.deliver(&message, &token);
        }
        self.packer.close_due(self.now, &mut self.closed);
        for packed in mem::take(&mut self.closed) {
            self.send(packed);
        }
    }

    fn send(&mut self, packed: Packed<Token>) {
        let stay = match packed.destination {
            Destination::Due => Stay::default(),
            Destination::Level(level) => self.stays.get(level).copied().unwrap_or_default(),
        };
        if self.counting {
            let bytes = (self.encoded_len(&packed.messages) + self.envelope) as u64;
            let sent = match packed.destination {
                Destination::Due => &mut self.counts.straight,
                Destination::Level(_) => &mut self.counts.levels,
            };
            let Sent { bundles, messages, bytes: all_bytes } = sent;
            *bundles += 1;
            *messages += packed.messages.len() as u64;
            *all_bytes += bytes;
        }
        let skipped = millis(stay.skipped);
        let on_its_way = |(mut message, token): (Message, Token)| {
            message.due.0 = message.due.0.saturating_sub(skipped);
            (message, token.wanted - stay.skipped)
        };
        let bundle = packed.messages.into_iter().zip(packed.tokens).map(on_its_way).collect();
        self.broker.push(self.now + stay.lasts + TRANSIT, bundle);
    }

    fn encoded_len(&self, messages: &[Message]) -> usize {
        // Encoding fails only where it encrypts.
        if self.settings.compress {
            self.codec.encode(messages).map_or(0, |bundle| bundle.len())
        } else {
            bundle::OVERHEAD + messages.iter().map(bundle::encoded_len).sum::<usize>()
        }
    }

    fn deliver(&mut self, message: &Message, token: &Token) {
        if !self.counting {
            return;
        }
        self.counts.delivered += 1;
        self.counts.hops += u64::from(message.hops);
        self.counts.body_bytes += message.body.len() as u64;
        self.counts.property_bytes += message.properties.len() as u64;
        self.counts.early += u64::from(self.now < token.wanted);
        self.counts.latest = self.counts.latest.max(self.now.saturating_duration_since(token.wanted));
    }

    /// The wall clock, rounded down.
    fn wall_clock(&self) -> UnixMillis {
        UnixMillis(EPOCH.0 + millis(self.now - self.start))
    }

    /// When a moment of the wall clock comes.
    fn instant(&self, moment: UnixMillis) -> Instant {
        self.start + moment.saturating_since(EPOCH)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
