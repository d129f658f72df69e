//! The packer: one open bundle per destination, closed by linger, count or bytes.
//!
//! It owns what is being packed until the bundle closes. It knows no clock: the moment is passed in.

use std::time::{Duration, Instant};

use super::bundle;
use super::ladder::Level;
use super::message::Message;
use super::plan;

/// Where a bundle goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// Straight to the due queue: what is left is shorter than the smallest level.
    Due,
    /// Into the level of that index.
    Level(usize),
}

/// How long a bundle may stay open, and how long its destination keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// Longest time from a bundle's first message to its closing.
    pub linger: Duration,
    /// What the destination takes off the wait.
    pub ttl: Duration,
}

impl Stay {
    /// On the way straight to the due queue. The packer lets long waits linger longer.
    pub const DUE: Self = Self { linger: Duration::from_millis(2), ttl: Duration::ZERO };

    /// In that level.
    #[must_use]
    pub const fn in_level(level: &Level) -> Self {
        Self { linger: level.linger, ttl: level.ttl }
    }
}

/// When an open bundle is closed before its linger is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most messages in one bundle.
    pub max_messages: usize,
    /// Most bytes in one bundle; one message that is larger is a bundle of its own.
    pub max_bytes: usize,
}

/// What may be in open bundles together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    /// Most messages.
    pub messages: usize,
    /// Most bytes in memory.
    pub bytes: usize,
}

/// A closed bundle. `tokens` belong to `messages`, in the same order.
#[derive(Debug)]
pub struct Packed<T> {
    /// Where it goes.
    pub destination: Destination,
    /// What it carries, with `left` and `hops` as they are when the hop ends.
    pub messages: Vec<Message>,
    /// What the caller gave with each message.
    pub tokens: Vec<T>,
}

#[derive(Debug)]
struct Entry<T> {
    message: Message,
    remaining: Duration,
    added: Instant,
    token: T,
}

#[derive(Debug)]
struct Open<T> {
    entries: Vec<Entry<T>>,
    // Of the bundle, when it is encoded.
    bytes: usize,
    // Of its messages, in memory.
    memory: usize,
    closes: Instant,
}

/// A bundle straight to the due queue may stay open for this part of the shortest wait in it, and no longer than that.
const DUE_LINGER_PART: u32 = 16;
const DUE_LINGER_MOST: Duration = Duration::from_millis(50);

/// Open bundles, one for each destination.
#[derive(Debug)]
pub struct Packer<T> {
    limits: Limits,
    due: Stay,
    levels: Vec<Stay>,
    open: Vec<Option<Open<T>>>,
}

impl<T> Packer<T> {
    /// A packer for the due queue and as many levels as `levels` has.
    #[must_use]
    pub fn new(limits: Limits, due: Stay, levels: Vec<Stay>) -> Self {
        let open = (0..=levels.len()).map(|_| None).collect();
        Self { limits, due, levels, open }
    }

    /// Adds a message of which `remaining` is left at `now`; bundles that this fills are appended to `closed`.
    pub fn add(
        &mut self,
        destination: Destination,
        message: Message,
        remaining: Duration,
        token: T,
        now: Instant,
        closed: &mut Vec<Packed<T>>,
    ) {
        let size = bundle::encoded_len(&message);
        let max_bytes = self.limits.max_bytes;
        if self.open_at(destination).is_some_and(|open| open.bytes + size > max_bytes) {
            self.close(destination, now, closed);
        }
        let closes = now + self.linger(destination, remaining);
        let max_messages = self.limits.max_messages;
        let Some(slot) = self.open.get_mut(slot_of(destination)) else { return };
        let open = slot.get_or_insert_with(|| Open {
            entries: Vec::new(),
            bytes: bundle::OVERHEAD,
            memory: 0,
            closes,
        });
        open.closes = open.closes.min(closes);
        open.bytes += size;
        open.memory += message.size();
        open.entries.push(Entry { message, remaining, added: now, token });
        if open.entries.len() >= max_messages || open.bytes >= max_bytes {
            self.close(destination, now, closed);
        }
    }

    /// When the next open bundle's linger is over.
    #[must_use]
    pub fn next_close(&self) -> Option<Instant> {
        self.open.iter().flatten().map(|open| open.closes).min()
    }

    /// Closes every bundle whose linger is over.
    pub fn close_due(&mut self, now: Instant, closed: &mut Vec<Packed<T>>) {
        for destination in self.destinations() {
            if self.open_at(destination).is_some_and(|open| open.closes <= now) {
                self.close(destination, now, closed);
            }
        }
    }

    /// Closes every bundle.
    pub fn close_all(&mut self, now: Instant, closed: &mut Vec<Packed<T>>) {
        for destination in self.destinations() {
            self.close(destination, now, closed);
        }
    }

    /// Closes the fullest bundles until no more than `most` is in open ones.
    pub fn relieve(&mut self, most: OpenLimits, now: Instant, closed: &mut Vec<Packed<T>>) {
        while self.len() > most.messages || self.memory() > most.bytes {
            let memory = |destination: &Destination| self.open_at(*destination).map(|open| open.memory);
            let Some(fullest) = self.destinations().max_by_key(memory) else { return };
            self.close(fullest, now, closed);
        }
    }

    /// Messages in open bundles.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.iter().flatten().map(|open| open.entries.len()).sum()
    }

    /// Bytes in memory of messages in open bundles.
    fn memory(&self) -> usize {
        self.open.iter().flatten().map(|open| open.memory).sum()
    }

    /// Whether no bundle is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.iter().all(Option::is_none)
    }

    fn destinations(&self) -> impl Iterator<Item = Destination> + use<T> {
        std::iter::once(Destination::Due).chain((0..self.levels.len()).map(Destination::Level))
    }

    fn stay(&self, destination: Destination) -> Stay {
        match destination {
            Destination::Due => self.due,
            Destination::Level(index) => self.levels.get(index).copied().unwrap_or(self.due),
        }
    }

    /// How long a message with so much left may wait for company.
    fn linger(&self, destination: Destination, remaining: Duration) -> Duration {
        let linger = self.stay(destination).linger;
        match destination {
            Destination::Due => linger.max((remaining / DUE_LINGER_PART).min(DUE_LINGER_MOST)),
            Destination::Level(_) => linger,
        }
    }

    fn open_at(&self, destination: Destination) -> Option<&Open<T>> {
        self.open.get(slot_of(destination)).and_then(Option::as_ref)
    }

    fn close(&mut self, destination: Destination, now: Instant, closed: &mut Vec<Packed<T>>) {
        let Some(open) = self.open.get_mut(slot_of(destination)).and_then(Option::take) else { return };
        let ttl = self.stay(destination).ttl;
        let hop = u32::from(matches!(destination, Destination::Level(_)));
        let (messages, tokens) = open
            .entries
            .into_iter()
            .map(|Entry { mut message, remaining, added, token }| {
                let waited = now.saturating_duration_since(added);
                message.left = plan::left_after_hop(remaining.saturating_sub(waited), ttl);
                message.hops = message.hops.saturating_add(hop);
                (message, token)
            })
            .unzip();
        closed.push(Packed { destination, messages, tokens });
    }
}

const fn slot_of(destination: Destination) -> usize {
    match destination {
        Destination::Due => 0,
        Destination::Level(index) => index + 1,
    }
}

#[cfg(test)]
mod tests;
