//! Counts messages from publish to delivery, and derives from that what a report tells. Pure: who measures brings the
//! moments.
//!
//! Takes 9 bytes for each message.

use std::collections::BTreeMap;

use super::report::{Bucket, Lateness, Second};

/// The limit of the first bucket of a distribution, in milliseconds.
const FIRST_BUCKET_MS: f64 = 0.1;
/// How many buckets there are between one power of ten and the next.
const BUCKETS_A_DECADE: f64 = 10.0;

const CONFIRMED: u8 = 1;
const DELIVERED: u8 = 2;

/// What became of a measurement's messages, which are known by their sequence, from 0 up.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Flags of each message.
    states: Vec<u8>,
    /// Each message's first delivery, in the order of coming.
    arrivals: Vec<Arrival>,
    published: u64,
    confirmed: u64,
    duplicates: u64,
    early: u64,
    foreign: u64,
    span: Option<Span>,
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    second: u32,
    /// Lateness in microseconds; more than 71 minutes count as that.
    late_us: u32,
}

/// The moments between which everything came, in microseconds of the caller's clock.
#[derive(Debug, Clone, Copy)]
struct Span {
    first_us: u64,
    last_us: u64,
    last_due_us: u64,
}

impl Tally {
    /// Expects messages of the sequences from 0 to less than `messages`.
    #[must_use]
    pub fn new(messages: usize) -> Self {
        Self {
            states: vec![0; messages],
            // Growing would copy everything in the midst of measuring.
            arrivals: Vec::with_capacity(messages),
            published: 0,
            confirmed: 0,
            duplicates: 0,
            early: 0,
            foreign: 0,
            span: None,
        }
    }

    /// A message was sent to the broker.
    pub fn published(&mut self) {
        self.published += 1;
    }

    /// The broker has taken responsibility for a message.
    pub fn confirmed(&mut self, sequence: u64) {
        match self.mark(sequence, CONFIRMED) {
            Some(before) if before & CONFIRMED == 0 => self.confirmed += 1,
            Some(_) => {}
            None => self.foreign += 1,
        }
    }

    /// A message has come that was due at `due_us`. Both moments are of the same clock, in microseconds.
    pub fn delivered(&mut self, sequence: u64, due_us: u64, now_us: u64) {
        let Some(before) = self.mark(sequence, DELIVERED) else {
            self.foreign += 1;
            return;
        };
        // A message that comes twice must not come early either time.
        self.early += u64::from(now_us < due_us);
        let span = self.span.get_or_insert(Span { first_us: now_us, last_us: now_us, last_due_us: due_us });
        // A clock that steps back makes nothing come before what came before it.
        span.last_us = span.last_us.max(now_us);
        span.last_due_us = span.last_due_us.max(due_us);
        if before & DELIVERED != 0 {
            self.duplicates += 1;
            return;
        }
        let second = (span.last_us - span.first_us) / 1_000_000;
        self.arrivals
            .push(Arrival { second: clamped(second), late_us: clamped(now_us.saturating_sub(due_us)) });
    }

    /// Sets a flag of a message and returns those that it had, unless there is no such message.
    fn mark(&mut self, sequence: u64, flag: u8) -> Option<u8> {
        let state = self.states.get_mut(usize::try_from(sequence).ok()?)?;
        let before = *state;
        *state |= flag;
        Some(before)
    }

    /// Messages that were sent to the broker.
    #[must_use]
    pub fn count_published(&self) -> u64 {
        self.published
    }

