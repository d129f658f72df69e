//! Books for millions of messages: of each, only what the report needs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lapin::Confirmation;
use lapin::message::Delivery;
use lapin::types::AMQPValue;

use super::traffic::BRIDGES;
use crate::harness::client::{now_ms, table};
use crate::harness::ledger::{Books, Draft};
use crate::harness::messages::text_header;

/// The books of a run. A message's number is its message id.
#[derive(Default)]
pub(crate) struct Record {
    pages: Mutex<Pages>,
}

/// All that is written in them. Times are Unix milliseconds.
#[derive(Default)]
pub(crate) struct Pages {
    pub(crate) entries: Vec<Entry>,
    pub(crate) doubles: Vec<Double>,
    /// How many of the fragile bridge were parked, by reason.
    pub(crate) parked: BTreeMap<String, usize>,
    /// Publishes that the broker refused; the publisher knows, so nothing is owed.
    pub(crate) refused: usize,
    /// Arrivals that the consumer had seen before it lost its connection: no doubles.
    pub(crate) redelivered: usize,
    /// What came otherwise than it was published, or was parked without need.
    pub(crate) complaints: Vec<String>,
    /// Messages that are confirmed and have not come.
    pub(crate) owed: usize,
    pub(crate) arrived: usize,
}

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its place among the bridges.
    pub(crate) bridge: usize,
    /// Just before it was published.
    pub(crate) published_ms: i64,
    pub(crate) due_ms: i64,
    pub(crate) size: usize,
    pub(crate) checksum: u32,
    pub(crate) confirmed: bool,
    pub(crate) came: Option<Arrival>,
}

/// When a message came first, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at_ms: i64,
    pub(crate) parked: bool,
}

/// That a message came again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Double {
    pub(crate) number: usize,
    pub(crate) at_ms: i64,
}

impl Record {
    /// Empty books, kept until the end of the process.
    pub(crate) fn open() -> &'static Self {
        Box::leak(Box::default())
    }

    /// What is written so far.
    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }

    /// Waits until all that is owed has come, or nothing more has for `limit`; then a while for what should not come.
    pub(crate) async fn settle(&self, limit: Duration) {
        const QUIET: Duration = Duration::from_secs(3);
        let look = || {
            let pages = self.pages();
            (pages.owed, pages.arrived)
        };
        let (mut seen, mut since) = (look(), Instant::now());
        while seen.0 > 0 && since.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = look();
            if now.1 != seen.1 {
                since = Instant::now();
            }
            seen = now;
        }
        tokio::time::sleep(QUIET).await;
    }
}

impl Entry {
    /// A message that nothing has become of yet.
    pub(crate) fn new(bridge: usize, published_ms: i64, due_ms: i64, body: &[u8]) -> Self {
        let checksum = crc32c::crc32c(body);
        Self { bridge, published_ms, due_ms, size: body.len(), checksum, confirmed: false, came: None }
    }
}

impl Books for Record {
    fn publishing(&self, mut draft: Draft) -> (usize, Draft) {
        let mut pages = self.pages();
        let number = pages.entries.len();
        let published_ms = now_ms();
        let bridge = BRIDGES.iter().position(|bridge| bridge.takes(&draft)).unwrap();
        pages.entries.push(Entry::new(bridge, published_ms, published_ms + draft.delay_ms, &draft.body));
        let headers = table([("x-delay", AMQPValue::LongLongInt(draft.delay_ms))]);
        draft.properties = draft.properties.with_message_id(number.to_string().into()).with_headers(headers);
        (number, draft)
    }

    fn confirmed(&self, number: usize) {
        let mut guard = self.pages();
        let pages = &mut *guard;
        let entry = &mut pages.entries[number];
        entry.confirmed = true;
        if entry.came.is_none() {
            pages.owed += 1;
        }
    }

    fn refused(&self, _number: usize, how: &Confirmation) {
        let mut pages = self.pages();
        if matches!(how, Confirmation::Nack(_)) {
            pages.refused += 1;
        } else {
            pages.complaints.push(format!("a message was returned: {how:?}"));
        }
    }

    fn arrived(&self, delivery: &Delivery, at_ms: i64) {
        let mut guard = self.pages();
        let pages = &mut *guard;
        let number = delivery.properties.message_id().as_ref().and_then(|id| id.as_str().parse().ok());
        let Some((number, entry)) =
            number.and_then(|number: usize| Some((number, pages.entries.get_mut(number)?)))
        else {
            return pages
                .complaints
                .push(format!("came without having been published: {:?}", delivery.properties));
        };
        if entry.came.is_some() {
            if delivery.redelivered {
                pages.redelivered += 1;
            } else {
                pages.doubles.push(Double { number, at_ms });
            }
            return;
        }
        let reason = text_header(delivery, "x-leveret-reason");
        entry.came = Some(Arrival { at_ms, parked: reason.is_some() });
        pages.arrived += 1;
        if entry.confirmed {
            pages.owed -= 1;
        }
        if crc32c::crc32c(&delivery.data) != entry.checksum {
            let (size, came) = (entry.size, delivery.data.len());
            pages.complaints.push(format!("message {number}: {size} bytes came as {came} others"));
        }
        let bridge = &BRIDGES[entry.bridge];
        match reason {
            Some(reason) if bridge.is_fragile => {
                *pages.parked.entry(reason.to_owned()).or_default() += 1;
            }
            Some(reason) => {
                let detail = text_header(delivery, "x-leveret-detail").unwrap_or_default();
                pages
                    .complaints
                    .push(format!("message {number} of {} parked: {reason}: {detail}", bridge.name));
            }
            None => {}
        }
    }
}
