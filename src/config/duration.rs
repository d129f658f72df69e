//! Durations as the file writes them: `30s`, `1h30m`, `125ms`.

use std::fmt::Write as _;
use std::time::Duration;

/// Reads `30s`, `1h30m`, `500ms` or `0`. The error says what is wrong, in words for an operator.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty: write a number and its unit, such as 30s".to_owned());
    }
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{text}` has no unit: write {text}s for seconds or {text}ms for milliseconds"));
    }
    humantime::parse_duration(text).map_err(|_| {
        format!("`{text}` is not a duration: write numbers with units, such as 500ms, 30s, 1h30m or 7d")
    })
}

/// Writes a duration exactly, in the compact form that [`parse`] reads: `1h30m`, `125ms`, `0s`.
pub(super) fn format(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    let (seconds, nanos) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (nanos / 1_000_000, "ms"),
        (nanos / 1_000 % 1_000, "us"),
        (nanos % 1_000, "ns"),
    ];
    parts.iter().filter(|(amount, _)| *amount > 0).fold(String::new(), |mut text, (amount, unit)| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{amount}{unit}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bare_number_is_refused_with_a_hint() {
        assert_eq!(
            parse("30"),
            Err("`30` has no unit: write 30s for seconds or 30ms for milliseconds".to_owned())
        );
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert!(parse("").is_err());
        assert!(parse("soon").is_err());
        assert!(parse("-5s").is_err());
    }

    #[test]
    fn formats_compactly() {
        assert_eq!(format(Duration::from_millis(125)), "125ms");
        assert_eq!(format(Duration::from_secs(5400)), "1h30m");
        assert_eq!(format(Duration::from_secs(3650 * 86_400)), "3650d");
        assert_eq!(format(Duration::ZERO), "0s");
    }

    proptest! {
        #[test]
        fn what_is_formatted_parses_equal(seconds in 0..=4_000_000_000u64, nanos in 0..1_000_000_000u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = parse(&text);
        }
    }
}
