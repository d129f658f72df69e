//! RabbitMQ's management API: what policies are in force and how full queues are. Only reads, and no message ever waits
//! for it: Leveret runs without it where it is not configured.

pub mod audit;
mod client;
mod configured;
mod error;
#[cfg(test)]
mod fake;
mod model;
mod tls;
mod url;

pub use self::client::ManagementClient;
pub use self::error::ManagementError;
pub use self::model::{Overview, Policy, QueueInfo, User};
