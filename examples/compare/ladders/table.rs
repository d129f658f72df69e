//! The tables that the simulations come to.

use leveret::bench::figure::{grouped, millis, rounded};

use super::counts::Counts;
use super::settings::{COMPRESSED, DEFAULTS, Settings};
use super::workload::{LOG, Workload};
use super::{RATES, Results};
use crate::page::{cell, table};

/// The rate at which bytes are compared.
const USUAL: u64 = 1_000;
/// The rate at which memory is compared.
const HIGHEST: u64 = 5_000;

/// A figure of a simulation.
type Figure<'a> = &'a dyn Fn(&Counts) -> String;

/// Heads of columns, and what is in each.
type Columns<'a> = Vec<(String, Box<dyn Fn(&str) -> String + 'a>)>;

/// What the defaults come to, in full.
pub(crate) fn defaults(results: &Results, workloads: &[Workload]) -> String {
    let head = [
        "delays, msg/s",
        "bundles a message: into levels",
        "straight to the due queue",
        "both",
        "messages a bundle",
        "hops a message",
        "bytes a byte",
        "in memory, at most",
        "bundles unsettled, at most",
        "late, at most",
    ];
    let mut rows = Vec::new();
    for workload in workloads {
        let bytes = |counts: &Counts| rounded(counts.written(workload.annotation).all());
        for rate in RATES {
            let figures: [Figure<'_>; 9] = [
                &|counts| rounded(counts.level_bundles_a_message()),
                &|counts| rounded(counts.straight_bundles_a_message()),
                &bundles,
                &|counts| rounded(counts.messages_a_bundle()),
                &|counts| rounded(counts.hops_a_message()),
                &bytes,
                &memory,
                &unsettled,
                &late,
            ];
            let name = format!("{}, {}", workload.name, grouped(rate));
            let counts = results.get(DEFAULTS, workload.name, rate);
            let figures = figures.into_iter().map(|figure| cell(counts, figure));
            rows.push([name].into_iter().chain(figures).collect());
        }
    }
    table(&head, &rows)
}

/// Bundles a message with each ladder.
pub(crate) fn ladders(results: &Results, ladders: &[Settings], workloads: &[Workload]) -> String {
    let columns = levels(ladders).into_iter().chain(bundles_a_message(results, workloads)).collect();
    laid_out("ladder", ladders, &columns)
}

/// Hops, bytes and memory with each ladder.
pub(crate) fn ladders_further(results: &Results, ladders: &[Settings], workloads: &[Workload]) -> String {
    let mut columns = levels(ladders);
    let mut column = |title: &str, rate: u64, figure: fn(&Counts, &Workload) -> String| {
        for (index, workload) in workloads.iter().enumerate() {
            let of = move |name: &str| {
                cell(results.get(name, workload.name, rate), |counts| figure(counts, workload))
            };
            columns.push((titled(title, index == 0, workload.name), Box::new(of)));
        }
    };
    column("hops a message", USUAL, |counts, _| rounded(counts.hops_a_message()));
    column("bytes a byte", USUAL, |counts, workload| rounded(counts.written(workload.annotation).all()));
    column("in memory, at most", HIGHEST, |counts, _| memory(counts));
    laid_out("ladder", ladders, &columns)
}

/// The default ladder with other settings.
pub(crate) fn others(results: &Results, others: &[Settings], workloads: &[Workload]) -> String {
    let mut columns = bundles_a_message(results, workloads);
    let mut at_the_highest = |head: &str, figure: fn(&Counts) -> String| {
        let of = move |name: &str| cell(results.get(name, LOG, HIGHEST), figure);
        columns.push((head.to_owned(), Box::new(of)));
    };
    at_the_highest("in memory, at most", memory);
    at_the_highest("bundles unsettled, at most", unsettled);
    at_the_highest("late, at most", late);
    laid_out("setting", others, &columns)
}

/// Bytes that each queue takes in, in the clear and compressed.
pub(crate) fn bytes(results: &Results, workload: &Workload) -> String {
    let head = [
        "msg/s",
        "ingress queue",
        "level queues",
        "due queue",
        "target's queue",
        "all",
        "in bundles",
        "÷ in the clear",
    ];
    let mut rows = Vec::new();
    for rate in RATES {
        let written =
            |name| results.get(name, workload.name, rate).map(|counts| counts.written(workload.annotation));
        let clear = written(DEFAULTS);
        for (name, how) in [(DEFAULTS, "in the clear"), (COMPRESSED, "compressed")] {
            let written = written(name);
            let of_clear = written.zip(clear).map(|(one, clear)| one.bundled() / clear.bundled());
            rows.push(vec![
                format!("{}, {how}", grouped(rate)),
                cell(written, |written| rounded(written.ingress)),
                cell(written, |written| rounded(written.levels)),
                cell(written, |written| rounded(written.due)),
                cell(written, |written| rounded(written.target)),
                cell(written, |written| rounded(written.all())),
                cell(written, |written| rounded(written.bundled())),
                cell(of_clear, rounded),
            ]);
        }
    }
    table(&head, &rows)
}

