//! Durations as the file writes them: `30s`, `1h30m`, `125ms`. The domain says what a duration is; here are the hints
//! for what people write instead of one.

use std::time::Duration;

use crate::domain::duration;

pub(super) use crate::domain::duration::compact as format;

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
    duration::parse(text).map_err(|error| error.to_string())
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
        assert_eq!(parse(" 1h30m "), Ok(Duration::from_secs(5400)));
        assert!(parse("").is_err());
        assert!(parse("soon").is_err());
        assert!(parse("-5s").is_err());
    }

    proptest! {
        #[test]
        fn what_is_formatted_parses_equal(seconds in 0..=4_000_000_000u64, nanos in 0..1_000_000_000u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
