//! Books of a load: what was published, when and for when, and what came of it. At the end it tells what was lost,
//! doubled, early or altered, and how late the rest was.
//!
//! A message is owed from the moment the broker confirmed it; one whose confirm was lost with a connection may come.

mod collecting;
mod load;
mod report;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation};
use tokio_util::sync::DropGuard;

use super::client::{Client, now_ms, table};
pub(crate) use collecting::collect;
pub(crate) use load::Load;
pub(crate) use report::Report;

const RECONNECT: Duration = Duration::from_millis(100);
const PREFETCH: u16 = 1000;

/// Whoever writes down a load. It is told everything that happens, by several tasks at once.
pub(crate) trait Books: Sync + 'static {
    /// A message is about to be published: the answer is its number, and how it is to be published.
    fn publishing(&self, draft: Draft) -> (usize, Draft);
    /// The broker has taken it.
    fn confirmed(&self, number: usize);
    /// The broker has refused or returned it.
    fn refused(&self, number: usize, how: &Confirmation);
    /// A message has come, in that Unix millisecond.
    fn arrived(&self, delivery: &Delivery, at_ms: i64);
}

/// A message to publish.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) delay_ms: i64,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
}

impl Draft {
    /// A small persistent message to the default bridge, for a queue.
    pub(crate) fn to_queue(queue: &str, delay_ms: i64) -> Self {
        Self {
            exchange: "delay".to_owned(),
            routing_key: queue.to_owned(),
            delay_ms,
            properties: BasicProperties::default().with_delivery_mode(2),
            body: b"leveret".to_vec(),
        }
    }
}

/// Endless drafts for a queue, with random delays.
pub(crate) fn random_delays(
    queue: &str,
    delays_ms: std::ops::Range<i64>,
) -> impl Iterator<Item = Draft> + Send + 'static {
    let queue = queue.to_owned();
    std::iter::repeat_with(move || Draft::to_queue(&queue, fastrand::i64(delays_ms.clone())))
}

/// The books. A message's number is put in front of its body.
#[derive(Default)]
pub(crate) struct Ledger {
    entries: Mutex<Vec<Entry>>,
    /// Arrivals that were never published, and whatever else is wrong with one.
    complaints: Mutex<Vec<String>>,
    places: AtomicUsize,
    /// Arrivals that are the target queue's doing.
    redelivered: AtomicUsize,
}

struct Entry {
    draft: Draft,
    published_ms: i64,
    confirmed: bool,
    /// When it came, each time, in Unix milliseconds.
    arrivals: Vec<i64>,
    /// Its place among all first arrivals.
    place: usize,
}

impl Ledger {
    /// Empty books, kept until the end of the process: tests are few, and tasks of any life write into it.
    pub(crate) fn open() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Consumes a queue, through any number of lost connections, until the answer is dropped.
    pub(crate) fn collect(&'static self, uri: &str, queue: &str) -> DropGuard {
        collect(self, uri, queue, PREFETCH, Duration::ZERO)
    }

    /// The same, one message at a time, each of which takes so long.
    pub(crate) fn collect_slowly(&'static self, uri: &str, queue: &str, each: Duration) -> DropGuard {
        collect(self, uri, queue, 1, each)
    }

    /// How many have arrived.
    pub(crate) fn arrived_count(&self) -> usize {
        self.entries.lock().unwrap().iter().filter(|entry| !entry.arrivals.is_empty()).count()
    }

    /// How many were published, confirmed or not.
    pub(crate) fn published_count(&self) -> usize {
        self.entries.lock().unwrap().len()
    }

    /// Waits until all that is owed has come, or nothing more has for `limit`; then a while for what should not come.
    pub(crate) async fn close(&self, limit: Duration) -> Report {
        const QUIET: Duration = Duration::from_millis(1_500);
        let (mut count, mut since) = (self.arrived_count(), Instant::now());
        while self.owed() > 0 && since.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = self.arrived_count();
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
        tokio::time::sleep(QUIET).await;
        let redelivered = self.redelivered.load(Ordering::Relaxed);
        Report::of(&self.entries.lock().unwrap(), &self.complaints.lock().unwrap(), redelivered)
    }

