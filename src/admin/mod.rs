//! Liveness, readiness and metrics over HTTP. Never asks the broker.
