//! Tables as people see them, and JSON as programs do.

use super::*;

fn report() -> Report {
    let process = Process {
        cpu_seconds: 12.345,
        cpu_us_per_message: 411.5,
        written_bytes: Some(3 << 20),
        rss_bytes_before: 100 << 20,
        rss_bytes_after: 110 << 20,
        rss_bytes_peak: 1_234 << 20,
    };
    Report {
        scheme: "leveret".into(),
        broker: "RabbitMQ 4.3.6".into(),
        leveret: "0.1.0".into(),
        settings: Settings {
            messages: 30_000,
            rate: 1_000,
            size: 256,
            delay: "1s..16s".into(),
            spread: "uniform".into(),
            pending: 0,
            queue_type: "quorum".into(),
        },
        interrupted: false,
        published: 30_000,
        confirmed: 29_999,
        publish_rate: 999.96,
        delivered: 29_998,
        delivery_rate: 998.4,
        lost: 1,
        duplicates: 2,
        early: 3,
        drained_ms: Some(4.25),
        lateness_ms: Some(Lateness { mean: 1.5, p50: 1.0, p90: 2.0, p99: 12.34, p99_9: 99.0, max: 12_000.0 }),
        usage: Usage {
            broker: Some(process),
            leveret: None,
            bench: Some(process),
            seconds: 13.0,
            messages: 29_998,
        },
        timeline: vec![Second { second: 0, delivered: 29_998, p50_ms: 1.0, p99_ms: 12.34, max_ms: 12_000.0 }],
        distribution: vec![Bucket { up_to_ms: 0.1, count: 1 }],
    }
}

#[test]
fn people_get_everything_with_units() {
    let expected = "\
leveret on RabbitMQ 4.3.6, measured by Leveret 0.1.0
30,000 messages of 256 B, 1,000 msg/s, delay 1s..16s (uniform), quorum queues

published         30,000 messages, 1,000 msg/s
confirmed         29,999 messages
delivered         29,998 messages, 998 msg/s
lost                   1 messages
doubled                2 messages
early                  3 messages
late, mean          1.50 ms
late, p50           1.00 ms
late, p90           2.00 ms
late, p99           12.3 ms
late, p99.9         99.0 ms
late, max           12.0 s
drained             4.25 ms after the last was due

process  CPU in 13.0 s  CPU per message  written  memory before    after      peak
broker          12.3 s           412 µs    3 MiB        100 MiB  110 MiB  1.21 GiB
leveret  not measured (--leveret-pid)
bench           12.3 s           412 µs    3 MiB        100 MiB  110 MiB  1.21 GiB
";
    assert_eq!(report().table(), expected, "{}", report().table());
}

#[test]
fn figures_are_aligned_to_the_right() {
    let rows = [vec!["a", "1 ms", "x"], vec!["long", "1,000 ms", "yz"], vec!["b", "not there at all"]]
        .map(|row| row.into_iter().map(str::to_owned).collect());
    assert_eq!(aligned(&rows), "a         1 ms   x\nlong  1,000 ms  yz\nb     not there at all\n");
}

#[test]
fn what_is_absent_is_said_or_left_out() {
    let mut report = report();
    report.interrupted = true;
    report.lateness_ms = None;
    report.usage = Usage::default();
    report.settings = Settings { rate: 0, delay: NO_DELAY.into(), pending: 1_000_000, ..report.settings };
    let table = report.table();
    for text in [
        "(interrupted)",
        "nothing came",
        "broker   not measured (--broker-pid)",
        "leveret  not measured (--leveret-pid)",
        "as fast as possible, no delay, while 1,000,000 wait",
    ] {
        assert!(table.contains(text), "{text}\n{table}");
    }
    report.scheme = "direct".into();
    assert!(!report.table().contains("--leveret-pid"), "direct needs no Leveret");
}

#[test]
fn json_comes_back_as_it_was() {
    let written = serde_json::to_string(&report()).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&written).unwrap(), report());
}
