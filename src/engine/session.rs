//! One session: from connecting to the loss of a connection, or to a graceful end. It holds nothing that the broker
//! does not have: whatever is unsettled when it ends comes again in the next.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info};

use super::budget::Budget;
use super::dispatch::{Dispatcher, LinkLost};
use super::dress::Surroundings;
use super::flow::{Flow, Setting};
use super::keys::{self, KeyError};
use super::source::{Arrival, Kind, Signals, Source};
use super::users::Users;
use super::worker::Worker;
use super::{Shared, watch};
use crate::admin::health::Condition;
use crate::amqp::connection::{self, ConnectError, Link, SharedLink};
use crate::amqp::failure::Failure;
use crate::amqp::topology::{DeclareError, Names};
use crate::domain::codec::Codec;
use crate::domain::due::DueRules;
use crate::domain::packer::{Limits, Packer, Stay};
use crate::domain::prefetch::Prefetch;
use crate::telemetry::metrics::{Role, Share};

/// How long closing a connection in good order may take.
const CLOSE: Duration = Duration::from_secs(2);

/// Why a session ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What Leveret needs in the broker cannot be declared.
    #[error(transparent)]
    Declare(#[from] DeclareError),
    /// Policies would break Leveret's queues.
    #[error("policies would break Leveret's queues:\n{0}")]
    Policies(String),
    /// Bundles cannot be read or written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What Leveret needs in the broker is no longer as it was declared.
    #[error("{0}; declaring everything anew")]
    Topology(String),
    /// A connection is gone.
    #[error("{0}")]
    Lost(String),
    /// A message in an ingress queue cannot be read, and will come again.
    #[error("{0}")]
    Unreadable(String),
}

impl From<LinkLost> for SessionError {
    fn from(LinkLost(text): LinkLost) -> Self {
        Self::Lost(text)
    }
}

impl From<Failure> for SessionError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreadable(_) => Self::Unreadable(failure.to_string()),
            _ => Self::Lost(failure.to_string()),
        }
    }
}

/// Runs one session. `Ok` means that it was asked to stop and has settled everything.
pub(super) async fn run(worker: &Worker, drain: &CancellationToken) -> Result<(), SessionError> {
    let codec = Arc::new(keys::codec(&worker.shared.config.bundle)?);
    // Before a queue is consumed there is nothing to settle: a stop need not wait for a broker that does not answer.
    let links = tokio::select! {
        links = prepare(worker) => links?,
        () = drain.cancelled() => return Ok(()),
    };
    serve(worker, &links, codec, drain).await?;
    info!("everything is settled");
    links.close().await;
    Ok(())
}

/// Connects, declares and audits.
async fn prepare(worker: &Worker) -> Result<Links, SessionError> {
    let Worker { shared, health, .. } = worker;
    let began = Instant::now();
    let links = Links::connect(worker).await?;
    health.set(Condition::Connected, true);
    shared.topology.declare(&links.consume.channel().await?).await?;
    shared.audit.unless_done_since(began, audit(shared, &links.consume)).await?;
    health.set(Condition::Declared, true);
    health.note(None);
    Ok(links)
}

async fn audit(shared: &Shared, link: &Link) -> Result<(), SessionError> {
    let conflicts = watch::audit(shared, link.endpoint()).await;
    if conflicts.is_empty() {
        return Ok(());
    }
    let all: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
    Err(SessionError::Policies(all.join("\n")))
}

async fn serve(
    worker: &Worker,
    links: &Links,
    codec: Arc<Codec>,
    drain: &CancellationToken,
) -> Result<(), SessionError> {
    // Nothing of a session outlives it: dropping the set ends its tasks, and the links close behind them.
    let mut sources = JoinSet::new();
    let finish = CancellationToken::new();
    let (arrive, arrivals) = mpsc::unbounded_channel();
    let signals = Signals { drain: drain.child_token(), finish: finish.clone() };
    start_sources(worker, &links.consume, &codec, &arrive, &signals, &mut sources);
    // The flow ends when the last source has dropped its end.
    drop(arrive);

    let flow = flow(&worker.shared, &links.publish, codec).run(arrivals, links.publish.lost());
    let watching = async {
        let _turn = worker.shared.watching.lock().await;
        watch::run(&worker.shared, &links.consume).await;
    };
    tokio::pin!(flow, watching);
    loop {
        tokio::select! {
            ended = &mut flow => {
                ended?;
                break;
            }
            Some(source) = sources.join_next() => source_ended(source)?,
            () = cancelled(&links.consume) => return Err(links.consume.loss().into()),
            () = &mut watching => {}
        }
    }
    finish.cancel();
    while let Some(source) = sources.join_next().await {
        source_ended(source)?;
    }
    Ok(())
}

