//! One run: declares, publishes and consumes, and makes the report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::Child;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::load::Delays;
use super::publishing::{Publishing, publish};
use super::report::{NO_DELAY, Report, Settings, Usage};
use super::scheme::{Bridge, Scheme, Stage};
use super::tally::Tally;
use super::usage::Watch;
use super::{collecting, progress, relay};
use crate::amqp::connection::{self, ConnectError, Link};
use crate::amqp::failure::Failure;
use crate::amqp::wire;
use crate::config::{AmqpConfig, QueueType};
use crate::domain::duration::compact;

/// Messages that are only to wait are due after this, and up to twice that.
const PENDING_DELAY: Duration = Duration::from_secs(6 * 3_600);

/// How often a run looks whether all have come.
const LOOK: Duration = Duration::from_millis(20);

/// What is started takes so long to find its pace.
const WARM_UP: Duration = Duration::from_secs(2);

/// Costs are taken from the time in which as many messages come as are published, if that is no shorter than this.
const SHORTEST_STEADY: Duration = Duration::from_secs(5);

/// How long what may come twice is waited for.
const DOUBLES: Duration = Duration::from_millis(300);

const CLOSE: Duration = Duration::from_secs(5);

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The broker.
    pub amqp: AmqpConfig,
    /// The same for a process of its own, which the scheme relay needs.
    pub own_process: relay::Origin,
    /// The scheme.
    pub scheme: Scheme,
    /// The bridge, for the scheme leveret.
    pub bridge: Bridge,
    /// Messages to measure.
    pub messages: u64,
    /// Messages a second; zero for as many as the broker confirms.
    pub rate: u64,
    /// Bytes of a body.
    pub size: usize,
    /// The delays.
    pub delays: Delays,
    /// Messages that wait meanwhile.
    pub pending: u64,
    /// The type of the queues that the run declares.
    pub queue_type: QueueType,
    /// The broker's process, where it runs on this machine.
    pub broker_pid: Option<u32>,
    /// Leveret's process, where it runs on this machine.
    pub leveret_pid: Option<u32>,
    /// How long nothing may come, once all is due, before the rest counts as lost.
    pub patience: Duration,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The broker cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The broker refuses what the scheme needs.
    #[error("{0}")]
    Refused(#[from] Failure),
    /// The broker is not what the scheme needs.
    #[error("{0}")]
    Unfit(String),
    /// The relay does not start.
    #[error("cannot start the relay: {0}")]
    Relay(#[from] std::io::Error),
}

/// What several tasks count in.
pub(super) struct Shared(Mutex<Tally>);

impl Shared {
    fn new(messages: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Tally::new(usize::try_from(messages).unwrap_or(usize::MAX)))))
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until all messages have come, or are lost, or `interrupt` is cancelled: then the report is of what was measured
/// so far.
///
/// # Errors
/// Where nothing could be measured.
pub async fn run(plan: &Plan, interrupt: &CancellationToken) -> Result<Report, BenchError> {
    let broker = wire::server(&plan.amqp).await.unwrap_or_else(|_| "unknown".to_owned());
    let publishing = connection::connect(&plan.amqp, "bench, publish", ()).await?;
    let consuming = connection::connect(&plan.amqp, "bench, consume", ()).await?;
    let longest = if plan.pending > 0 { PENDING_DELAY * 2 } else { plan.delays.to + Duration::from_secs(2) };
    let stage = Stage::new(plan.scheme, plan.queue_type, plan.bridge.clone(), longest);
    let mut bench = Bench { plan, stage, broker, shared: Shared::new(plan.messages) };
    let measured = bench.run(&publishing, &consuming, interrupt).await;
    let complete = measured.as_ref().is_ok_and(|report| report.delivered == report.confirmed);
    // What cannot be taken away now can be deleted by hand: the names begin with leveret-bench.
    if let Ok(channel) = consuming.channel().await {
        let _ = bench.stage.tear_down(&channel, complete).await;
    }
    publishing.close(CLOSE).await;
    consuming.close(CLOSE).await;
    measured.map_err(|error| match error {
        BenchError::Refused(failure) => explain(plan, failure),
        error => error,
    })
}

