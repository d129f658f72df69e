//! Leveret gives any stock RabbitMQ delayed messages.
//!
//! The folders are the architecture, and dependencies flow one way:
//!
//! - [`domain`]: due time, ladder, plan, bundle. Pure: no AMQP client, no HTTP, no clock.
//! - [`config`]: one YAML file, read and checked.
//! - [`amqp`]: connections, topology, audit, consuming, publishing.
//! - [`engine`]: joins the domain and AMQP: intake, packing, holding, delivery, settling.
//! - [`management`]: RabbitMQ's management API, for auditing policies and measuring queues.
//! - [`admin`]: liveness, readiness and metrics over HTTP.
//! - [`tls`]: certificates and keys, for AMQP and the management API; what a failed handshake means.
//! - [`telemetry`]: names every metric, sets up logs.
//! - [`mod@bench`]: measuring, for the command `bench`.
//! - [`cli`]: the commands.
//!
//! And `crash_point`, by which tests let it crash at named moments, in debug builds only.

pub mod admin;
pub mod amqp;
pub mod bench;
pub mod cli;
pub mod config;
mod crash_point;
pub mod domain;
pub mod engine;
pub mod management;
pub mod telemetry;
pub mod tls;
