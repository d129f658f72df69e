//! What each ladder, linger and size costs in bundles, bytes and memory: the figures that the defaults were chosen by.
//!
//! Nobody can wait for days of delays with each of them, so these are computed: [`simulation`] drives the real planner,
//! packer and codec in virtual time. The figures are the same on every machine.

mod bodies;
mod counts;
mod settings;
mod shortening;
mod simulation;
mod table;
mod workload;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use leveret::bench::figure::{bytes, grouped};

use self::counts::Counts;
use self::settings::Settings;
use self::workload::Workload;
use crate::experiment::Findings;

/// Messages a second.
const RATES: [u64; 4] = [10, 100, 1_000, 5_000];

/// How many deliveries are counted at least, and for how long.
const COUNTED: u64 = 20_000;
const COUNTED_FOR: Duration = Duration::from_secs(60);

/// What was simulated: by settings, workload and rate.
#[derive(Debug)]
struct Results(HashMap<Key, Counts>);

type Key = (&'static str, &'static str, u64);

impl Results {
    fn get<'a>(&'a self, settings: &'a str, workload: &'a str, rate: u64) -> Option<&'a Counts> {
        self.0.get(&(settings, workload, rate))
    }
}

/// Simulates all, and lays it out.
pub(crate) fn run() -> Result<Findings> {
    let workloads = Workload::all()?;
    let [_, log, _] = &workloads;
    let (ladders, others, compressed) = (settings::ladders()?, settings::others()?, Settings::compressed()?);
    let mut cases = Vec::new();
    for rate in RATES {
        let case = |settings, workload| Case { settings, workload, rate };
        let all = ladders.iter().chain(&others);
        cases.extend(all.flat_map(|one| workloads.iter().map(move |workload| case(one, workload))));
        cases.push(case(&compressed, log));
    }
    let results = simulate(cases);
    let defaults = ladders.iter().take(1).cloned();
    let others: Vec<_> = defaults.chain(others).collect();
    let text = format!(
        "Bodies of {} on average. The defaults:\n\n{}\nBundles a message, with other ladders:\n\n{}\nThe same ladders, at \
         1,000 msg/s; memory at 5,000:\n\n{}\nBundles a message, with other settings; the last three columns are for \
         delays of {} at 5,000 msg/s:\n\n{}\nBytes that each queue takes in for each byte of a body, with delays of \
         {}:\n\n{}",
        bytes(log.body_bytes() as u64),
        table::defaults(&results, &workloads),
        table::ladders(&results, &ladders, &workloads),
        table::ladders_further(&results, &ladders, &workloads),
        log.name,
        table::others(&results, &others, &workloads),
        log.name,
        table::bytes(&results, log),
    );
    Ok(Findings { text, plots: Vec::new(), broker: None })
}

/// How it was computed, in words.
pub(crate) fn parameters() -> String {
    format!(
        "seed {}; a pass through the broker takes {} ms besides its TTL; counted for {} s or {} deliveries, whichever \
         takes longer",
        workload::SEED,
        simulation::TRANSIT.as_millis(),
        COUNTED_FOR.as_secs(),
        grouped(COUNTED),
    )
}

/// One simulation.
#[derive(Debug, Clone, Copy)]
struct Case<'a> {
    settings: &'a Settings,
    workload: &'a Workload,
    rate: u64,
}

impl Case<'_> {
    fn key(&self) -> Key {
        (self.settings.name, self.workload.name, self.rate)
    }

    /// Counts once the first messages have had their longest way.
    fn simulate(&self) -> Counts {
        let Self { settings, workload, rate } = *self;
        let stays = shortening::shortened(&settings.ladder);
        let ways = workload.delays().map(|delay| shortening::way(&settings.ladder, &stays, delay));
        // A hop that takes less than its room may leave enough for one hop more.
        let steady = ways.max().unwrap_or_default().mul_f64(1.2);
        let counted = COUNTED_FOR.max(Duration::from_secs(COUNTED / rate));
        simulation::run(settings, &stays, workload.publications(rate), steady..steady + counted)
    }
}

/// Simulates on every core.
fn simulate(mut cases: Vec<Case<'_>>) -> Results {
    // The longest first, so that in the end no core waits long for another.
    cases.sort_by_key(|case| Reverse(case.rate));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let counts = case.simulate();
            eprintln!("ladders: {}, {}, {} msg/s", case.settings.name, case.workload.name, case.rate);
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(case.key(), counts);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(work);
        }
    });
    Results(results.into_inner().unwrap_or_else(PoisonError::into_inner))
}
