//! Consumes a queue, and tells the books what comes.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Books, RECONNECT};
use crate::harness::client::{Client, now_ms};

/// Collects through any number of lost connections, until the answer is dropped. Each message takes so long.
pub(crate) fn collect(
    books: &'static impl Books,
    uri: &str,
    queue: &str,
    prefetch: u16,
    each: Duration,
) -> DropGuard {
    let stop = CancellationToken::new();
    let (uri, queue, stopped) = (uri.to_owned(), queue.to_owned(), stop.clone());
    tokio::spawn(async move {
        let collecting = async {
            loop {
                // An error is a lost connection: the broker is away, or was.
                if let Ok(client) = Client::try_connect(&uri).await {
                    tokio::select! {
                        _ = consume(books, &client, &queue, prefetch, each) => {}
                        () = client.lost() => {}
                    }
                }
                tokio::time::sleep(RECONNECT).await;
            }
        };
        stopped.run_until_cancelled(collecting).await
    });
    stop.drop_guard()
}

async fn consume(
    books: &impl Books,
    client: &Client,
    queue: &str,
    prefetch: u16,
    each: Duration,
) -> Result<(), lapin::Error> {
    let channel = client.channel();
    channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?;
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery?;
        books.arrived(&delivery, now_ms());
        if !each.is_zero() {
            tokio::time::sleep(each).await;
        }
        delivery.ack(BasicAckOptions::default()).await?;
    }
    Ok(())
}
