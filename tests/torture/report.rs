//! What the books say at the end, against what broke and when.

use std::collections::BTreeMap;
use std::fmt;

use super::record::{Entry, Pages};
use super::schedule::Fault;
use super::traffic::BRIDGES;

/// After a fault is over, what it has held up still has to come.
const AFTERMATH_MS: i64 = 5_000;
/// So many of a kind are shown one by one.
const SHOWN: usize = 5;

/// A fault, from the moment it struck to the moment all replicas were ready again; Unix milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incident {
    pub(crate) fault: Fault,
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
}

/// How a run came out.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// By kind.
    faults: BTreeMap<&'static str, usize>,
    published: usize,
    confirmed: usize,
    refused: usize,
    delivered: usize,
    parked: BTreeMap<String, usize>,
    redelivered: usize,
    lost: Vec<String>,
    early: Vec<String>,
    /// By the fault that explains them.
    doubles: BTreeMap<&'static str, usize>,
    /// Those that no fault explains.
    unexplained: Vec<String>,
    complaints: Vec<String>,
    quiet: Lateness,
    troubled: Lateness,
}

/// Milliseconds from due to come, sorted.
#[derive(Debug, Default)]
struct Lateness(Vec<i64>);

impl Incident {
    fn touches(&self, from_ms: i64, to_ms: i64) -> bool {
        self.from_ms <= to_ms && from_ms <= self.to_ms + AFTERMATH_MS
    }
}

impl Report {
    pub(crate) fn of(pages: &Pages, incidents: &[Incident]) -> Self {
        let mut report = Self {
            published: pages.entries.len(),
            refused: pages.refused,
            parked: pages.parked.clone(),
            redelivered: pages.redelivered,
            complaints: pages.complaints.clone(),
            ..Self::default()
        };
        for incident in incidents {
            *report.faults.entry(incident.fault.kind()).or_default() += 1;
        }
        for (number, entry) in pages.entries.iter().enumerate() {
            report.book(number, entry, incidents);
        }
        for double in &pages.doubles {
            let entry = &pages.entries[double.number];
            let within = |incident: &&Incident| incident.touches(entry.published_ms, double.at_ms);
            match incidents
                .iter()
                .filter(|one| one.fault.may_double())
                .filter(within)
                .max_by_key(|one| one.from_ms)
            {
                Some(incident) => *report.doubles.entry(incident.fault.kind()).or_default() += 1,
                None => report.unexplained.push(described(double.number, entry)),
            }
        }
        report.quiet.0.sort_unstable();
        report.troubled.0.sort_unstable();
        report
    }

    fn book(&mut self, number: usize, entry: &Entry, incidents: &[Incident]) {
        self.confirmed += usize::from(entry.confirmed);
        let Some(arrival) = entry.came else {
            if entry.confirmed {
                self.lost.push(described(number, entry));
            }
            return;
        };
        self.delivered += usize::from(!arrival.parked);
        let late_ms = arrival.at_ms - entry.due_ms;
        if late_ms < 0 {
            self.early.push(format!("{}, by {} ms", described(number, entry), -late_ms));
        }
        if !arrival.parked && !BRIDGES[entry.bridge].is_fragile {
            let touched = incidents.iter().any(|one| one.touches(entry.published_ms, arrival.at_ms));
            let lateness = if touched { &mut self.troubled } else { &mut self.quiet };
            lateness.0.push(late_ms);
        }
    }

    /// What is not as it was promised.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if self.confirmed == 0 {
            failures.push("nothing was published".to_owned());
        }
        let kinds = [
            ("lost", &self.lost),
            ("early", &self.early),
            ("doubled without a fault", &self.unexplained),
            ("otherwise than they should be", &self.complaints),
        ];
        for (kind, all) in kinds.into_iter().filter(|(_, all)| !all.is_empty()) {
            let shown = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
            failures.push(format!("{} {kind}: {shown}", all.len()));
        }
        failures
    }
}

fn described(number: usize, entry: &Entry) -> String {
    let Entry { bridge, published_ms, due_ms, size, .. } = entry;
    let bridge = BRIDGES[*bridge].name;
    format!("message {number} of {bridge}, {size} bytes, published at {published_ms} for {due_ms}")
}

