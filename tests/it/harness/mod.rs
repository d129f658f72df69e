//! What every integration test stands on: brokers, clients, a proxy, the running sidecar, and the runner of tests.

pub(crate) mod broker;
pub(crate) mod certificates;
pub(crate) mod cli;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod http;
pub(crate) mod ledger;
#[allow(dead_code, reason = "the end-to-end tests drive the sidecar; the harness's own tests do not")]
pub(crate) mod leveret;
pub(crate) mod management;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod neighbour;
pub(crate) mod node;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod runner;
pub(crate) mod settings;
pub(crate) mod table;
pub(crate) mod tls_node;
mod users;
pub(crate) mod vhost;

use std::time::{Duration, Instant};

/// Looks until `look` sees something, at most `limit`; panics with `what` when it never does.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(started.elapsed() < limit, "waited {limit:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs something that blocks inside an async test, without holding up the test's other tasks.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}
