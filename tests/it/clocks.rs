//! Wall clocks that are wrong, and that are set while messages wait. Nothing is lost or doubled, no wait is lengthened, and
//! nothing is early by more than the clock is wrong.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::clock::Clock;
use crate::harness::ledger::{Ledger, Load, Report, declare_target, random_delays};
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, wait_for_metric};
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: a_wrong_clock_by_itself_is_exact, a_clock_that_is_ahead_of_anothers, a_clock_that_is_behind_anothers,
        a_clock_is_set_forward_while_messages_wait, a_clock_is_set_back_while_messages_wait
];

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600_000;

/// What one clock decides, the same one measures.
async fn a_wrong_clock_by_itself_is_exact(broker: &Broker) {
    for off_by_ms in [HOUR_MS, -HOUR_MS] {
        let (vhost, clock) = (broker.create_vhost(), Clock::off_by(off_by_ms));
        let uri = vhost.uri();
        declare_target(&uri, "q").await;
        let _leveret = Setup::new(&uri).clock(&clock).start().await;
        let report = loaded(&uri, async || {}).await;
        report.exactly_once(&format!("a clock that is {off_by_ms} ms off"));
    }
}

async fn a_clock_that_is_ahead_of_anothers(broker: &Broker) {
    beside_a_right_one(broker, [2 * SECOND_MS, HOUR_MS]).await;
}

async fn a_clock_that_is_behind_anothers(broker: &Broker) {
    beside_a_right_one(broker, [-2 * SECOND_MS, -HOUR_MS]).await;
}

/// What one clock decides, often the other measures.
async fn beside_a_right_one(broker: &Broker, errors_ms: [i64; 2]) {
    for off_by_ms in errors_ms {
        let (vhost, clock) = (broker.create_vhost(), Clock::off_by(off_by_ms));
        let uri = vhost.uri();
        declare_target(&uri, "q").await;
        let _right = Leveret::start(&uri, "").await;
        let _wrong = Setup::new(&uri).clock(&clock).start().await;
        let name = format!("a clock that is {off_by_ms} ms off, and a right one");
        let report = loaded(&uri, async || {}).await;
        let report = report.nothing_lost_and_early_by_at_most(&name, off_by_ms.abs());
        assert_eq!(report.doubles, 0, "{name}: doubles");
        assert!(!report.early.is_empty(), "{name}: nothing was early, so both clocks were right");
    }
}

/// What a clock says that was set forward has come. What was left when it was set may be missing, and no more.
async fn a_clock_is_set_forward_while_messages_wait(broker: &Broker) {
    set_while_messages_wait(broker, "forward", [2 * SECOND_MS, HOUR_MS]).await;
}

/// What was waited before a clock was set back is not waited again.
async fn a_clock_is_set_back_while_messages_wait(broker: &Broker) {
    set_while_messages_wait(broker, "back", [-2 * SECOND_MS, -HOUR_MS]).await;
}

async fn set_while_messages_wait(broker: &Broker, direction: &str, steps_ms: [i64; 2]) {
    let (vhost, clock) = (broker.create_vhost(), Clock::off_by(0));
    let uri = vhost.uri();
    declare_target(&uri, "q").await;
    let leveret = Setup::new(&uri).clock(&clock).start().await;
    let mut off_by_ms = 0;
    for (step_ms, seen) in steps_ms.into_iter().zip([1.0, 2.0]) {
        off_by_ms += step_ms;
        let name = format!("a clock set {direction} by {} ms", step_ms.abs());
        let report = loaded(&uri, async || clock.set_off_by(off_by_ms)).await;
        let report = report.nothing_lost_and_early_by_at_most(&name, step_ms.max(0));
        assert_eq!(report.doubles, 0, "{name}: doubles");
        wait_for_metric(&leveret, "leveret_clock_steps_total", &[("direction", direction)], seen).await;
    }
    let report = loaded(&uri, async || {}).await;
    if !report.lost.is_empty() {
        println!("what waits: {:?}", vhost.depths());
    }
    report.exactly_once(&format!("a clock that was set {direction}"));
}

/// Publishes for a while, does something meanwhile, and waits for what comes.
async fn loaded(uri: &str, meanwhile: impl AsyncFnOnce()) -> Report {
    const HALF: Duration = Duration::from_millis(1_500);
    let ledger = Ledger::open();
    let _collecting = ledger.collect(uri, "q");
    let load = Load::start(ledger, uri, 150, random_delays("q", 0..6_000));
    tokio::time::sleep(HALF).await;
    meanwhile().await;
    tokio::time::sleep(HALF).await;
    load.stop().await;
    ledger.close(LIMIT).await
}
