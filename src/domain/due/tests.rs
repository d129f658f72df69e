use proptest::prelude::*;

use super::*;
use HeaderValue::{Decimal, Float, Integer, Other, Text, Timestamp};

/// 2026-01-01T00:00:00Z.
const ACCEPTED: UnixMillis = UnixMillis(1_767_225_600_000);
const TEN_YEARS: Duration = Duration::from_secs(3_650 * 86_400);
const RULES: DueRules = DueRules { default_delay: Duration::from_secs(7), max_delay: TEN_YEARS };

fn text(text: &str) -> HeaderValue {
    Text(text.to_owned())
}

fn due(headers: &[(&str, HeaderValue)]) -> Result<UnixMillis, DueError> {
    let lookup = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone());
    resolve(&RULES, lookup, ACCEPTED)
}

/// The wait in milliseconds that one header asks for.
fn wait(header: &str, value: HeaderValue) -> Result<u64, DueError> {
    due(&[(header, value)]).map(|due| due.0 - ACCEPTED.0)
}

#[test]
fn without_a_header_the_default_counts() {
    assert_eq!(due(&[]), Ok(UnixMillis(ACCEPTED.0 + 7_000)));
    assert_eq!(due(&[("x-other", Integer(5))]), Ok(UnixMillis(ACCEPTED.0 + 7_000)));
}

#[test]
fn delays_in_every_type() {
    for (value, millis) in [
        (Integer(0), 0),
        (Integer(1), 1),
        (Integer(-5_000), 0),
        (Integer(i128::MIN), 0),
        (Integer(1 << 32), 1 << 32),
        (Integer(315_360_000_000), 315_360_000_000),
        (Float(0.0), 0),
        (Float(-0.0), 0),
        (Float(1_500.0), 1_500),
        (Float(1_500.000_1), 1_501),
        (Float(1e-300), 1),
        (Float(-0.5), 0),
        (Float(f64::MIN), 0),
        (Decimal { scale: 0, value: 600 }, 600),
        (Decimal { scale: 1, value: 15_000 }, 1_500),
        (Decimal { scale: 1, value: 15_001 }, 1_501),
        (Decimal { scale: 255, value: 1 }, 1),
        (Decimal { scale: 255, value: 0 }, 0),
        (text("600"), 600),
        (text("+600"), 600),
        (text("-600"), 0),
        (text(" 600\t"), 600),
        (text("1500.5"), 1_501),
        (text("-0.5"), 0),
        (text("1.5e3"), 1_500),
        (text(&format!("-{}", "9".repeat(400))), 0),
        (text("90s"), 90_000),
        (text("1h30m"), 5_400_000),
        (text(" 1h 30m "), 5_400_000),
        (text("+90s"), 90_000),
        (text("-90s"), 0),
        (text("1us"), 1),
    ] {
        for header in [header::DELAY, header::OPT_DELIVERY_DELAY] {
            assert_eq!(wait(header, value.clone()), Ok(millis), "{header}: {value:?}");
        }
    }
}

#[test]
fn moments_in_every_type() {
    for (value, millis) in [
        (Timestamp(1_767_225_605), 5_000),
        (Timestamp(0), 0),
        (Integer(1_767_225_605_001), 5_001),
        (Integer(-1), 0),
        (Float(1_767_225_605_000.25), 5_001),
        (Decimal { scale: 0, value: 5 }, 0),
        (text("1767225605000"), 5_000),
        (text(" +1767225605000 "), 5_000),
        (text("1767225605000.5"), 5_001),
        (text("2026-01-01T00:00:05Z"), 5_000),
        (text("2026-01-01T00:00:05.000000001Z"), 5_001),
        (text("2026-01-01T01:00:05+01:00"), 5_000),
        (text("2025-12-31T19:00:05-05:00"), 5_000),
        (text("2025-12-31t19:00:05-05:00"), 5_000),
        (text("1960-01-01T00:00:00.5Z"), 0),
        (text("2026-01-01T00:00:00Z"), 0),
    ] {
        for header in [header::DELIVER_AT, header::OPT_DELIVERY_TIME] {
            assert_eq!(wait(header, value.clone()), Ok(millis), "{header}: {value:?}");
        }
    }
}

fn meaningless_everywhere() -> impl Iterator<Item = HeaderValue> {
    let texts =
        ["", " ", "abc", "NaN", "inf", "-infinity", "true", "5 parsecs", "600\0", "0x10", "1,5", "+", "--5"];
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let others = ["boolean", "table", "array", "null", "binary"];
    texts.into_iter().map(text).chain(floats.map(Float)).chain(others.map(Other))
}

