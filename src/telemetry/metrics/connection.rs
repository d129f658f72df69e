//! What happens to a connection to the broker.

use metrics::{Counter, Gauge};

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

/// The metrics of one connection. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionMetrics {
    role: Role,
    up: Gauge,
    blocked: Gauge,
    reconnects: Counter,
}

impl ConnectionMetrics {
    pub(super) fn register(role: Role) -> Self {
        let labels = &[("role", role.as_str())];
        Self {
            role,
            up: gauge(&catalogue::CONNECTION_UP, labels),
            blocked: gauge(&catalogue::CONNECTION_BLOCKED, labels),
            reconnects: counter(&catalogue::RECONNECTS, labels),
        }
    }

    /// The connection is open. `broker` names it without credentials.
    pub fn connected(&self, broker: &str) {
        self.up.set(1.0);
        self.blocked.set(0.0);
        tracing::info!(role = self.role.as_str(), broker, "connected");
    }

    /// The connection was closed on purpose.
    pub fn closed(&self) {
        self.up.set(0.0);
        self.blocked.set(0.0);
    }

    /// The connection was lost or refused, and will be tried again.
    pub fn lost(&self) {
        self.closed();
        self.reconnects.increment(1);
    }

    /// The broker blocks the connection, for the reason that it gives.
    pub fn blocked(&self, reason: &str) {
        self.blocked.set(1.0);
        tracing::warn!(
            role = self.role.as_str(),
            reason,
            "the broker blocks publishing; intake waits until it allows it"
        );
    }

    /// The broker allows publishing again.
    pub fn unblocked(&self) {
        self.blocked.set(0.0);
        tracing::info!(role = self.role.as_str(), "the broker allows publishing again");
    }
}
