//! Everything that touches the AMQP client: connections, topology, audit, consuming, publishing.

pub mod connection;
pub mod failure;
pub mod permissions;
pub mod properties;
pub mod publisher;
pub mod sieve;
pub mod topology;
pub mod wire;
