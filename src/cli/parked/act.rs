//! `leveret parked retry` and `leveret parked discard`.

use lapin::Channel;
use lapin::message::Delivery;

use super::super::broker;
use super::super::exit::{Exit, Outcome, Stop};
use super::super::output::{counted, note, print};
use super::filter::Filter;
use super::pass::Pass;
use crate::amqp::publisher::{self, Outgoing, Verdict};
use crate::amqp::topology::Names;
use crate::config::Config;
use crate::domain::codec::Codec;
use crate::engine::keys;
use crate::engine::parked::{self, Parked, RetryError};
use crate::engine::wall_clock;

/// A batch is published when it has so many messages, or so many bytes.
const BATCH_MESSAGES: usize = 200;
const BATCH_BYTES: usize = 4 << 20;

/// Removes the messages that match.
pub(super) async fn discard(config: &Config, mut filter: Filter, most_kept: u64) -> Outcome {
    let names = Names::new(&config.namespace);
    let mut pass = Pass::begin(config, most_kept).await?;
    let mut done = 0;
    let mut discarding = async || -> Result<(), Stop> {
        while !filter.is_exhausted() {
            let Some(delivery) = pass.next().await? else { break };
            let parked = Parked::read(&delivery, &names);
            if filter.matches(&parked) {
                filter.met(&parked);
                pass.remove(delivery.delivery_tag).await?;
                done += 1;
            }
        }
        Ok(())
    };
    let ended = discarding().await;
    conclude(pass, "discarded", done, &filter, ended).await
}

/// Publishes the messages that match for another try; each is removed when the broker has confirmed its new copy.
pub(super) async fn retry(config: &Config, mut filter: Filter, most_kept: u64) -> Outcome {
    let mut pass = Pass::begin(config, most_kept).await?;
    // Apart from the connection that acknowledges: the broker may block one that publishes.
    let link = broker::connect(config).await?;
    let mut retrying = Retrying {
        channel: link.confirming_channel().await?,
        names: Names::new(&config.namespace),
        codec: keys::codec(&config.bundle)
            .map_err(|error| Stop::new(Exit::Configuration, error.to_string()))?,
        patience: config.delivery.confirm_timeout,
        batch: Vec::new(),
        bytes: 0,
        done: 0,
        unreadable: None,
    };
    let ended = retrying.through(&mut pass, &mut filter).await;
    let Retrying { done, unreadable, .. } = retrying;
    let all_readable = unreadable.map_or(Ok(()), |(count, error)| {
        let left = counted(count, "message");
        Err(Stop::failure(format!("{left} stayed parked, and cannot be retried {error}")))
    });
    let exit = conclude(pass, "retried", done, &filter, ended.and(all_readable)).await;
    broker::close(link).await;
    exit
}

struct Retrying {
    channel: Channel,
    names: Names,
    codec: Codec,
    patience: std::time::Duration,
    /// Delivery tags and publishes.
    batch: Vec<(u64, Outgoing)>,
    bytes: usize,
    done: u64,
    /// How many cannot be retried, and why the first of them.
    unreadable: Option<(u64, RetryError)>,
}

impl Retrying {
    async fn through(&mut self, pass: &mut Pass, filter: &mut Filter) -> Result<(), Stop> {
        while !filter.is_exhausted() {
            let Some(delivery) = pass.next().await? else { break };
            let parked = Parked::read(&delivery, &self.names);
            if !filter.matches(&parked) {
                continue;
            }
            filter.met(&parked);
            self.add(delivery);
            if self.batch.len() >= BATCH_MESSAGES || self.bytes >= BATCH_BYTES {
                self.publish(pass).await?;
            }
        }
        self.publish(pass).await
    }

    fn add(&mut self, delivery: Delivery) {
        let tag = delivery.delivery_tag;
        match parked::retry(delivery, &self.names, &self.codec, wall_clock()) {
            Ok(outgoing) => {
                self.bytes += outgoing.body.len();
                self.batch.push((tag, outgoing));
            }
            Err(error) => self.unreadable.get_or_insert((0, error)).0 += 1,
        }
    }

    async fn publish(&mut self, pass: &mut Pass) -> Result<(), Stop> {
        self.bytes = 0;
        let (tags, outgoing): (Vec<_>, Vec<_>) = self.batch.drain(..).unzip();
        if outgoing.is_empty() {
            return Ok(());
        }
        let outcome = publisher::publish(&self.channel, &outgoing, self.patience).await;
        for (tag, verdict) in tags.into_iter().zip(&outcome.verdicts) {
            if *verdict == Verdict::Confirmed {
                pass.remove(tag).await?;
                self.done += 1;
            }
        }
        let due = self.names.due();
        let refused = |why: &str| Stop::failure(format!("cannot publish to exchange \"{due}\": {why}"));
        match outcome.failure {
            Some(failure) => Err(Stop::from(failure)),
            None => outcome.verdicts.iter().try_for_each(|verdict| match verdict {
                Verdict::Confirmed => Ok(()),
                Verdict::Returned { .. } => {
                    Err(refused("no queue is bound to it; start Leveret, which binds it"))
                }
                Verdict::Nacked => Err(refused("the due queue refused a message")),
                Verdict::Unknown => Err(refused(
                    "the broker did not confirm in time: it may have a memory or disk alarm, and it may have \
                     messages that stayed parked as well",
                )),
            }),
        }
    }
}

/// Returns what was kept and tells what was done, also where it ended early.
async fn conclude(pass: Pass, verb: &str, done: u64, filter: &Filter, ended: Result<(), Stop>) -> Outcome {
    let cut_short = pass.is_cut_short();
    let returned = pass.end().await;
    print(&format!("{verb} {}\n", counted(done, "message")))?;
    ended?;
    returned?;
    if cut_short {
        note(&"did not look at every parked message: raise --scan to pass over more");
    }
    let missing = filter.missing();
    if missing.is_empty() {
        return Ok(Exit::Success);
    }
    Err(Stop::failure(format!("not found among the parked messages: {}", missing.join(", "))))
}
