//! What the books say at the end.

use std::fmt;

use super::Entry;

/// How a load came out.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) published: usize,
    pub(crate) confirmed: usize,
    /// Numbers of messages that were confirmed and never came.
    pub(crate) lost: Vec<usize>,
    /// Arrivals beyond the first of a message.
    pub(crate) doubles: usize,
    /// Arrivals that the consumer had seen before it lost its connection: no doubles.
    redelivered: usize,
    /// Number of each message that came early, and by how many milliseconds.
    pub(crate) early: Vec<(usize, i64)>,
    /// What could not be published, or came otherwise than it was.
    pub(crate) complaints: Vec<String>,
    /// Milliseconds from the due time to each first arrival, sorted. Publishing takes its part of it.
    lateness_ms: Vec<i64>,
}

impl Report {
    pub(super) fn of(entries: &[Entry], complaints: &[String], redelivered: usize) -> Self {
        let numbered = || entries.iter().enumerate();
        let lateness = |entry: &Entry| {
            Some(entry.arrivals.iter().min()? - entry.published_ms - entry.draft.delay_ms.max(0))
        };
        let mut lateness_ms: Vec<_> = entries.iter().filter_map(lateness).collect();
        lateness_ms.sort_unstable();
        Self {
            published: entries.len(),
            confirmed: entries.iter().filter(|entry| entry.confirmed).count(),
            lost: numbered()
                .filter(|(_, entry)| entry.confirmed && entry.arrivals.is_empty())
                .map(|(n, _)| n)
                .collect(),
            doubles: entries.iter().map(|entry| entry.arrivals.len().saturating_sub(1)).sum(),
            early: numbered()
                .filter_map(|(n, entry)| Some((n, -lateness(entry).filter(|late| *late < 0)?)))
                .collect(),
            complaints: complaints.to_vec(),
            redelivered,
            lateness_ms,
        }
    }

    /// Prints it under that name, and panics where a message was lost, early or altered. Doubles are counted.
    pub(crate) fn nothing_lost_or_early(self, name: &str) -> Self {
        self.nothing_lost_and_early_by_at_most(name, 0)
    }

    /// The same where clocks are wrong, and messages may be early by so many milliseconds.
    pub(crate) fn nothing_lost_and_early_by_at_most(self, name: &str, early_ms: i64) -> Self {
        let report = self.nothing_altered(name);
        assert!(report.lost.is_empty(), "{name}: lost {:?}", report.lost);
        let early: Vec<_> = report.early.iter().filter(|(_, by_ms)| *by_ms > early_ms).collect();
        assert!(early.is_empty(), "{name}: early by more than {early_ms} ms (number, by ms) {early:?}");
        report
    }

    /// As [`Report::exactly_once`], but that precisely the first messages were lost.
    pub(crate) fn exactly_once_but_the_first(self, count: usize, name: &str) -> Self {
        let report = self.nothing_altered(name);
        assert_eq!(report.lost, (0..count).collect::<Vec<_>>(), "{name}: lost");
        assert!(report.early.is_empty(), "{name}: early (number, by ms) {:?}", report.early);
        assert_eq!(report.doubles, 0, "{name}: doubles");
        report
    }

    fn nothing_altered(self, name: &str) -> Self {
        println!("{name}: {self}");
        let first: Vec<_> = self.complaints.iter().take(3).collect();
        assert!(first.is_empty(), "{name}: {} complaints, first {first:#?}", self.complaints.len());
        assert!(self.confirmed > 0, "{name}: nothing was published");
        self
    }

    /// As [`Report::nothing_lost_or_early`], and nothing came twice.
    pub(crate) fn exactly_once(self, name: &str) -> Self {
        let report = self.nothing_lost_or_early(name);
        assert_eq!(report.doubles, 0, "{name}: doubles");
        report
    }

    fn percentile(&self, percent: usize) -> i64 {
        let last = self.lateness_ms.len().saturating_sub(1);
        self.lateness_ms.get(last * percent / 100).copied().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { published, confirmed, lost, doubles, redelivered, early, complaints, .. } = self;
        let [p50, p90, p99, max] = [50, 90, 99, 100].map(|percent| self.percentile(percent));
        write!(
            f,
            "{published} published, {confirmed} confirmed, {} lost, {doubles} doubled, {redelivered} redelivered, {} early, {} altered; \
             late by p50 {p50} p90 {p90} p99 {p99} max {max} ms",
            lost.len(),
            early.len(),
            complaints.len()
        )
    }
}