#[test]
fn what_means_nothing_is_refused() {
    let no_delay = [Timestamp(5), text("2026-01-01T00:00:05Z"), text("--90s")];
    let no_moment = [text("2026-01-01T00:00:05"), text("2026-01-01"), text("90s"), text("00:00:05Z")];
    let cases = [
        (header::DELAY, no_delay.clone().to_vec()),
        (header::OPT_DELIVERY_DELAY, no_delay.to_vec()),
        (header::DELIVER_AT, no_moment.clone().to_vec()),
        (header::OPT_DELIVERY_TIME, no_moment.to_vec()),
    ];
    for (header, values) in cases {
        for value in meaningless_everywhere().chain(values) {
            let error = wait(header, value.clone()).expect_err(&format!("{header}: {value:?}"));
            assert!(matches!(error, DueError::Invalid { header: named, .. } if named == header), "{error}");
            assert_eq!(error.reason(), Reason::InvalidDelay);
        }
    }
}

#[test]
fn more_than_the_maximum_is_refused_and_never_clamped() {
    let cases = [
        (header::DELAY, Integer(315_360_000_001)),
        (header::DELAY, Integer(i128::MAX)),
        (header::DELAY, Float(f64::MAX)),
        (header::DELAY, Float(315_360_000_000.1)),
        (header::DELAY, text(&"9".repeat(400))),
        (header::DELAY, text("3651d")),
        (header::DELIVER_AT, Integer(1_767_225_600_000 + 315_360_000_001)),
        (header::DELIVER_AT, Integer(i128::MAX)),
        (header::DELIVER_AT, Timestamp(u64::MAX)),
        (header::DELIVER_AT, text("9999-01-01T00:00:00Z")),
        (header::DELIVER_AT, text("9999-12-31T23:59:59.9999999Z")),
        (header::DELIVER_AT, text("9999-12-31T23:59:59-12:00")),
    ];
    for (header, value) in cases {
        let error = wait(header, value.clone()).expect_err(&format!("{header}: {value:?}"));
        assert!(matches!(error, DueError::TooLong { header: named, .. } if named == header), "{error}");
        assert_eq!(error.reason(), Reason::DelayTooLong);
    }
}

#[test]
fn a_moment_that_cannot_be_counted_is_too_long() {
    let rules = DueRules { max_delay: Duration::MAX, ..RULES };
    let due = resolve(&rules, |name| (name == header::DELAY).then_some(Integer(1)), UnixMillis(u64::MAX));
    assert!(matches!(due, Err(DueError::TooLong { .. })), "{due:?}");
}

#[test]
fn the_first_header_that_is_present_decides_even_if_it_is_invalid() {
    let mut headers = vec![
        (header::OPT_DELIVERY_DELAY, Integer(4)),
        (header::DELAY, Integer(3)),
        (header::OPT_DELIVERY_TIME, Integer(1_767_225_600_002)),
        (header::DELIVER_AT, Integer(1_767_225_600_001)),
    ];
    for expected in 1..=4 {
        assert_eq!(due(&headers), Ok(UnixMillis(ACCEPTED.0 + expected)));
        headers.pop();
    }
    let error = due(&[(header::DELAY, Integer(3)), (header::DELIVER_AT, Other("null"))]);
    assert!(matches!(error, Err(DueError::Invalid { header: header::DELIVER_AT, .. })), "{error:?}");
}

#[test]
fn errors_name_header_and_value_and_what_to_do() {
    let message = |header, value| wait(header, value).unwrap_err().to_string();
    assert_eq!(
        message(header::DELAY, text("a\u{1b}[31m\"b")),
        r#"header x-delay is "a\u{1b}[31m\"b": send milliseconds as a number or digits, or text such as 90s or 1h30m"#
    );
    assert_eq!(
        message(header::DELIVER_AT, Other("table")),
        "header x-deliver-at is of type table: send an AMQP timestamp, Unix milliseconds, or RFC 3339 text with an offset"
    );
    assert_eq!(
        message(header::DELAY, Integer(1 << 60)),
        "header x-delay is 1152921504606846976, a wait of more than 3650d: raise max_delay to allow it"
    );
    let cut = format!("header x-delay is \"{}\"...: send", "ä".repeat(128));
    assert!(message(header::DELAY, text(&"ä".repeat(100_000))).starts_with(&cut));
    assert!(message(header::DELAY, Float(1e300)).starts_with("header x-delay is 1e300, a wait of more than"));
}