fn source_ended(source: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), SessionError> {
    source
        .map_err(|error| SessionError::Lost(format!("consuming failed: {error}")))?
        .map_err(SessionError::from)
}

async fn cancelled(link: &Link) {
    link.lost().cancelled().await;
}

struct Links {
    consume: SharedLink,
    publish: SharedLink,
}

impl Links {
    /// Two connections: a broker that is short of memory or disk blocks those that publish, and the client then
    /// stops all that is written to them, acknowledgements too.
    async fn connect(worker: &Worker) -> Result<Self, ConnectError> {
        let amqp = &worker.shared.config.amqp;
        let open = async |role: Role| {
            let observer = worker.connections.role(role).clone();
            connection::connect(amqp, &worker.purpose(role), observer).await.map(Arc::new)
        };
        Ok(Self { consume: open(Role::Consume).await?, publish: open(Role::Publish).await? })
    }

    async fn close(self) {
        for link in [self.publish, self.consume] {
            if let Ok(link) = Arc::try_unwrap(link) {
                link.close(CLOSE).await;
            }
        }
    }
}

fn start_sources(
    worker: &Worker,
    link: &SharedLink,
    codec: &Arc<Codec>,
    arrivals: &UnboundedSender<Arrival>,
    signals: &Signals,
    sources: &mut JoinSet<Result<(), Failure>>,
) {
    let Worker { shared, consuming, .. } = worker;
    let config = &shared.config;
    let names = Names::new(&config.namespace);
    let budget = Budget::of(config);
    let mut start = |queue: String, kind: Kind, prefetch: Prefetch, unsettled: Share| {
        let source = Source {
            link: link.clone(),
            topology: shared.topology.clone(),
            queue,
            kind,
            prefetch,
            consuming: consuming.follow(),
            unsettled,
        };
        sources.spawn(source.run(arrivals.clone(), signals.clone()).in_current_span());
    };
    let metrics = &shared.metrics;
    start(names.due(), Kind::Due { codec: codec.clone() }, budget.due, metrics.unsettled_due());
    for bridge in &config.bridges {
        let rules = DueRules { default_delay: bridge.default_delay, max_delay: config.max_delay };
        let kind = Kind::Ingress { bridge: bridge.name.as_str().into(), rules };
        let unsettled = metrics.bridge(&bridge.name).unsettled();
        start(names.ingress(&bridge.name), kind, budget.ingress.clone(), unsettled);
    }
}

fn flow(shared: &Shared, link: &SharedLink, codec: Arc<Codec>) -> Flow {
    let config = &shared.config;
    let setting = Setting {
        ladder: shared.ladder.clone(),
        bridges: config.bridges.iter().map(|bridge| (bridge.name.clone(), bridge.clone())).collect(),
        delivery: config.delivery.clone(),
        around: Surroundings {
            names: Names::new(&config.namespace),
            entries: config.bridges.iter().map(|bridge| bridge.entry.exchange.clone()).collect(),
            frame_max: link.frame_max(),
        },
        codec,
        held: shared.metrics.held(),
        metrics: shared.metrics.clone(),
        steps: shared.steps.clone(),
        max_open: Budget::of(config).open,
    };
    let limits = Limits { max_messages: config.bundle.max_messages, max_bytes: config.bundle.max_bytes };
    let levels = shared.ladder.levels().iter().map(Stay::in_level).collect();
    let packer = Packer::new(limits, Stay::DUE, levels);
    let users = Users::new(&link.endpoint().username);
    Flow::new(setting, users, packer, Dispatcher::new(link.clone(), config.delivery.confirm_timeout))
}
