//! What happens to the connections to the broker.

use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;

use super::share::{Quorum, Vote};
use super::{catalogue, counter, gauge};

/// What a connection is for. Consuming and publishing never share one, since a blocked connection stops both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It consumes and acknowledges.
    Consume,
    /// It publishes.
    Publish,
}

impl Role {
    /// The role as logs and metrics spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::Publish => "publish",
        }
    }
}

/// The metrics of the connections of one role, over all workers.
pub(super) struct RoleMetrics {
    role: Role,
    up: Arc<Quorum>,
    blocked: Arc<Quorum>,
    reconnects: Counter,
}

impl RoleMetrics {
    /// For so many workers: the connection counts as up while all of theirs are, and as blocked while one of them is.
    pub(super) fn register(role: Role, workers: usize) -> Self {
        let labels = &[("role", role.as_str())];
        Self {
            role,
            up: Quorum::new(gauge(&catalogue::CONNECTION_UP, labels), workers),
            blocked: Quorum::new(gauge(&catalogue::CONNECTION_BLOCKED, labels), 1),
            reconnects: counter(&catalogue::RECONNECTS, labels),
        }
    }

    fn of_one_worker(&self) -> ConnectionMetrics {
        ConnectionMetrics {
            role: self.role,
            up: self.up.vote(),
            blocked: self.blocked.vote(),
            reconnects: self.reconnects.clone(),
        }
    }
}

/// The metrics of both connections of one worker.
pub struct Connections {
    consume: ConnectionMetrics,
    publish: ConnectionMetrics,
}

impl Connections {
    pub(super) fn of(consume: &RoleMetrics, publish: &RoleMetrics) -> Self {
        Self { consume: consume.of_one_worker(), publish: publish.of_one_worker() }
    }

    /// The metrics of the connection of this role.
    #[must_use]
    pub fn role(&self, role: Role) -> &ConnectionMetrics {
        match role {
            Role::Consume => &self.consume,
            Role::Publish => &self.publish,
        }
    }

    /// The session with the broker is over, and both connections with it, whichever failed.
    pub fn closed(&self) {
        self.consume.closed();
        self.publish.closed();
    }

    /// The session ended for the reason that `error` says; the next begins after `retry_in`.
    pub fn lost(&self, error: &str, retry_in: Duration) {
        self.closed();
        self.consume.reconnects.increment(1);
        self.publish.reconnects.increment(1);
        let retry_ms = retry_in.as_millis();
        tracing::warn!(error, %retry_ms, "not connected to the broker; trying again");
    }
}

/// The metrics of one connection of one worker. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionMetrics {
    role: Role,
    up: Vote,
    blocked: Vote,
    reconnects: Counter,
}

impl ConnectionMetrics {
    /// The connection is open. `broker` names it without credentials.
    pub fn connected(&self, broker: &str) {
        self.up.set(true);
        self.blocked.set(false);
        tracing::info!(role = self.role.as_str(), broker, "connected");
    }

    /// The broker blocks the connection, for the reason that it gives.
    pub fn blocked(&self, reason: &str) {
        self.blocked.set(true);
        tracing::warn!(
            role = self.role.as_str(),
            reason,
            "the broker blocks publishing; intake waits until it allows it"
        );
    }

    /// The broker allows publishing again.
    pub fn unblocked(&self) {
        self.blocked.set(false);
        tracing::info!(role = self.role.as_str(), "the broker allows publishing again");
    }

    fn closed(&self) {
        self.up.set(false);
        self.blocked.set(false);
    }
}
