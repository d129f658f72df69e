//! Liveness, readiness and metrics over HTTP. Never asks the broker.

pub mod check;
pub mod health;
pub mod server;
