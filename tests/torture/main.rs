//! The torture test: a load on three replicas while everything breaks that can, one thing after another and several at
//! once. At the end, what was confirmed must have come, and nothing early.
//!
//! `make torture` runs it for as long as asked, `cargo test` in a short form: see `settings`. It runs on a cluster of
//! three nodes where RabbitMQ is of the 4 series, and on a single one where not. Of a broker that is somebody else's,
//! only what is Leveret's breaks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first thing that it did not expect, and says so"
)]

#[allow(dead_code, reason = "the integration tests need more of it")]
#[path = "../it/harness/mod.rs"]
mod harness;
mod record;
mod replica;
mod report;
mod schedule;
mod settings;
mod stage;
mod traffic;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use tokio::runtime::Handle;

use harness::blocking;
use harness::broker::Broker;
use harness::ledger::Load;
use harness::runner::{Case, Suite, cases};
use record::Record;
use report::Report;
use schedule::{Step, schedule};
use settings::Settings;
use stage::Stage;
use traffic::BRIDGES;

const CASES: &[Case] = cases![shared: nothing_is_lost_and_nothing_early];

/// Longer than the 180 seconds after which the broker tries a dead letter that was refused again.
const SETTLE_LIMIT: Duration = Duration::from_secs(240);
/// To start, to settle and to stop.
const BESIDES: Duration = Duration::from_secs(20 * 60);

/// A test's name is that of its function.
macro_rules! units {
    ($($module:ident: $($test:ident),*;)*) => {
        vec![$($(
            Trial::test(concat!(stringify!($module), "::", stringify!($test)), || {
                $module::tests::$test();
                Ok(())
            }),
        )*)*]
    };
}

fn main() -> ExitCode {
    let units = units![
        schedule: a_seed_decides_everything, faults_are_in_order_and_within_the_run,
            every_kind_comes_before_any_comes_again, only_what_is_there_breaks, the_short_run_has_every_kind,
            some_faults_strike_together;
        report: what_came_in_time_is_no_failure, what_was_confirmed_and_did_not_come_is_lost,
            a_millisecond_too_soon_is_early, nothing_published_is_a_failure,
            only_a_fault_in_its_life_explains_a_double, lateness_is_told_apart_by_what_broke_meanwhile;
    ];
    let limit = Settings::read().pace.length + BESIDES;
    // One after another: each has brokers and replicas enough for this machine.
    Suite { modules: vec![CASES], units, threads: 1, limit }.run()
}

async fn nothing_is_lost_and_nothing_early(broker: &Broker) {
    let Settings { seed, pace, per_second, longest_delay_ms } = Settings::read();
    let record = Record::open();
    let stage = Stage::set(broker, record).await;
    let world = stage.world();
    let steps = schedule(seed, world, &pace);
    println!(
        "RabbitMQ {}.{}: seed {seed}, {} s, {} messages a second with delays of up to {} s, {} replicas, {} nodes of \
         our own, {} faults to come",
        broker.version().0,
        broker.version().1,
        pace.length.as_secs(),
        per_second,
        longest_delay_ms / 1_000,
        world.replicas,
        world.nodes,
        steps.len()
    );
    let loads: Vec<_> = BRIDGES
        .iter()
        .zip(seed..)
        .map(|(bridge, seed)| {
            let drafts = bridge.drafts(seed, longest_delay_ms);
            Load::start(record, stage.uri(), bridge.share(per_second), drafts)
        })
        .collect();
    play(&stage, &steps, pace.length);
    for load in loads {
        load.stop().await;
    }
    record.settle(SETTLE_LIMIT).await;
    let report = Report::of(&record.pages(), &stage.incidents());
    println!("{report}");
    let failures = report.failures();
    if !failures.is_empty() {
        println!("what waits   {:?}", stage.depths());
    }
    assert!(failures.is_empty(), "seed {seed}: {failures:#?}");
    stage.strike().await;
}

/// Does each step at its time, and ends when all is well again, after `length` at the earliest.
fn play(stage: &Stage<'_>, steps: &[Step], length: Duration) {
    let (began, runtime) = (Instant::now(), Handle::current());
    let wait_until = |at: Duration| std::thread::sleep(at.saturating_sub(began.elapsed()));
    blocking(|| {
        // A fault blocks for as long as a broker takes to start; others must strike meanwhile.
        std::thread::scope(|scope| {
            for step in steps {
                wait_until(step.at);
                scope.spawn(|| runtime.block_on(stage.suffer(*step)));
            }
            wait_until(length);
        });
    });
}
