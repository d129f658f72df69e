//! Joins the domain and AMQP: intake, packing, holding, delivery, settling.
//!
//! Workers run side by side, each one session after another; a session lives as long as its connections.

mod alarm;
pub mod budget;
mod chore;
mod clock;
mod consuming;
mod dead_letter;
mod delivery;
mod dispatch;
pub mod dress;
pub mod envelope;
mod fate;
mod flow;
pub mod intake;
pub mod keys;
pub mod parked;
pub mod parking;
mod receipt;
mod reputation;
mod rescue;
mod session;
mod source;
mod turns;
mod users;
mod watch;
mod worker;

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error};

use self::chore::Chore;
use self::clock::StepDetector;
use self::worker::Worker;
use crate::admin::health::{Health, WorkerHealth};
use crate::amqp::topology::Topology;
use crate::config::Config;
use crate::domain::ladder::Ladder;
use crate::telemetry::metrics::Metrics;

pub use self::clock::wall_clock;

/// The workers of this process.
pub struct Engine {
    workers: Vec<Arc<Worker>>,
}

/// What all workers have in common.
struct Shared {
    config: Config,
    ladder: Ladder,
    topology: Arc<Topology>,
    health: Health,
    metrics: Arc<Metrics>,
    steps: Arc<StepDetector>,
    /// The audit before work begins.
    audit: Chore,
    /// Parking what the client library cannot read.
    rescue: Chore,
    /// Held by the one that watches the queues.
    watching: Mutex<()>,
}

/// How the engine ended; the graver, the later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// Asked to stop; everything is settled, as far as the broker was there to take it.
    Drained,
    /// Asked to stop, and the time for it passed; what was unsettled comes again.
    DeadlinePassed,
    /// The broker holds something of that name that contradicts the configuration.
    Conflict(String),
}

impl Engine {
    /// An engine for a checked configuration; `health` and `metrics` are of as many workers as that says.
    #[must_use]
    pub fn new(config: Config, ladder: Ladder, health: &Health, metrics: Arc<Metrics>) -> Self {
        let shared = Arc::new(Shared {
            topology: Arc::new(Topology::new(&config, &ladder)),
            config,
            ladder,
            health: health.clone(),
            metrics,
            steps: Arc::default(),
            audit: Chore::default(),
            rescue: Chore::default(),
            watching: Mutex::default(),
        });
        let several = health.workers().len() > 1;
        let worker = |(index, health): (usize, &WorkerHealth)| {
            Arc::new(Worker::new(shared.clone(), several.then_some(index + 1), health.clone()))
        };
        Self { workers: health.workers().iter().enumerate().map(worker).collect() }
    }

    /// Runs until `stop`, or until a worker finds that none can run; then no longer than the grace period.
    pub async fn run(&self, stop: &CancellationToken) -> Ended {
        let stop = stop.child_token();
        let mut workers = JoinSet::new();
        for worker in &self.workers {
            let (worker, stop) = (worker.clone(), stop.clone());
            // A task each: they are what runs in parallel.
            let span = worker.span();
            workers.spawn(async move { worker.run(&stop).await }.instrument(span));
        }
        let mut all = Ended::Drained;
        while let Some(worker) = workers.join_next().await {
            let ended = worker.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
            if let Ended::Conflict(conflict) = &ended
                && !stop.is_cancelled()
            {
                if !workers.is_empty() {
                    error!(conflict, "a worker cannot run: stopping the others");
                }
                stop.cancel();
            }
            all = all.max(ended);
        }
        all
    }
}
