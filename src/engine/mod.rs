//! Joins the domain and AMQP: intake, packing, holding, delivery, settling.
//!
//! A session lives as long as its connections; this module starts one after another until told to stop.

mod clock;
mod consuming;
mod dead_letter;
mod delivery;
mod dispatch;
mod dress;
pub mod envelope;
mod fate;
mod flow;
mod intake;
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

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::consuming::ConsumingCount;
use self::session::SessionError;
use crate::admin::health::Health;
use crate::amqp::topology::Topology;
use crate::config::Config;
use crate::domain::ladder::Ladder;
use crate::telemetry::metrics::{Connections, Metrics};

pub use self::clock::wall_clock;

/// First pause before connecting again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Everything that outlives a session.
pub struct Engine {
    config: Config,
    ladder: Ladder,
    topology: Arc<Topology>,
    health: Health,
    metrics: Arc<Metrics>,
    connections: Connections,
    consuming: ConsumingCount,
}

/// How the engine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Asked to stop; everything is settled, as far as the broker was there to take it.
    Drained,
    /// Asked to stop, and the time for it passed; what was unsettled comes again.
    DeadlinePassed,
    /// The broker holds something of that name that contradicts the configuration.
    Conflict(String),
}

impl Engine {
    /// An engine for a checked configuration.
    #[must_use]
    pub fn new(config: Config, ladder: Ladder, health: Health, metrics: Arc<Metrics>) -> Self {
        let topology = Arc::new(Topology::new(&config, &ladder));
        // The due queue, and one ingress queue a bridge.
        let consuming = ConsumingCount::new(config.bridges.len() + 1, health.clone());
        let connections = metrics.connections();
        Self { config, ladder, topology, health, metrics, connections, consuming }
    }

    /// Runs until `stop`, through any number of sessions; then no longer than the grace period.
    pub async fn run(&self, stop: &CancellationToken) -> Ended {
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            let Some(ended) = self.session(stop).await else { return Ended::DeadlinePassed };
            self.health.disconnected();
            self.connections.closed();
            match ended {
                Ok(()) => return Ended::Drained,
                Err(SessionError::Declare(conflict)) if conflict.is_conflict() => {
                    return Ended::Conflict(conflict.to_string());
                }
                Err(conflict @ SessionError::Policies(_)) => return Ended::Conflict(conflict.to_string()),
                Err(failure) if stop.is_cancelled() => {
                    warn!(%failure, "not connected while stopping; what is not settled comes again");
                    return Ended::Drained;
                }
                Err(failure) => {
                    self.health.note(Some(failure.to_string()));
                    // One that outlasted the pause before it was sound: few losses of good connections cost little.
                    if started.elapsed() > pause {
                        pause = FIRST_PAUSE;
                    }
                    let jittered = pause.mul_f64(0.5 + fastrand::f64());
                    self.connections.lost(&failure.to_string(), jittered);
                    tokio::select! {
                        () = sleep(jittered) => {}
                        () = stop.cancelled() => return Ended::Drained,
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if matches!(failure, SessionError::Unreadable(_)) {
                        tokio::select! {
                            rescued = rescue::run(self) => if rescued { pause = FIRST_PAUSE },
                            () = stop.cancelled() => return Ended::Drained,
                        }
                    }
                }
            }
        }
    }

    /// One session; `None` where it did not end within the grace period after it was told to stop.
    async fn session(&self, stop: &CancellationToken) -> Option<Result<(), SessionError>> {
        let session = session::run(self, stop);
        tokio::pin!(session);
        tokio::select! {
            ended = &mut session => return Some(ended),
            () = stop.cancelled() => {}
        }
        self.health.drain();
        info!(
            grace_s = self.config.shutdown.grace.as_secs(),
            "stopping: no new messages, finishing what is held"
        );
        timeout(self.config.shutdown.grace, session).await.ok()
    }
}
