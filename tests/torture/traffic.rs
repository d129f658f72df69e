//! What is published: to which bridge, how long it waits, how large it is.

use fastrand::Rng;
use lapin::BasicProperties;

use crate::harness::ledger::Draft;

/// A bridge and its part of the load.
#[derive(Debug)]
pub(crate) struct Bridge {
    /// Also that of the queue where its messages come out.
    pub(crate) name: &'static str,
    entry: &'static str,
    routing_key: &'static str,
    /// Of all messages.
    percent: u32,
    /// Whether its target breaks. Only then may messages be parked, and may they come as late as they will.
    pub(crate) is_fragile: bool,
}

pub(crate) const BRIDGES: [Bridge; 3] = [
    Bridge {
        name: "orders",
        entry: "orders.delayed",
        routing_key: "orders.eu",
        percent: 50,
        is_fragile: false,
    },
    Bridge { name: "mail", entry: "mail.delayed", routing_key: "mail", percent: 40, is_fragile: false },
    Bridge { name: FRAGILE, entry: "fragile.delayed", routing_key: FRAGILE, percent: 10, is_fragile: true },
];

/// The bridge whose target breaks, its target exchange and its queue.
pub(crate) const FRAGILE: &str = "fragile";

/// Several kinds of entries and of targets.
pub(crate) const CONFIG: &str = r#"
amqp: { heartbeat: 5s }
bridges:
  - name: orders
    entry: { exchange: orders.delayed }
    target: { exchange: orders }
  - name: mail
    entry: { exchange: mail.delayed, type: fanout }
    target: { exchange: "" }
  - name: fragile
    entry: { exchange: fragile.delayed, type: direct, keys: [fragile] }
    target: { exchange: fragile }
"#;

const KIB: usize = 1024;
/// As much as the largest body needs.
const NOISE: usize = 2 * 1024 * KIB;

impl Bridge {
    /// Its part of a rate.
    pub(crate) fn share(&self, per_second: u32) -> u32 {
        (per_second * self.percent / 100).max(1)
    }

    /// Whether a message is published to it.
    pub(crate) fn takes(&self, draft: &Draft) -> bool {
        draft.exchange == self.entry
    }

    /// Endless messages for it.
    pub(crate) fn drafts(
        &'static self,
        seed: u64,
        longest_ms: i64,
    ) -> impl Iterator<Item = Draft> + Send + 'static {
        let mut rng = Rng::with_seed(seed);
        let mut noise = vec![0; NOISE];
        rng.fill(&mut noise);
        std::iter::repeat_with(move || {
            let size = size(&mut rng);
            let from = rng.usize(0..NOISE - size);
            Draft {
                exchange: self.entry.to_owned(),
                routing_key: self.routing_key.to_owned(),
                delay_ms: delay_ms(&mut rng, longest_ms),
                properties: BasicProperties::default().with_delivery_mode(2),
                body: noise[from..from + size].to_vec(),
            }
        })
    }
}

/// Most are short, some as long as any.
fn delay_ms(rng: &mut Rng, longest_ms: i64) -> i64 {
    (longest_ms as f64 * rng.f64().powi(3)) as i64
}

/// Most are small, some are large, a few are very large.
fn size(rng: &mut Rng) -> usize {
    match rng.u32(0..1_000) {
        0..3 => rng.usize(32 * KIB..=1024 * KIB),
        3..50 => rng.usize(KIB..32 * KIB),
        _ => rng.usize(0..KIB),
    }
}
