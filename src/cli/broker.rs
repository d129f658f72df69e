//! The way of a command to the broker: one connection, one thread.

use std::time::Duration;

use super::exit::{Outcome, Stop};
use crate::amqp::connection::{self, Link};
use crate::config::Config;

/// How long closing a connection in good order may take.
const CLOSE: Duration = Duration::from_secs(5);

/// Runs a command that speaks with the broker.
pub(super) fn run(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::failure(format!("cannot start: {error}")))?
        .block_on(command)
}

/// A connection for a command.
pub(super) async fn connect(config: &Config) -> Result<Link, Stop> {
    Ok(connection::connect(&config.amqp, "cli", ()).await?)
}

/// Closes a connection, so that the broker has handled all that was sent.
pub(super) async fn close(link: Link) {
    link.close(CLOSE).await;
}
