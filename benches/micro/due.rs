//! What a message's headers say of its due time.

use std::time::Duration;

use divan::{Bencher, black_box};
use leveret::domain::due::{self, DueRules};
use leveret::domain::header::{DELAY, DELIVER_AT, HeaderValue};

use crate::sample::NOW;

#[divan::bench(args = ["none", "integer", "digits", "words", "moment"])]
fn resolve(bencher: Bencher, kind: &str) {
    let text = |text: &str| HeaderValue::Text(text.to_owned());
    let header = match kind {
        "none" => None,
        "integer" => Some((DELAY, HeaderValue::Integer(30_000))),
        "digits" => Some((DELAY, text("30000"))),
        "words" => Some((DELAY, text("1h30m"))),
        _ => Some((DELIVER_AT, text("2027-06-01T12:00:00+02:00"))),
    };
    let rules = DueRules { default_delay: Duration::ZERO, max_delay: Duration::from_secs(3_650 * 86_400) };
    let lookup =
        |name: &str| header.as_ref().filter(|(header, _)| *header == name).map(|(_, value)| value.clone());
    bencher
        .counter(divan::counter::ItemsCount::new(1_usize))
        .bench(|| due::resolve(&rules, lookup, black_box(NOW)).unwrap());
}