    /// The numbers of the messages in the order in which each came first.
    pub(crate) fn order(&self) -> Vec<usize> {
        let entries = self.entries.lock().unwrap();
        let mut order: Vec<_> = (0..entries.len()).filter(|n| !entries[*n].arrivals.is_empty()).collect();
        order.sort_by_key(|n| entries[*n].place);
        order
    }

    fn owed(&self) -> usize {
        self.entries
            .lock()
            .unwrap()
            .iter()
            .filter(|entry| entry.confirmed && entry.arrivals.is_empty())
            .count()
    }

    fn complain(&self, what: String) {
        self.complaints.lock().unwrap().push(what);
    }
}

impl Books for Ledger {
    fn publishing(&self, mut draft: Draft) -> (usize, Draft) {
        let mut entries = self.entries.lock().unwrap();
        let number = entries.len();
        draft.body.splice(0..0, u64::try_from(number).unwrap().to_be_bytes());
        let header = |properties: &BasicProperties| properties.headers().clone().unwrap_or_default();
        let mut headers = header(&draft.properties);
        headers.insert("x-delay".into(), AMQPValue::LongLongInt(draft.delay_ms));
        draft.properties = draft.properties.with_headers(headers);
        let published_ms = now_ms();
        entries.push(Entry {
            draft: draft.clone(),
            published_ms,
            confirmed: false,
            arrivals: Vec::new(),
            place: 0,
        });
        (number, draft)
    }

    fn confirmed(&self, number: usize) {
        self.entries.lock().unwrap()[number].confirmed = true;
    }

    fn refused(&self, number: usize, how: &Confirmation) {
        self.complain(format!("message {number} could not be published: {how:?}"));
    }

    fn arrived(&self, delivery: &Delivery, at_ms: i64) {
        let number = delivery.data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let mut entries = self.entries.lock().unwrap();
        let entry = number.and_then(|number| entries.get_mut(usize::try_from(number).ok()?));
        let Some(entry) = entry else { return self.complain("a message that nobody published".to_owned()) };
        // The queue's second delivery of one message, to a consumer that had lost its connection.
        if delivery.redelivered && !entry.arrivals.is_empty() {
            self.redelivered.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if entry.arrivals.is_empty() {
            entry.place = self.places.fetch_add(1, Ordering::Relaxed);
        }
        entry.arrivals.push(at_ms);
        if let Some(difference) = difference(&entry.draft, delivery) {
            self.complain(format!("message {}: {difference}", number.unwrap_or_default()));
        }
    }
}

/// What came out otherwise than it was published, apart from what Leveret says it changes.
fn difference(draft: &Draft, delivery: &Delivery) -> Option<String> {
    if delivery.data != draft.body {
        return Some(format!("a body of {} bytes came as {} others", draft.body.len(), delivery.data.len()));
    }
    if delivery.routing_key.as_str() != draft.routing_key {
        return Some(format!("routing key {:?} came as {:?}", draft.routing_key, delivery.routing_key));
    }
    // What the broker adds when it delivers to the consumer again is not Leveret's doing.
    let transport = ["x-leveret-id", "x-delivery-count", "x-acquired-count"];
    let fields = |properties: &BasicProperties| -> HashMap<String, AMQPValue> {
        let headers = properties.headers().clone().unwrap_or_default();
        headers
            .into_iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .filter(|(name, _)| !transport.contains(&name.as_str()))
            .collect()
    };
    let mut expected = fields(&draft.properties);
    if let Some(AMQPValue::LongLongInt(delay @ 1..)) = expected.get("x-delay").cloned() {
        expected.insert("x-delay".to_owned(), AMQPValue::LongInt(i32::try_from(-delay).unwrap()));
    }
    let came = fields(&delivery.properties);
    if came != expected {
        return Some(format!("headers {expected:?} came as {came:?}"));
    }
    let bare = |properties: &BasicProperties| properties.clone().with_headers(FieldTable::default());
    let (expected, came) = (bare(&draft.properties), bare(&delivery.properties));
    (came != expected).then(|| format!("properties {expected:?} came as {came:?}"))
}

/// Declares a replicated queue for deliveries, which survives what the test does to the broker.
pub(crate) async fn declare_target(uri: &str, queue: &str) {
    let client = Client::connect(uri).await;
    client.declare_queue(queue, table([("x-queue-type", AMQPValue::LongString("quorum".into()))])).await;
}
