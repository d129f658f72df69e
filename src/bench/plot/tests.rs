//! What is in the picture. How it looks is for people to judge.

use super::super::report::{Bucket, Lateness, Settings, Usage};
use super::*;

fn report(scheme: &str, delay: &str, seconds: &[u32]) -> Report {
    let late = |second: u32| Second { second, delivered: 10, p50_ms: 1.0, p99_ms: 20.0, max_ms: 30.0 };
    let came = !seconds.is_empty();
    let lateness = Lateness { mean: 2.0, p50: 1.0, p90: 2.0, p99: 20.0, p99_9: 30.0, max: 30.0 };
    let bucket = |up_to_ms, count| Bucket { up_to_ms, count };
    Report {
        scheme: scheme.into(),
        broker: "RabbitMQ 4.3.6".into(),
        leveret: "0.1.0".into(),
        settings: Settings {
            messages: 100,
            rate: 10,
            size: 256,
            delay: delay.into(),
            spread: "uniform".into(),
            pending: 0,
            queue_type: "quorum".into(),
        },
        interrupted: false,
        published: 100,
        confirmed: 100,
        publish_rate: 10.0,
        delivered: 100,
        delivery_rate: 10.0,
        lost: 0,
        duplicates: 0,
        early: 0,
        drained_ms: Some(1.0),
        lateness_ms: came.then_some(lateness),
        usage: Usage::default(),
        timeline: seconds.iter().copied().map(late).collect(),
        distribution: if came { vec![bucket(1.0, 50), bucket(10.0, 0), bucket(100.0, 50)] } else { vec![] },
    }
}

fn strokes(svg: &str, colour: &str) -> usize {
    svg.lines().filter(|line| line.starts_with("<path") && line.contains(colour)).count()
}

#[test]
fn every_scheme_has_its_colour_and_its_figures() {
    let svg = svg(&[report("direct", NO_DELAY, &[0, 1]), report("leveret", "1s..16s", &[0, 1, 2])]);
    // Over time: median and 99 %. And the distribution.
    assert_eq!((strokes(&svg, "#606060"), strokes(&svg, "#0072B2")), (3, 3), "{svg}");
    for text in [
        ">direct, no delay<",
        ">leveret<",
        ">p50 1.00 ms, p99 20.0 ms<",
        "delay 1s..16s (uniform)",
        "RabbitMQ 4.3.6",
    ] {
        assert!(svg.contains(text), "{text}\n{svg}");
    }
}

#[test]
fn colours_are_told_apart_as_long_as_there_are_any() {
    let schemes = ["leveret", "leveret", "unknown", "direct", "relay", "cascade", "plugin"];
    let reports = schemes.map(|scheme| report(scheme, "1s", &[0]));
    let mut colours: Vec<_> = coloured(&reports).iter().map(|series| series.colour).collect();
    assert_eq!((colours[0], colours[3]), ("#0072B2", "#606060"));
    colours.sort_unstable();
    colours.dedup();
    assert_eq!(colours.len(), schemes.len());
    let many = vec![report("leveret", "1s", &[0]); 30];
    assert_eq!(coloured(&many).len(), 30);
}

#[test]
fn a_line_ends_where_nothing_came() {
    let svg = svg(&[report("leveret", "1s", &[0, 1, 5, 7, 8])]);
    assert_eq!(strokes(&svg, "#0072B2"), 2 * 3 + 1, "{svg}");
    assert_eq!(svg.matches("h0\"").count(), 2, "the second 5 stands alone");
}

#[test]
fn the_curve_goes_from_all_to_none() {
    let some = report("leveret", "1s", &[0]);
    assert_eq!(later_than(&some, 0.1), [(0.5, 100.0), (1.0, 50.0), (10.0, 50.0), (30.0, 0.0)]);
    assert_eq!(later_than(&some, 60.0), [(0.5, 100.0), (1.0, 50.0)]);
    assert_eq!(later_than(&report("leveret", "1s", &[]), 0.1), []);
}

#[test]
fn nothing_to_show_is_no_trouble() {
    for reports in [vec![], vec![report("leveret", "1s", &[])]] {
        let svg = svg(&reports);
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn names_from_files_cannot_break_the_picture() {
    let svg = svg(&[report("<script>&\"", "1s", &[0])]);
    assert!(svg.contains("&lt;script&gt;&amp;&quot;") && !svg.contains("<script"), "{svg}");
}

#[test]
fn what_waits_meanwhile_tells_two_of_the_same_scheme_apart() {
    let alone = report("leveret", "1s..16s", &[0, 1]);
    let mut beside = alone.clone();
    beside.settings.pending = 1_000_000;
    let svg = svg(&[alone, beside]);
    assert!(svg.contains(">leveret<") && svg.contains(">leveret, while 1,000,000 wait<"), "{svg}");
}