impl Lateness {
    fn per_mille(&self, per_mille: usize) -> i64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * per_mille / 1_000).copied().unwrap_or_default()
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [500, 990, 1_000].map(|per_mille| self.per_mille(per_mille));
        write!(f, "p50 {p50} ms, p99 {p99} ms, max {max} ms ({} messages)", self.0.len())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doubled = self.doubles.values().sum::<usize>() + self.unexplained.len();
        let parked = self.parked.values().sum::<usize>();
        let faults = listed(self.faults.iter().map(|(fault, count)| (*fault, *count)));
        writeln!(f, "faults       {}{faults}", self.faults.values().sum::<usize>())?;
        writeln!(f, "published    {}", self.published)?;
        writeln!(f, "confirmed    {}, refused {}", self.confirmed, self.refused)?;
        writeln!(f, "delivered    {}", self.delivered)?;
        let reasons = listed(self.parked.iter().map(|(reason, count)| (reason.as_str(), *count)));
        writeln!(f, "parked       {parked}{reasons}")?;
        writeln!(f, "lost         {}", self.lost.len())?;
        writeln!(f, "early        {}", self.early.len())?;
        let causes = listed(self.doubles.iter().map(|(fault, count)| (*fault, *count)));
        writeln!(f, "duplicated   {doubled}{causes}, unexplained {}", self.unexplained.len())?;
        writeln!(
            f,
            "redelivered  {} by the targets' queues to a consumer that was cut off",
            self.redelivered
        )?;
        writeln!(f, "late         without a fault: {}", self.quiet)?;
        write!(f, "             with one:        {}", self.troubled)
    }
}

/// Counts by name, in brackets.
fn listed<'a>(counts: impl Iterator<Item = (&'a str, usize)>) -> String {
    let all: Vec<_> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

pub(crate) mod tests {
    use super::*;
    use crate::record::{Arrival, Double};
    use crate::schedule::{ReplicaFault, TargetFault};

    /// A message to a bridge that is well, published at 0 for 100.
    fn entry(came_ms: Option<i64>) -> Entry {
        let came = came_ms.map(|at_ms| Arrival { at_ms, parked: false });
        Entry { confirmed: true, came, ..Entry::new(0, 0, 100, b"") }
    }

    fn killed(from_ms: i64, to_ms: i64) -> Incident {
        Incident { fault: Fault::Replica(0, ReplicaFault::Killed), from_ms, to_ms }
    }

    fn failures(entries: Vec<Entry>, doubles: Vec<Double>, incidents: &[Incident]) -> String {
        Report::of(&Pages { entries, doubles, ..Pages::default() }, incidents).failures().join("\n")
    }

    pub(crate) fn what_came_in_time_is_no_failure() {
        assert_eq!(failures(vec![entry(Some(100)), entry(Some(9_000))], vec![], &[]), "");
    }

    pub(crate) fn what_was_confirmed_and_did_not_come_is_lost() {
        assert!(failures(vec![entry(Some(100)), entry(None)], vec![], &[]).starts_with("1 lost: message 1"));
        let unconfirmed = Entry { confirmed: false, ..entry(None) };
        assert_eq!(failures(vec![entry(Some(100)), unconfirmed], vec![], &[]), "");
    }

    pub(crate) fn a_millisecond_too_soon_is_early() {
        assert!(failures(vec![entry(Some(99))], vec![], &[]).starts_with("1 early"));
    }

    pub(crate) fn nothing_published_is_a_failure() {
        assert_eq!(failures(vec![], vec![], &[]), "nothing was published");
    }

    pub(crate) fn only_a_fault_in_its_life_explains_a_double() {
        let doubled = |incidents: &[Incident]| {
            failures(vec![entry(Some(100))], vec![Double { number: 0, at_ms: 50_000 }], incidents)
        };
        assert!(doubled(&[]).starts_with("1 doubled without a fault"));
        assert_eq!(doubled(&[killed(200, 300)]), "");
        assert!(!doubled(&[killed(50_001, 60_000)]).is_empty());
        assert!(!doubled(&[killed(-20_000, -10_000)]).is_empty());
        let full = Incident { fault: Fault::Target(TargetFault::Full), ..killed(200, 300) };
        assert!(!doubled(&[full]).is_empty());
    }

    pub(crate) fn lateness_is_told_apart_by_what_broke_meanwhile() {
        let entries = vec![entry(Some(103)), entry(Some(20_000))];
        let pages = Pages { entries, ..Pages::default() };
        let report = Report::of(&pages, &[killed(10_000, 12_000)]);
        assert_eq!((report.quiet.0, report.troubled.0), (vec![3], vec![19_900]));
    }
}
