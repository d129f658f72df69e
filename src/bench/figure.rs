//! Figures for people: no more digits than they are worth, and a unit on each.

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits, and all those before the decimal point: `0.0123`, `1.23`, `12.3`, `1,234`.
#[must_use]
pub fn rounded(number: f64) -> String {
    let size = number.abs();
    if size >= 99.95 {
        let whole = grouped(size.round() as u64);
        return if number < 0.0 { format!("-{whole}") } else { whole };
    }
    // Where rounding would bring one digit more before the point, there is one less behind it.
    let decimals = [(9.995, 1), (0.9995, 2), (0.09995, 3), (0.009995, 4), (0.0009995, 5)];
    match decimals.into_iter().find(|(from, _)| size >= *from) {
        Some((_, decimals)) => format!("{number:.decimals$}"),
        None => "0".to_owned(),
    }
}

/// `1.23 ms`, `12.3 s`.
#[must_use]
pub fn millis(ms: f64) -> String {
    if ms.abs() >= 9_999.5 { format!("{} s", rounded(ms / 1_000.0)) } else { format!("{} ms", rounded(ms)) }
}

/// `1,000 msg/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    format!("{} msg/s", rounded(per_second))
}

/// `256 B`, `1.50 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", grouped(bytes / unit)),
        Some((unit, name)) => format!("{} {name}", rounded(bytes as f64 / unit as f64)),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 7, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn three_digits_are_significant() {
        let numbers =
            [0.0, 0.00001, 0.00123, 0.0123, 0.123, 1.0, 1.234, 9.996, 12.34, 99.96, 123.4, 12_345.6];
        assert_eq!(
            numbers.map(rounded),
            ["0", "0", "0.00123", "0.0123", "0.123", "1.00", "1.23", "10.0", "12.3", "100", "123", "12,346",]
        );
        assert_eq!([-1.5, -1500.0].map(rounded), ["-1.50", "-1,500"]);
    }

    #[test]
    fn every_figure_has_its_unit() {
        assert_eq!([0.5, 20.0, 9_999.0, 60_000.0].map(millis), ["0.500 ms", "20.0 ms", "9,999 ms", "60.0 s"]);
        assert_eq!(rate(1_000.0), "1,000 msg/s");
        assert_eq!(
            [256, 1_024, 1_500, 3 << 19, 64 << 20].map(bytes),
            ["256 B", "1 KiB", "1.46 KiB", "1.50 MiB", "64 MiB",]
        );
    }
}