struct Bench<'a> {
    plan: &'a Plan,
    stage: Stage,
    broker: String,
    shared: Arc<Shared>,
}

impl Bench<'_> {
    async fn run(
        &mut self,
        publishing: &Link,
        consuming: &Link,
        interrupt: &CancellationToken,
    ) -> Result<Report, BenchError> {
        self.stage.set_up(&consuming.channel().await?, self.plan.pending > 0).await?;
        self.measure(publishing, consuming, interrupt).await
    }

    async fn measure(
        &mut self,
        publishing: &Link,
        consuming: &Link,
        interrupt: &CancellationToken,
    ) -> Result<Report, BenchError> {
        let plan = self.plan;
        let mut relay = self.start_relay()?;
        // To wait for its end would close it, and so bring that about.
        let _input = relay.as_mut().and_then(|relay| relay.stdin.take());
        let before = Watch::begin(plan.broker_pid, relay.as_ref().map_or(plan.leveret_pid, Child::id));
        self.fill(publishing, interrupt).await?;
        let channel = consuming.channel().await?;
        let consumer = collecting::consume(&channel, &self.stage.queue).await?;
        let watch = before.anew(0);
        let what = Publishing {
            stage: &self.stage,
            queue: &self.stage.queue,
            delays: plan.delays,
            messages: plan.messages,
            rate: plan.rate,
            size: plan.size,
        };
        let confirming = publishing.confirming_channel().await?;
        // A task of its own: what it notes must not wait for what is published.
        let collecting = tokio::spawn(collecting::collect(channel, consumer, self.shared.clone()));
        let mut collecting = AbortOnDropHandle::new(collecting);
        let (started, mut took, mut steady) = (Instant::now(), Duration::ZERO, None);
        let all = async {
            let publishing = publish(&confirming, what, Some(&self.shared), interrupt);
            tokio::pin!(publishing);
            tokio::select! {
                published = &mut publishing => published?,
                begun = self.steady(&watch, started) => {
                    publishing.await?;
                    steady = Some(begun.end(self.shared.tally().count_delivered()));
                }
            }
            took = started.elapsed();
            self.last().await;
            Ok(())
        };
        let name = plan.scheme.name();
        let ended = tokio::select! {
            ended = all => ended,
            ended = &mut collecting => ended.unwrap_or_else(|error| Err(Failure::Connection(error.to_string()))),
            () = end_of(relay.as_mut()) => Err(Failure::Connection("the relay has ended".to_owned())),
            () = progress::tell(&self.shared, name, plan.messages) => Ok(()),
            () = interrupt.cancelled() => Ok(()),
        };
        progress::done();
        ended?;
        let took = if took.is_zero() { started.elapsed() } else { took };
        let delivered = self.shared.tally().count_delivered();
        let costs = steady.unwrap_or_else(|| watch.end(delivered));
        Ok(self.report(took, interrupt.is_cancelled(), before.end(delivered).with_costs_of(costs)))
    }

    /// Waits until as many messages come as are published, where the run is long enough for that to last.
    async fn steady(&self, watch: &Watch, started: Instant) -> Watch {
        let plan = self.plan;
        let longest = if plan.scheme.delays() { plan.delays.to } else { Duration::ZERO };
        let from = longest + WARM_UP;
        let publishing = Duration::from_secs_f64(plan.messages as f64 / plan.rate.max(1) as f64);
        if plan.rate == 0 || publishing < from + SHORTEST_STEADY {
            return std::future::pending().await;
        }
        sleep_until(started + from).await;
        watch.anew(self.shared.tally().count_delivered())
    }

    fn start_relay(&self) -> Result<Option<Child>, BenchError> {
        if self.plan.scheme != Scheme::Relay {
            return Ok(None);
        }
        Ok(Some(relay::start(&self.plan.own_process, &self.stage.relayed, &self.stage.queue)?))
    }

    /// Publishes what is only to wait.
    async fn fill(&self, link: &Link, interrupt: &CancellationToken) -> Result<(), Failure> {
        let spread = super::load::Spread::Uniform;
        let what = Publishing {
            stage: &self.stage,
            queue: &self.stage.pending,
            delays: Delays { from: PENDING_DELAY, to: PENDING_DELAY * 2, spread },
            messages: self.plan.pending,
            rate: 0,
            size: self.plan.size,
        };
        let shared = Shared::new(0);
        let channel = link.confirming_channel().await?;
        tokio::select! {
            ended = publish(&channel, what, Some(&shared), interrupt) => ended?,
            () = progress::tell(&shared, "filling", self.plan.pending) => {}
        }
        progress::done();
        Ok(())
    }

    /// Waits until every confirmed message has come, or nothing has come for too long.
    async fn last(&self) {
        let mut before = 0;
        let mut deadline = Instant::now() + self.plan.delays.to + self.plan.patience;
        loop {
            let (delivered, all) = {
                let tally = self.shared.tally();
                (
                    tally.count_delivered(),
                    tally.count_delivered() >= tally.count_confirmed() && tally.count_lost() == 0,
                )
            };
            let now = Instant::now();
            if all || now > deadline {
                // What comes twice may come a little later.
                return sleep(DOUBLES).await;
            }
            if delivered > before {
                before = delivered;
                deadline = deadline.max(now + self.plan.patience);
            }
            sleep(LOOK).await;
        }
    }

    fn report(&self, took: Duration, interrupted: bool, usage: Usage) -> Report {
        let plan = self.plan;
        let tally = self.shared.tally();
        Report {
            scheme: plan.scheme.name().to_owned(),
            broker: self.broker.clone(),
            leveret: env!("CARGO_PKG_VERSION").to_owned(),
            settings: Settings {
                messages: plan.messages,
                rate: plan.rate,
                size: plan.size,
                delay: delay_text(plan),
                spread: plan.delays.spread.name().to_owned(),
                pending: plan.pending,
                queue_type: plan.queue_type.as_str().to_owned(),
            },
            interrupted,
            published: tally.count_published(),
            confirmed: tally.count_confirmed(),
            publish_rate: tally.count_confirmed() as f64 / took.as_secs_f64().max(1e-9),
            delivered: tally.count_delivered(),
            delivery_rate: tally.delivery_rate(),
            // What had not come when it was interrupted need not be lost.
            lost: if interrupted { 0 } else { tally.count_lost() },
            duplicates: tally.count_duplicates(),
            early: tally.count_early(),
            drained_ms: tally.drained_ms(),
            lateness_ms: tally.lateness(),
            usage,
            timeline: tally.timeline(),
            distribution: tally.distribution(),
        }
    }
}

/// Waits for the end of a process; for ever where there is none.
async fn end_of(process: Option<&mut Child>) {
    match process {
        // What it returns is how it ended, or that nobody can tell: it is gone either way.
        Some(process) => drop(process.wait().await),
        None => std::future::pending().await,
    }
}

fn delay_text(plan: &Plan) -> String {
    if plan.scheme.delays() {
        format!("{}..{}", compact(plan.delays.from), compact(plan.delays.to))
    } else {
        NO_DELAY.to_owned()
    }
}

/// Says what to do about a refusal that has a likely reason.
fn explain(plan: &Plan, failure: Failure) -> BenchError {
    match (plan.scheme, &failure) {
        (Scheme::Plugin, _) => BenchError::Unfit(format!(
            "{failure}: the scheme plugin needs a broker with the plugin rabbitmq_delayed_message_exchange"
        )),
        (Scheme::Leveret, Failure::Channel { code: 404 | 312, .. }) => BenchError::Unfit(format!(
            "{failure}: is Leveret running on this broker, with exchange \"{}\" as a bridge's entry?",
            plan.bridge.entry
        )),
        _ => failure.into(),
    }
}
