//! A worker: two connections and what runs on them, one session after another until told to stop. Workers share nothing
//! but what [`Shared`] holds, so that one that has lost its connection disturbs no other.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Span, error_span, info, warn};

use super::consuming::ConsumingCount;
use super::session::{self, SessionError};
use super::{Ended, Shared, rescue};
use crate::admin::health::WorkerHealth;
use crate::telemetry::metrics::{Connections, Role};

/// First pause before connecting again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What of a worker outlives its sessions.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    /// From 1 on, where there are several.
    number: Option<usize>,
    pub(super) health: WorkerHealth,
    pub(super) connections: Connections,
    pub(super) consuming: ConsumingCount,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, number: Option<usize>, health: WorkerHealth) -> Self {
        // The due queue, and one ingress queue a bridge.
        let consuming = ConsumingCount::new(shared.config.bridges.len() + 1, health.clone());
        Self { number, health, connections: shared.metrics.connections(), consuming, shared }
    }

    /// What the connection of that role is for, as the broker lists it.
    pub(super) fn purpose(&self, role: Role) -> String {
        let role = role.as_str();
        self.number.map_or_else(|| role.to_owned(), |number| format!("{role} {number}"))
    }

    /// Tells its lines in the log from those of the others, at every level.
    pub(super) fn span(&self) -> Span {
        self.number.map_or_else(Span::none, |number| error_span!("worker", number))
    }

    /// Runs until `stop`, through any number of sessions; then no longer than the grace period.
    pub(super) async fn run(&self, stop: &CancellationToken) -> Ended {
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            let Some(ended) = self.session(stop).await else { return Ended::DeadlinePassed };
            let ended_at = Instant::now();
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
                    if ended_at - started > pause {
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
                            rescued = self.rescue(ended_at) => if rescued { pause = FIRST_PAUSE },
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
        self.shared.health.drain();
        let grace = self.shared.config.shutdown.grace;
        info!(grace_s = grace.as_secs(), "stopping: no new messages, finishing what is held");
        timeout(grace, session).await.ok()
    }

    /// Takes what cannot be read out of the way; whether that was done, here or meanwhile by a worker that the same
    /// message had come to.
    async fn rescue(&self, since: Instant) -> bool {
        let rescuing = async { if rescue::run(&self.shared).await { Ok(()) } else { Err(()) } };
        self.shared.rescue.unless_done_since(since, rescuing).await.is_ok()
    }
}
