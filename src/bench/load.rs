//! The load: how long messages are to be delayed, and what is in them.

use std::time::Duration;

use bytes::Bytes;

/// Bytes at the head of a body that say which message it is, and when it was due.
pub const STAMP: usize = 16;

/// How the delays are spread over their range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Spread {
    /// Each delay as likely as any other
    Uniform,
    /// Each order of magnitude as likely as any other
    Log,
    /// All due within the one second that begins when the longest delay has passed since the start
    Burst,
}

impl Spread {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Log => "log",
            Self::Burst => "burst",
        }
    }
}

/// The delays of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// The shortest.
    pub from: Duration,
    /// The longest.
    pub to: Duration,
    /// How they are spread between.
    pub spread: Spread,
}

impl Delays {
    /// The delay of a message that is published so long after the start.
    #[must_use]
    pub fn pick(&self, since_start: Duration) -> Duration {
        let width = self.to.saturating_sub(self.from);
        match self.spread {
            Spread::Uniform => self.from + width.mul_f64(fastrand::f64()),
            Spread::Log => {
                let from = self.from.max(Duration::from_millis(1)).as_secs_f64();
                let to = self.to.as_secs_f64().max(from);
                Duration::from_secs_f64(from * (to / from).powf(fastrand::f64()))
            }
            Spread::Burst => {
                (self.to + Duration::from_secs(1).mul_f64(fastrand::f64())).saturating_sub(since_start)
            }
        }
    }
}

/// Bodies of one size. Each begins with its stamp; the rest is JSON as applications send it, with values that differ from
/// message to message, so that compression has as much to gain as it would have of theirs.
#[derive(Debug)]
pub struct Bodies(Vec<Vec<u8>>);

/// So many bodies differ; then they begin anew.
const VARIANTS: usize = 256;

impl Bodies {
    /// Bodies of `size` bytes, but no less than a stamp.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self((0..VARIANTS).map(|_| json(size.max(STAMP))).collect())
    }

    /// The body of a message.
    #[must_use]
    pub fn stamped(&self, sequence: u64, due_us: u64) -> Bytes {
        let variant = usize::try_from(sequence).unwrap_or_default() % VARIANTS;
        let mut body = self.0.get(variant).cloned().unwrap_or_default();
        body.splice(..STAMP, [sequence.to_be_bytes(), due_us.to_be_bytes()].concat());
        body.into()
    }
}

/// Sequence and due time of a body; `None` where the message is somebody else's.
#[must_use]
pub fn stamp(body: &[u8]) -> Option<(u64, u64)> {
    let (sequence, rest) = body.split_first_chunk()?;
    Some((u64::from_be_bytes(*sequence), u64::from_be_bytes(*rest.first_chunk()?)))
}

fn json(size: usize) -> Vec<u8> {
    let mut text = " ".repeat(STAMP);
    while text.len() < size {
        text += &format!(
            r#"{{"order_id":"{:016x}","customer":{{"id":{},"name":"{}"}},"amount_cents":{},"currency":"EUR","state":"pending"}},"#,
            fastrand::u64(..),
            fastrand::u32(..1_000_000),
            std::iter::repeat_with(fastrand::alphabetic).take(12).collect::<String>(),
            fastrand::u32(..100_000),
        );
    }
    text.truncate(size);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_body_tells_which_it_is_and_has_its_size() {
        for size in [0, 16, 17, 256, 5_000] {
            let body = Bodies::new(size).stamped(7, 9);
            assert_eq!(stamp(&body), Some((7, 9)));
            assert_eq!(body.len(), size.max(STAMP));
        }
        assert_eq!(stamp(b"too short"), None);
    }

    proptest! {
        #[test]
        fn delays_stay_in_their_range(from in 0..10_000u64, width in 0..100_000u64, since in 0..10_000u64) {
            let (from, to) = (Duration::from_millis(from), Duration::from_millis(from + width));
            let slack = Duration::from_micros(1);
            for spread in [Spread::Uniform, Spread::Log] {
                let delay = Delays { from, to, spread }.pick(Duration::ZERO);
                prop_assert!(delay + slack >= from && delay <= to.max(Duration::from_millis(1)) + slack, "{delay:?}");
            }
            let since = Duration::from_millis(since);
            let due = since + Delays { from, to, spread: Spread::Burst }.pick(since);
            prop_assert!(due >= to && due <= since.max(to + Duration::from_secs(1)));
        }
    }
}
