//! Durations as text: what people write, and the one exact spelling in which Leveret writes them back.

use std::fmt::Write as _;
use std::time::Duration;

/// Text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write numbers with units, such as 500ms, 90s, 1h30m or 7d")]
pub struct InvalidDuration {
    /// The text as it was written.
    pub text: String,
}

/// Reads numbers with units, such as `500ms`, `90s`, `1h30m` or `3650d`; surrounding blanks do not count.
///
/// # Errors
/// Where the text is anything else: no unit, a negative number, or more than 2^64 seconds.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    humantime::parse_duration(text.trim()).map_err(|_| InvalidDuration { text: text.to_owned() })
}

/// The shortest exact text of a duration, without blanks: `125ms`, `1m4s`, `24d6h32m32s`, `0s`.
///
/// It names queues, so the spelling of a duration must never change.
#[must_use]
pub fn compact(duration: Duration) -> String {
    const NANOS_PER_UNIT: [(u128, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (nanos, unit) in NANOS_PER_UNIT {
        let count = rest / nanos;
        rest %= nanos;
        if count > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{count}{unit}");
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Whole milliseconds, a fraction rounded up: what must not be early may never be rounded down.
pub(crate) const fn millis_rounded_up(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("500ms", 500),
            (" 5s\n", 5_000),
            ("0s", 0),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_what_means_nothing() {
        for text in ["", " ", "abc", "5", "-5s", "s", "5 parsecs", "99999999999999999999d", "NaN", "5s,"] {
            let error = parse(text).expect_err(text);
            assert!(error.to_string().starts_with(&format!("{text:?} is not a duration")), "{error}");
        }
    }

    #[test]
    fn writes_the_names_of_queues() {
        for (millis, text) in [
            (0, "0s"),
            (125, "125ms"),
            (1_000, "1s"),
            (1_500, "1s500ms"),
            (64_000, "1m4s"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
            (2_097_152_000, "24d6h32m32s"),
            (315_360_000_000, "3650d"),
        ] {
            assert_eq!(compact(Duration::from_millis(millis)), text);
        }
        assert_eq!(compact(Duration::new(1, 2_003)), "1s2us3ns");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in prop_oneof![0..100_000_u64, any::<u64>()]) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&compact(duration)), Ok(duration));
        }

        #[test]
        fn two_durations_never_share_a_text(a in any::<Duration>(), b in any::<Duration>()) {
            prop_assert_eq!(compact(a) == compact(b), a == b);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|[0-9]{1,25}(ns|us|ms|s|m|h|d|w|M|y)[0-9]{0,25}[a-zA-Z ]{0,4}") {
            let _ = parse(&text);
        }
    }
}