fn bundles(counts: &Counts) -> String {
    rounded(counts.bundles_a_message())
}

fn memory(counts: &Counts) -> String {
    grouped(counts.most_in_memory as u64)
}

fn unsettled(counts: &Counts) -> String {
    grouped(counts.most_unsettled as u64)
}

/// Early is worse than late: it is not to be overlooked.
fn late(counts: &Counts) -> String {
    match counts.early {
        0 => millis(counts.latest.as_secs_f64() * 1_000.0),
        early => format!("{early} early"),
    }
}

/// Bundles a message at each rate, for each kind of delays.
fn bundles_a_message<'a>(results: &'a Results, workloads: &'a [Workload]) -> Columns<'a> {
    let mut columns: Columns<'a> = Vec::new();
    for workload in workloads {
        for rate in RATES {
            let head = titled(workload.name, rate == RATES[0], &format!("{}/s", grouped(rate)));
            let of = move |name: &str| cell(results.get(name, workload.name, rate), bundles);
            columns.push((head, Box::new(of)));
        }
    }
    columns
}

/// How many levels each ladder has.
fn levels(ladders: &[Settings]) -> Columns<'_> {
    let count = |name: &str| {
        let settings = ladders.iter().find(|settings| settings.name == name);
        cell(settings, |settings| settings.ladder.levels().len().to_string())
    };
    vec![("levels".to_owned(), Box::new(count))]
}

/// The head of a column; the first of a group names the group.
fn titled(group: &str, first: bool, head: &str) -> String {
    if first { format!("{group}: {head}") } else { head.to_owned() }
}

fn laid_out(first: &str, settings: &[Settings], columns: &Columns<'_>) -> String {
    let head: Vec<_> = [first].into_iter().chain(columns.iter().map(|(head, _)| head.as_str())).collect();
    let row = |settings: &Settings| {
        let figures = columns.iter().map(|(_, figure)| figure(settings.name));
        [settings.name.to_owned()].into_iter().chain(figures).collect()
    };
    table(&head, &settings.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ladders::counts::Sent;
    use crate::ladders::settings;
    use crate::ladders::workload::EQUAL;

    fn results(of: &[(&'static str, &'static str, u64)]) -> Results {
        let counts = Counts {
            levels: Sent { bundles: 5, messages: 50, bytes: 2_000 },
            delivered: 10,
            hops: 50,
            body_bytes: 1_000,
            property_bytes: 100,
            most_in_memory: 1_234,
            ..Counts::default()
        };
        Results(of.iter().map(|key| (*key, counts.clone())).collect())
    }

    #[test]
    fn each_ladder_has_a_row_and_what_was_not_simulated_a_dash() {
        let workloads = Workload::all().unwrap();
        let ladders = settings::ladders().unwrap();
        let results = results(&[("×4 from 1 s", LOG, 100), ("×4 from 1 s", EQUAL, HIGHEST)]);
        let text = super::ladders(&results, &ladders, &workloads);
        let head = "| ladder | levels | 1 s to 16 s: 10/s | 100/s | 1,000/s | 5,000/s | 1 s to 1 day: 10/s | 100/s |";
        assert!(text.starts_with(head), "{text}");
        let row = "| ×4 from 1 s | 11 | – | – | – | – | – | 0.500 | – | – | – | – | – | 0.500 |\n";
        assert!(text.contains(row), "{text}");
        assert_eq!(text.lines().count(), 2 + ladders.len());
        let text = ladders_further(&results, &ladders, &workloads);
        assert!(text.contains("| ×4 from 1 s | 11 | – | – | – | – | – | – | – | – | 1,234 |\n"), "{text}");
    }

    #[test]
    fn compression_is_compared_to_none_at_the_same_rate() {
        let [_, workload, _] = Workload::all().unwrap();
        let mut results = results(&[(DEFAULTS, LOG, 1_000)]);
        let mut small = results.get(DEFAULTS, LOG, 1_000).unwrap().clone();
        small.levels.bytes = 500;
        results.0.insert((COMPRESSED, LOG, 1_000), small);
        let text = bytes(&results, &workload);
        assert!(text.contains("| 1,000, compressed | 1.10 | 0.500 | 0.500 |"), "{text}");
        assert!(text.contains("| 1.00 | 0.250 |\n"), "{text}");
    }

    #[test]
    fn what_is_early_is_told() {
        let late_by = Counts { latest: Duration::from_millis(20), ..Counts::default() };
        assert_eq!(late(&late_by), "20.0 ms");
        assert_eq!(late(&Counts { early: 2, ..late_by }), "2 early");
    }
}
