//! `leveret bench`, briefly: that every scheme works and tells the truth about what it lost. How fast it was is nobody's
//! business here.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::blocking;
use crate::harness::broker::Broker;
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    shared: every_scheme_brings_all_and_nothing_early, what_is_all_due_at_once_comes, an_interrupted_run_still_reports,
        a_scheme_that_the_broker_does_not_know_is_explained, without_leveret_it_says_so
];

fn bench(uri: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.args(["bench", "--amqp", uri, "--json", "-"]).args(arguments).stdin(Stdio::null());
    command
}

fn run(uri: &str, arguments: &[&str]) -> Output {
    let mut command = bench(uri, arguments);
    blocking(|| command.output().unwrap())
}

fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}

fn all_came(report: &Value, messages: u64) {
    println!("{}: late by {}", report["scheme"], report["lateness_ms"]);
    for (what, expected) in [
        ("published", messages),
        ("confirmed", messages),
        ("delivered", messages),
        ("lost", 0),
        ("early", 0),
        ("duplicates", 0),
    ] {
        assert_eq!(report[what], expected, "{what} of {report:#}");
    }
    assert_eq!(report["interrupted"], false);
}

async fn every_scheme_brings_all_and_nothing_early(broker: &Broker) {
    let vhost = broker.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), "").await;
    let pid = leveret.pid().to_string();
    for scheme in ["direct", "relay", "leveret", "cascade"] {
        for queue_type in ["quorum", "classic"] {
            let options =
                ["--rate", "300", "--messages", "600", "--delay", "0s..3s", "--queue-type", queue_type];
            let whose = ["--scheme", scheme, "--leveret-pid", &pid];
            let output = run(&vhost.uri(), &[&options[..], &whose].concat());
            assert!(output.status.success(), "{output:?}");
            let report = report(&output);
            all_came(&report, 600);
            assert_eq!(report["scheme"], scheme);
            let used = &report["usage"]["leveret"]["cpu_us_per_message"];
            let through_a_process = ["relay", "leveret"].contains(&scheme);
            assert!(!through_a_process || used.as_f64().is_some(), "{used}");
        }
    }
    let left: Vec<_> = vhost.queue_names().into_iter().filter(|name| name.contains("bench")).collect();
    assert_eq!(left, [""; 0]);
}

async fn what_is_all_due_at_once_comes(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), "").await;
    let options =
        ["--rate", "0", "--messages", "3000", "--delay", "6s", "--spread", "burst", "--pending", "100"];
    let output = run(&vhost.uri(), &options);
    all_came(&report(&output), 3_000);
}

async fn an_interrupted_run_still_reports(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), "").await;
    let child = bench(&vhost.uri(), &["--rate", "100", "--messages", "100000", "--delay", "200ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = blocking(|| child.wait_with_output().unwrap());
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["interrupted"], true);
    assert!(report["delivered"].as_u64().unwrap() > 0, "{report:#}");
}

async fn a_scheme_that_the_broker_does_not_know_is_explained(broker: &Broker) {
    let vhost = broker.create_vhost();
    let output = run(&vhost.uri(), &["--scheme", "plugin", "--messages", "10"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("needs a broker with the plugin"), "{errors}");
}

async fn without_leveret_it_says_so(broker: &Broker) {
    let vhost = broker.create_vhost();
    let output = run(&vhost.uri(), &["--messages", "10"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("is Leveret running on this broker"), "{errors}");
}
