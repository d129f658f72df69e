//! Integration tests: the real binary against real brokers, which the tests start and stop themselves.
//!
//! `harness` owns everything that is not a test. A test is an `async fn(&'static Broker)`, listed in its module's
//! `CASES`, and runs once for each selected broker (see `harness::settings`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first thing that it did not expect, and says so"
)]

mod backlog;
mod broker_faults;
mod bulk;
mod connections;
mod crashes;
mod fidelity;
mod graceful_stop;
mod harness;
mod harness_on_brokers;
mod ladder_change;
mod lost_queues;
mod ordering;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut modules = vec![
        harness_on_brokers::CASES,
        backlog::CASES,
        broker_faults::CASES,
        bulk::CASES,
        connections::CASES,
        crashes::CASES,
        graceful_stop::CASES,
        ladder_change::CASES,
        lost_queues::CASES,
        ordering::CASES,
    ];
    modules.extend(fidelity::CASES);
    harness::runner::run(&modules)
}