#[test]
fn the_clock_starts_when_the_broker_took_the_message() {
    let read = UnixMillis(ACCEPTED.0 + 60_000);
    let cases = [
        (None, read),
        (Some(Integer(1_767_225_600_000)), ACCEPTED),
        (Some(Timestamp(1_767_225_600)), ACCEPTED),
        (Some(Integer(1_767_225_700_000)), read),
        (Some(Integer(1_767_225_600)), read),
        (Some(Integer(-1)), read),
        (Some(Integer(0)), read),
        (Some(Integer(i128::MAX)), read),
        (Some(Timestamp(u64::MAX)), read),
        (Some(Float(1_767_225_600_000.0)), read),
        (Some(text("1767225600000")), read),
        (Some(Other("null")), read),
    ];
    for (timestamp, expected) in cases {
        assert_eq!(accepted_at(timestamp.as_ref(), read), expected, "{timestamp:?}");
    }
}

fn any_value() -> impl Strategy<Value = HeaderValue> {
    prop_oneof![
        any::<i128>().prop_map(Integer),
        any::<i64>().prop_map(|n| Integer(n.into())),
        any::<f64>().prop_map(Float),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Decimal { scale, value }),
        any::<u64>().prop_map(Timestamp),
        prop::sample::select(vec!["boolean", "table", "array", "null", "binary"]).prop_map(Other),
        any::<String>().prop_map(Text),
        "[ +-]?[0-9]{0,45}[.]?[0-9]{0,45}(ms|s|m|h|d|y|e[0-9]{1,4})? ?".prop_map(Text),
        "[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{1,12})?(Z|[+-][0-2][0-9]:[0-6][0-9])?"
            .prop_map(Text),
    ]
}

fn any_rules() -> impl Strategy<Value = DueRules> {
    (any::<Duration>(), any::<Duration>())
        .prop_map(|(default_delay, max_delay)| DueRules { default_delay, max_delay })
}

proptest! {
    #[test]
    fn any_value_gives_a_due_time_or_an_error(
        header in prop::sample::select(DUE_HEADERS.to_vec()),
        value in any_value(),
        rules in any_rules(),
        accepted in any::<u64>(),
        read in any::<u64>(),
    ) {
        let accepted = UnixMillis(accepted);
        prop_assert!(accepted_at(Some(&value), UnixMillis(read)).0 <= read);
        match resolve(&rules, |name| (name == header).then(|| value.clone()), accepted) {
            Ok(due) => {
                prop_assert!(due >= accepted);
                prop_assert!(due.saturating_since(accepted) <= rules.max_delay);
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.contains(header), "{}", text);
                prop_assert!(text.chars().all(|c| !c.is_control()), "{}", text);
            }
        }
    }

    #[test]
    fn digits_mean_what_the_integer_means(
        header in prop::sample::select(DUE_HEADERS.to_vec()),
        integer in prop_oneof![any::<i128>(), -1_000_i128..2_000_000_000_000],
    ) {
        let same = |result: Result<u64, DueError>| result.map_err(|error| error.reason());
        prop_assert_eq!(same(wait(header, text(&integer.to_string()))), same(wait(header, Integer(integer))));
    }

    #[test]
    fn asking_for_more_never_gives_less(
        a in -1_000.0..400_000_000_000.0_f64,
        b in -1_000.0..400_000_000_000.0_f64,
    ) {
        let (less, more) = if a <= b { (a, b) } else { (b, a) };
        match (wait(header::DELAY, Float(less)), wait(header::DELAY, Float(more))) {
            (Ok(less), Ok(more)) => prop_assert!(less <= more),
            (less, more) => prop_assert!(more.is_err(), "{:?} {:?}", less, more),
        }
    }

    #[test]
    fn rounding_is_up_and_by_less_than_a_millisecond(asked in 0.0..300_000_000_000.0_f64) {
        for value in [Float(asked), text(&asked.to_string())] {
            let given = wait(header::DELAY, value).unwrap() as f64;
            prop_assert!(given >= asked && given < asked + 1.0, "{} for {}", given, asked);
        }
    }

    #[test]
    fn decimals_round_up(scale in 0_u8..=20, value in any::<u32>()) {
        let asked = f64::from(value) / 10_f64.powi(scale.into());
        let given = wait(header::DELAY, Decimal { scale, value }).unwrap() as f64;
        prop_assert!(given >= asked && given < asked + 1.0, "{} for {}", given, asked);
    }

    #[test]
    fn a_moment_in_rfc_3339_is_that_moment_in_any_offset(
        millis in 0_u64..300_000_000_000,
        nanos in 0_i128..1_000_000,
        offset_minutes in -900_i32..900,
    ) {
        let moment = jiff::Timestamp::from_nanosecond((i128::from(ACCEPTED.0 + millis)) * 1_000_000 + nanos).unwrap();
        let offset = jiff::tz::Offset::from_seconds(offset_minutes * 60).unwrap();
        let written = moment.display_with_offset(offset).to_string();
        prop_assert_eq!(wait(header::DELIVER_AT, text(&written)), Ok(millis + u64::from(nanos > 0)), "{}", written);
    }
}
