//! What is published: messages with JSON bodies, at random moments, a steady number of them a second.

use std::iter;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use leveret::amqp::properties;
use leveret::amqp::topology::Names;
use leveret::bench::load::{Delays, Spread};
use leveret::config::Config;
use leveret::domain::message::Message;
use leveret::domain::time::UnixMillis;
use leveret::engine::dress::{Surroundings, dress};
use ulid::Ulid;

use super::bodies;
use super::simulation::{EPOCH, Publication};

/// All random numbers follow from it.
pub(crate) const SEED: u64 = 1;

/// So many messages differ, and so many delays; then they begin anew. In the largest bundle hardly two are alike.
const VARIANTS: usize = 32_768;

/// The names of the workloads.
pub(crate) const UNIFORM: &str = "1 s to 16 s";
pub(crate) const LOG: &str = "1 s to 1 day";
pub(crate) const EQUAL: &str = "30 min";

/// Messages, each with its delay.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    messages: Vec<(Duration, Message)>,
    /// Bytes that delivery adds to each.
    pub(crate) annotation: usize,
}

impl Workload {
    /// Those that are compared: each delay as likely as any other, each order of magnitude as likely as any other, all
    /// equal.
    pub(crate) fn all() -> Result<[Self; 3]> {
        let secs = Duration::from_secs;
        Ok([
            Self::new(UNIFORM, Delays { from: secs(1), to: secs(16), spread: Spread::Uniform })?,
            Self::log(secs(1), secs(86_400))?,
            Self::new(EQUAL, Delays { from: secs(1_800), to: secs(1_800), spread: Spread::Uniform })?,
        ])
    }

    pub(crate) fn log(from: Duration, to: Duration) -> Result<Self> {
        Self::new(LOG, Delays { from, to, spread: Spread::Log })
    }

    fn new(name: &'static str, delays: Delays) -> Result<Self> {
        fastrand::seed(SEED);
        let drawn = || {
            let delay = Duration::from_millis(delays.pick(Duration::ZERO).as_millis() as u64);
            (delay, message(delay))
        };
        let messages: Vec<_> = iter::repeat_with(drawn).take(VARIANTS).collect();
        let (_, first) = messages.first().context("no messages")?;
        let annotation = annotation(first)?;
        Ok(Self { name, messages, annotation })
    }

    /// The delays of its messages.
    pub(crate) fn delays(&self) -> impl Iterator<Item = Duration> {
        self.messages.iter().map(|(delay, _)| *delay)
    }

    /// Bytes of a body, on average.
    pub(crate) fn body_bytes(&self) -> usize {
        self.messages.iter().map(|(_, message)| message.body.len()).sum::<usize>()
            / self.messages.len().max(1)
    }

    /// Publishes for ever, `rate` messages a second, none of which knows of the others.
    pub(crate) fn publications(&self, rate: u64) -> impl Iterator<Item = Publication> {
        let (mut random, mut at) = (Rng::with_seed(SEED), Duration::ZERO);
        iter::from_fn(move || {
            at += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / rate as f64);
            let (delay, message) = random.choice(&self.messages)?;
            let id = Ulid::from_parts(EPOCH.saturating_add(at).0, random.u128(..));
            Some(Publication { at, delay: *delay, message: Message { id, ..message.clone() } })
        })
    }
}

/// As it comes from an ingress queue, but for its times.
fn message(delay: Duration) -> Message {
    let (routing_key, body) = bodies::any();
    let id = bodies::uuid();
    let mut headers = FieldTable::default();
    let millis = i32::try_from(delay.as_millis()).unwrap_or(i32::MAX);
    headers.insert("x-delay".into(), AMQPValue::LongInt(millis));
    let props = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(2)
        .with_message_id(id.as_str().into())
        .with_timestamp(EPOCH.0 / 1_000)
        .with_headers(headers);
    Message {
        id: Ulid::nil(),
        bridge: "shop".into(),
        exchange: "shop.delayed".into(),
        routing_key: routing_key.into(),
        due: UnixMillis(0),
        left: Duration::ZERO,
        accepted_at: UnixMillis(0),
        hops: 0,
        refused_since: None,
        key: id.into(),
        properties: properties::encode(&props),
        body: body.into(),
    }
}

/// By how many bytes a message grows when it is delivered.
fn annotation(message: &Message) -> Result<usize> {
    let config = Config::default();
    let bridge = config.bridges.first().context("no bridge")?;
    let around =
        Surroundings { names: Names::new(&config.namespace), entries: Vec::new(), frame_max: 128 << 10 };
    let delivery = dress(message, bridge, &around, |_| true).map_err(|why| anyhow!(why.detail))?;
    Ok(properties::encode(&delivery.properties).len().saturating_sub(message.properties.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_published_each_time_at_the_rate_that_was_asked_for() {
        let workload = Workload::log(Duration::from_secs(1), Duration::from_secs(60)).unwrap();
        let published: Vec<_> = workload.publications(1_000).take(50_000).collect();
        let took = published.last().unwrap().at.as_secs_f64();
        assert!((49.0..51.0).contains(&took), "{took}");
        assert!(published.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(workload.delays().all(|delay| (1.0..=60.0).contains(&delay.as_secs_f64())));
        let again = Workload::log(Duration::from_secs(1), Duration::from_secs(60)).unwrap();
        assert!(again.publications(1_000).zip(published).all(|(one, other)| one == other));
    }

    #[test]
    fn delivery_adds_an_id() {
        // Its name and its 26 characters, with their lengths and type.
        assert_eq!(
            annotation(&message(Duration::from_secs(1))).unwrap(),
            1 + "x-leveret-id".len() + 1 + 4 + 26
        );
    }
}
