//! `leveret run`: ports are bound before work begins; the first signal stops it in good order, a second at once.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::ConfigArgs;
use super::exit::{Exit, Outcome, Stop};
use crate::admin::health::Health;
use crate::admin::server;
use crate::config::{Config, LogFormat};
use crate::domain::ladder::Ladder;
use crate::engine::{Ended, Engine};
use crate::telemetry::{logs, metrics};

pub(super) fn run(args: &ConfigArgs) -> Outcome {
    let config = args.load()?;
    let ladder = Ladder::new(&config.ladder.levels)?;
    logs::init(config.log.format == LogFormat::Json, &config.log.level)
        .map_err(|error| Stop::new(Exit::Configuration, error.to_string()))?;
    let runtime =
        Runtime::new().map_err(|error| Stop::failure(format!("cannot start its threads: {error}")))?;
    let exit = runtime.block_on(serve(config, ladder));
    // A second signal must not wait for tasks that block.
    runtime.shutdown_background();
    Ok(exit)
}

async fn serve(config: Config, ladder: Ladder) -> Exit {
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(error), _) | (_, Err(error)) => {
                error!(%error, "cannot listen for signals");
                return Exit::Failure;
            }
        };
    let exporter = match metrics::install() {
        Ok(exporter) => exporter,
        Err(error) => {
            error!(%error, "cannot set up metrics");
            return Exit::Failure;
        }
    };
    let metrics = Arc::new(metrics::Metrics::new(
        config.workers.into(),
        config.bridges.iter().map(|bridge| bridge.name.as_str()),
        ladder.levels().iter().map(|level| level.label.as_str()),
    ));
    let health = Health::new(config.workers.into());
    let stop = CancellationToken::new();
    let done = CancellationToken::new();
    let _done = done.clone().drop_guard();
    tokio::spawn(exporter.clone().keep_up(done.clone()));
    if let Some(addr) = config.admin.listen {
        match server::bind(addr).await {
            Ok(listener) => {
                info!(%addr, "admin listener: /livez, /readyz and /metrics");
                tokio::spawn(server::serve(listener, health.clone(), exporter, done));
            }
            Err(error) => {
                error!(error = %format_args!("{:#}", anyhow::Error::new(error)), "cannot start");
                return Exit::Configuration;
            }
        }
    }
    info!(
        version = env!("CARGO_PKG_VERSION"),
        bridges = config.bridges.len(),
        workers = config.workers,
        "starting"
    );
    let engine = Engine::new(config, ladder, &health, metrics);
    let running = engine.run(&stop);
    tokio::pin!(running);
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = either(&mut terminate, &mut interrupt) => {
            stop.cancel();
            tokio::select! {
                ended = &mut running => ended,
                () = either(&mut terminate, &mut interrupt) => {
                    warn!("second signal: exiting at once; what is not settled comes again");
                    return Exit::Failure;
                }
            }
        }
    };
    conclude(ended)
}

fn conclude(ended: Ended) -> Exit {
    match ended {
        Ended::Drained => {
            info!("stopped");
            Exit::Success
        }
        Ended::DeadlinePassed => {
            warn!("stopped at the end of the grace period; what is not settled comes again");
            Exit::DeadlinePassed
        }
        Ended::Conflict(conflict) => {
            error!(conflict, "cannot run");
            Exit::Configuration
        }
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