    /// Messages that the broker confirmed, each counted once.
    #[must_use]
    pub fn count_confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Messages that came, each counted once.
    #[must_use]
    pub fn count_delivered(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// Messages that the broker confirmed and that have not come.
    #[must_use]
    pub fn count_lost(&self) -> u64 {
        self.states.iter().filter(|state| **state == CONFIRMED).count() as u64
    }

    /// Deliveries of messages that had come before.
    #[must_use]
    pub fn count_duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Deliveries before the message was due.
    #[must_use]
    pub fn count_early(&self) -> u64 {
        self.early
    }

    /// Confirms and deliveries of sequences that were not expected: somebody else's messages. They count nowhere else.
    #[must_use]
    pub fn count_foreign(&self) -> u64 {
        self.foreign
    }

    /// Messages delivered a second, from the first to the last delivery; 0 where that is no time.
    #[must_use]
    pub fn delivery_rate(&self) -> f64 {
        match self.span {
            Some(Span { first_us, last_us, .. }) if last_us > first_us => {
                // The first begins the time and is not part of what came in it.
                (self.arrivals.len() - 1) as f64 / ((last_us - first_us) as f64 / 1e6)
            }
            _ => 0.0,
        }
    }

    /// From the moment when the last message that came was due to the last delivery, in milliseconds.
    #[must_use]
    pub fn drained_ms(&self) -> Option<f64> {
        self.span.map(|span| millis(span.last_us.saturating_sub(span.last_due_us)))
    }

    /// Lateness over all messages that came, if any did.
    #[must_use]
    pub fn lateness(&self) -> Option<Lateness> {
        let mut late: Vec<_> = self.arrivals.iter().map(|arrival| arrival.late_us).collect();
        late.sort_unstable();
        let max = millis((*late.last()?).into());
        let sum: u64 = late.iter().copied().map(u64::from).sum();
        let [p50, p90, p99, p99_9] = [0.5, 0.9, 0.99, 0.999].map(|share| percentile_ms(&late, share));
        Some(Lateness { mean: millis(sum) / late.len() as f64, p50, p90, p99, p99_9, max })
    }

    /// Lateness by the second of delivery. A second in which nothing came is left out.
    #[must_use]
    pub fn timeline(&self) -> Vec<Second> {
        let of_second = |arrivals: &[Arrival]| {
            let second = arrivals.first()?.second;
            let mut late: Vec<_> = arrivals.iter().map(|arrival| arrival.late_us).collect();
            late.sort_unstable();
            let [p50_ms, p99_ms, max_ms] = [0.5, 0.99, 1.0].map(|share| percentile_ms(&late, share));
            Some(Second { second, delivered: late.len() as u64, p50_ms, p99_ms, max_ms })
        };
        self.arrivals.chunk_by(|one, next| one.second == next.second).filter_map(of_second).collect()
    }

    /// How many messages were how late, in buckets whose limits are the same in every measurement.
    #[must_use]
    pub fn distribution(&self) -> Vec<Bucket> {
        let mut counts = BTreeMap::<u32, u64>::new();
        for arrival in &self.arrivals {
            *counts.entry(bucket(millis(arrival.late_us.into()))).or_default() += 1;
        }
        let Some(last) = counts.keys().next_back() else { return Vec::new() };
        let count = |index: &u32| counts.get(index).copied().unwrap_or_default();
        (0..=*last).map(|index| Bucket { up_to_ms: limit_ms(index), count: count(&index) }).collect()
    }
}

/// The first bucket whose limit is not below this.
fn bucket(late_ms: f64) -> u32 {
    let estimate = (late_ms / FIRST_BUCKET_MS).log10() * BUCKETS_A_DECADE;
    // The logarithm of a limit may come out slightly above or below a whole number. A negative one becomes 0.
    let near = estimate.round() as u32;
    (near.saturating_sub(1)..).find(|index| late_ms <= limit_ms(*index)).unwrap_or(near)
}

fn limit_ms(index: u32) -> f64 {
    FIRST_BUCKET_MS * 10_f64.powf(f64::from(index) / BUCKETS_A_DECADE)
}

/// The nearest rank: the smallest value than which at least this share is no greater. Takes them in ascending order.
fn percentile_ms(ascending_us: &[u32], share: f64) -> f64 {
    let rank = (ascending_us.len() as f64 * share).ceil() as usize;
    millis(ascending_us.get(rank.saturating_sub(1)).copied().unwrap_or_default().into())
}

fn millis(us: u64) -> f64 {
    us as f64 / 1_000.0
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
