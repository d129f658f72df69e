//! Sizes in bytes as the file writes them: `65536`, `256KiB`, `1MiB`.

/// Units, largest binary ones first, which is the order in which [`format`] tries them.
const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads a number of bytes with an optional unit. The error says what is wrong, in words for an operator.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.strip_prefix(digits).unwrap_or_default().trim_start();
    let factor = if unit.is_empty() {
        Some(1)
    } else {
        UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor)
    };
    let number = digits.parse::<u64>().ok();
    number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor)).ok_or_else(|| {
        format!("`{text}` is not a size: write bytes, or a number with a unit, such as 256KiB or 1MiB")
    })
}

/// Writes a size exactly, in the largest binary unit that divides it.
pub(super) fn format(bytes: u64) -> String {
    UNITS
        .iter()
        .take(3)
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
        .map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units() {
        assert_eq!(parse("256KiB"), Ok(262_144));
        assert_eq!(parse("1 MiB"), Ok(1_048_576));
        assert_eq!(parse("2MB"), Ok(2_000_000));
        assert_eq!(parse("4096"), Ok(4096));
        for wrong in
            ["", "KiB", "1.5MiB", "-1", "12 parsecs", "99999999999999999999", "18446744073709551615KiB"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_parses_equal(bytes: u64) {
            prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = parse(&text);
        }
    }
}
