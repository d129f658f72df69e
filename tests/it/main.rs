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

mod admin;
mod backlog;
mod bad_targets;
mod bench;
mod broker_faults;
mod bulk;
mod clocks;
mod clusters;
mod config_and_cli;
mod connections;
mod consuming;
mod crash_points;
mod crashes;
mod fidelity;
mod graceful_stop;
mod harness;
mod harness_on_brokers;
mod hostile;
mod ladder_change;
mod least_privilege;
mod lost_queues;
mod moving;
mod ordering;
mod parked;
mod policies;
mod policy_effects;
mod secrets;
mod silent_targets;
mod tenants;
mod tls;
mod unreadable_messages;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Trial;

const TEST_LIMIT: Duration = Duration::from_secs(300);
/// Tests mostly wait, but each may have a broker and several sidecars to itself.
const THREADS: usize = 3;

fn main() -> ExitCode {
    let mut modules = vec![
        harness_on_brokers::CASES,
        admin::CASES,
        backlog::CASES,
        bad_targets::CASES,
        bench::CASES,
        broker_faults::CASES,
        bulk::CASES,
        clocks::CASES,
        clusters::CASES,
        config_and_cli::CASES,
        connections::CASES,
        consuming::CASES,
        crashes::CASES,
        graceful_stop::CASES,
        ladder_change::CASES,
        least_privilege::CASES,
        lost_queues::CASES,
        moving::CASES,
        ordering::CASES,
        parked::CASES,
        policies::CASES,
        policy_effects::CASES,
        secrets::CASES,
        silent_targets::CASES,
        tenants::CASES,
        tls::CASES,
        unreadable_messages::CASES,
        workers::CASES,
    ];
    modules.extend(fidelity::CASES);
    modules.extend(hostile::CASES);
    // Only debug builds have the points.
    if cfg!(debug_assertions) {
        modules.extend([crash_points::CASES, secrets::CRASHES]);
    }
    let units = vec![Trial::test("secrets::commands_tell_no_secret", || {
        secrets::commands_tell_no_secret();
        Ok(())
    })];
    harness::runner::Suite { modules, units, threads: THREADS, limit: TEST_LIMIT }.run()
}
