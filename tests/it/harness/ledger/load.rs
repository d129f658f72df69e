//! Publishes drafts at a rate, with the confirms pipelined, through any number of lost connections.

use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::{Confirmation, PublisherConfirm};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Books, Draft, RECONNECT};
use crate::harness::client::Client;

const TICK: Duration = Duration::from_millis(10);
/// For the confirms that are out when the load ends. A broker in alarm gives none.
const CONFIRM_LIMIT: Duration = Duration::from_secs(60);

/// A load in progress; it ends with its drafts, or when it is stopped.
pub(crate) struct Load {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Load {
    /// Publishes to the virtual host at `uri`, so many messages a second.
    pub(crate) fn start(
        books: &'static impl Books,
        uri: &str,
        per_second: u32,
        drafts: impl Iterator<Item = Draft> + Send + 'static,
    ) -> Self {
        let stop = CancellationToken::new();
        let (uri, stopped) = (uri.to_owned(), stop.clone());
        let task = tokio::spawn(async move {
            let mut drafts = drafts.peekable();
            while !stopped.is_cancelled() && drafts.peek().is_some() {
                // An error is a lost connection: the broker is away, or was.
                if let Ok(client) = Client::try_connect(&uri).await {
                    tokio::select! {
                        _ = publish(books, &client, per_second, &mut drafts, &stopped) => {}
                        () = client.lost() => {}
                    }
                }
                tokio::time::sleep(RECONNECT).await;
            }
        });
        Self { stop, task }
    }

    /// Publishes no more, and waits for the confirms that are out.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.finish().await;
    }

    /// Waits until all drafts are published and confirmed.
    pub(crate) async fn finish(self) {
        self.task.await.unwrap();
    }
}

async fn publish(
    books: &'static impl Books,
    client: &Client,
    per_second: u32,
    drafts: &mut impl Iterator<Item = Draft>,
    stop: &CancellationToken,
) -> Result<(), lapin::Error> {
    let (sender, confirms) = mpsc::unbounded_channel();
    let confirming = tokio::spawn(confirm(books, confirms));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let per_tick = f64::from(per_second) * TICK.as_secs_f64();
    let mut owed = 0.0;
    'all: loop {
        if stop.run_until_cancelled(ticks.tick()).await.is_none() {
            break;
        }
        owed += per_tick;
        while owed >= 1.0 {
            owed -= 1.0;
            let Some(draft) = drafts.next() else { break 'all };
            let (number, draft) = books.publishing(draft);
            let Draft { exchange, routing_key, properties, body, .. } = draft;
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let publishing = client.channel().basic_publish(
                exchange.as_str().into(),
                routing_key.as_str().into(),
                options,
                &body,
                properties,
            );
            // A blocked connection writes nothing, and may then be told to stop.
            let Some(confirm) = stop.run_until_cancelled(publishing).await else { break 'all };
            let _ = sender.send((number, confirm?));
        }
    }
    drop(sender);
    let _ = tokio::time::timeout(CONFIRM_LIMIT, confirming).await;
    Ok(())
}

async fn confirm(books: &impl Books, mut confirms: mpsc::UnboundedReceiver<(usize, PublisherConfirm)>) {
    while let Some((number, confirm)) = confirms.recv().await {
        match confirm.await {
            Ok(confirmation) => {
                if confirmation == Confirmation::Ack(None) {
                    books.confirmed(number);
                } else {
                    books.refused(number, &confirmation);
                }
            }
            Err(_lost_with_its_connection) => {}
        }
    }
}
