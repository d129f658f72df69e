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
    /// What a million waiting messages cost, and what a start takes with them
    Backlog,
    /// Whether lateness, memory and disk stay what they are
    Soak,
    /// What costs time while nothing is published
    Idle,
    /// What other ladders and settings would cost: computed, without a broker
    Ladders,
}

impl Experiment {
    /// Those that compare the schemes. The others measure nothing but Leveret, and start one for themselves.
    pub(crate) const COMPARISONS: [Self; 3] = [Self::Rates, Self::Ceiling, Self::Burst];

    /// Its name, on the command line and on the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rates => "rates",
            Self::Ceiling => "ceiling",
            Self::Burst => "burst",
            Self::Workers => "workers",
            Self::Fairness => "fairness",
            Self::Backlog => "backlog",
            Self::Soak => "soak",
            Self::Idle => "idle",
            Self::Ladders => "ladders",
        }
    }

    /// Whether it is one of the comparisons.
    pub(crate) fn compares(self) -> bool {
        Self::COMPARISONS.contains(&self)
    }

    /// Whether it is measured in several rounds; the others once.
    pub(crate) fn has_rounds(self) -> bool {
        self.compares() || matches!(self, Self::Workers | Self::Fairness)
    }
}

/// How much to measure.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) schemes: Vec<String>,
    pub(crate) rounds: usize,
    /// How long to publish, or to look on; each experiment has its own default.
    pub(crate) seconds: Option<u64>,
    /// The first rate of a search for the highest.
    pub(crate) from: u64,
    /// Messages in a burst.
    pub(crate) burst: u64,
    /// Messages that wait in a backlog.
    pub(crate) pending: u64,
    /// How long a soak publishes.
    pub(crate) soak_minutes: u64,
    /// Messages a second of a soak.
    pub(crate) soak_rate: u64,
}

/// What an experiment found; nothing, by default.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Markdown: tables and remarks.
    pub(crate) text: String,
    /// Pictures: the file's name without its ending, and what is in it.
    pub(crate) plots: Vec<(String, Vec<Report>)>,
    /// The broker, where anything was measured.
    pub(crate) broker: Option<String>,
}
