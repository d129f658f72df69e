//! What all experiments have in common.

use std::time::Duration;

use clap::ValueEnum;
use leveret::bench::report::Report;

use crate::measuring::Run;
use crate::samples::Outcome;

/// The delays of all but bursts.
pub(crate) const DELAY: &str = "1s..16s";
/// The longest of them.
pub(crate) const LONGEST: Duration = Duration::from_secs(16);

/// Measures one run.
pub(crate) type Measure<'a> = dyn FnMut(&Run) -> Outcome + 'a;

/// An experiment, which writes the section of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Lateness and cost at fixed rates
    Rates,
    /// The highest rate that each scheme carries
    Ceiling,
    /// Many messages due within one second
    Burst,
    /// One, two and four workers in one process
    Workers,
    /// A bridge with very many messages due at once, beside another
    Fairness,
}

impl Experiment {
    /// Its name, on the command line and on the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rates => "rates",
            Self::Ceiling => "ceiling",
            Self::Burst => "burst",
            Self::Workers => "workers",
            Self::Fairness => "fairness",
        }
    }
}

/// How much to measure.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) schemes: Vec<String>,
    pub(crate) rounds: usize,
    /// How long to publish; each experiment has its own default.
    pub(crate) seconds: Option<u64>,
    /// The first rate of a search for the highest.
    pub(crate) from: u64,
    /// Messages in a burst.
    pub(crate) burst: u64,
}

/// What an experiment found.
#[derive(Debug)]
pub(crate) struct Findings {
    /// Markdown: tables and remarks.
    pub(crate) text: String,
    /// Pictures: the file's name without its ending, and what is in it.
    pub(crate) plots: Vec<(String, Vec<Report>)>,
    /// The broker, where anything was measured.
    pub(crate) broker: Option<String>,
}
