//! Every metric, as events: one method logs what happened and counts it. Only this module names metrics or uses the
//! `metrics` crate; labels come from configuration and enums alone, so that no message can add a series.

mod bridge;
mod catalogue;
mod connection;
mod exporter;
mod share;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label};

pub use self::bridge::{BridgeMetrics, LevelMetrics};
pub use self::catalogue::{Entry, Kind, catalogue};
use self::connection::RoleMetrics;
pub use self::connection::{ConnectionMetrics, Connections, Role};
pub use self::exporter::{Exporter, InstallError, install};
pub use self::share::Share;
use crate::domain::park::Reason;
use crate::domain::queue::QueueRole;

/// The label of a message whose bridge no configuration names (any more). No bridge can have this name.
const UNKNOWN_BRIDGE: &str = "(unknown)";

/// What was published, for the time that its confirm took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// A bundle, to a level or to the due queue.
    Bundle,
    /// A message, to its target.
    Delivery,
    /// A message, to the parked queue.
    Parked,
}

/// One flow's share in what waits in memory, and in what is due.
pub struct HeldMetrics {
    messages: Share,
    bytes: Share,
    due: Share,
}

impl HeldMetrics {
    /// So many messages and bytes wait in it now.
    pub fn set(&self, messages: usize, bytes: usize) {
        self.messages.set(messages);
        self.bytes.set(bytes);
    }

    /// So many messages are due now, under way to their targets or waiting for their turn.
    pub fn set_due(&self, messages: usize) {
        self.due.set(messages);
    }
}

/// The process's metrics: handles are registered once, so that counting is an atomic addition.
pub struct Metrics {
    bridges: HashMap<String, BridgeMetrics>,
    unknown_bridge: BridgeMetrics,
    unreadable: Counter,
    held_messages: Gauge,
    held_bytes: Gauge,
    due_messages: Gauge,
    unsettled_due: Gauge,
    confirm_bundle: Histogram,
    confirm_deliver: Histogram,
    confirm_park: Histogram,
    consume: RoleMetrics,
    publish: RoleMetrics,
    steps_back: Counter,
    steps_forward: Counter,
    last_step: Gauge,
    /// Queues whose oldest age was known once.
    aged: Mutex<HashSet<String>>,
}

impl Metrics {
    /// Registers everything, so that each series is there, at zero, from the start.
    ///
    /// `workers` have connections of their own. `levels` are the labels of the ladder's levels; [`LevelMetrics::register`]
    /// gives the handles.
    pub fn new<'a>(
        workers: usize,
        bridges: impl IntoIterator<Item = &'a str>,
        levels: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        gauge(&catalogue::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))]).set(1.0);
        for level in levels {
            let _ = LevelMetrics::register(level);
        }
        let _ = LevelMetrics::due();
        let confirm = |kind| histogram(&catalogue::CONFIRM, &[("kind", kind)]);
        let steps = |direction| counter(&catalogue::CLOCK_STEPS, &[("direction", direction)]);
        Self {
            bridges: bridges
                .into_iter()
                .map(|name| (name.to_owned(), BridgeMetrics::register(name)))
                .collect(),
            unknown_bridge: BridgeMetrics::register(UNKNOWN_BRIDGE),
            unreadable: counter(&catalogue::UNREADABLE, &[]),
            held_messages: gauge(&catalogue::HELD_MESSAGES, &[]),
            held_bytes: gauge(&catalogue::HELD_BYTES, &[]),
            due_messages: gauge(&catalogue::DUE_MESSAGES, &[]),
            unsettled_due: gauge(&catalogue::UNSETTLED, &[("source", "due")]),
            confirm_bundle: confirm("bundle"),
            confirm_deliver: confirm("deliver"),
            confirm_park: confirm("park"),
            consume: RoleMetrics::register(Role::Consume, workers),
            publish: RoleMetrics::register(Role::Publish, workers),
            steps_back: steps("back"),
            steps_forward: steps("forward"),
            last_step: gauge(&catalogue::CLOCK_LAST_STEP, &[]),
            aged: Mutex::default(),
        }
    }

    /// The metrics of the bridge of this name, or those of all unknown bridges together.
    #[must_use]
    pub fn bridge(&self, name: &str) -> &BridgeMetrics {
        self.bridges.get(name).unwrap_or(&self.unknown_bridge)
    }

    /// The metrics of the connections of one more worker.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections::of(&self.consume, &self.publish)
    }

    /// An envelope could not be read and was parked whole.
    pub fn unreadable_bundle(&self, detail: &str) {
        self.unreadable.increment(1);
        self.unknown_bridge.parked(Reason::UnreadableBundle, detail);
    }

    /// One more flow's share in what waits in memory, and in what is due.
    #[must_use]
    pub fn held(&self) -> HeldMetrics {
        HeldMetrics {
            messages: Share::of(&self.held_messages),
            bytes: Share::of(&self.held_bytes),
            due: Share::of(&self.due_messages),
        }
    }

    /// One consumer's share in the deliveries from the due queue that are unacknowledged.
    #[must_use]
    pub fn unsettled_due(&self) -> Share {
        Share::of(&self.unsettled_due)
    }

    /// The broker confirmed a publish after `elapsed`.
    pub fn confirmed(&self, published: Published, elapsed: Duration) {
        let histogram = match published {
            Published::Bundle => &self.confirm_bundle,
            Published::Delivery => &self.confirm_deliver,
            Published::Parked => &self.confirm_park,
        };
        histogram.record(elapsed);
    }

    /// The system clock stepped against the monotonic clock by so many milliseconds; negative is back.
    pub fn clock_stepped(&self, step_ms: i64) {
        if step_ms < 0 { &self.steps_back } else { &self.steps_forward }.increment(1);
        self.last_step.set(step_ms as f64 / 1000.0);
        tracing::warn!(step_ms, "the system clock stepped; check the host's time synchronisation");
    }

    /// An audit found so many policies in force that would break one of Leveret's queues. Registered at the first
    /// audit: without one the number is unknown, not zero.
    pub fn policy_conflicts(&self, conflicts: usize) {
        gauge(&catalogue::POLICY_CONFLICTS, &[]).set(conflicts as f64);
    }

    /// The broker says how much is ready in one of Leveret's queues, and how old its head is where it knows.
    /// Registered when first known: an unknown depth is absent, not zero. An age that is known no longer must not stay:
    /// it is zero where the queue is empty, else not a number.
    pub fn queue_observed(&self, role: QueueRole, queue: &str, ready: u64, oldest_age: Option<Duration>) {
        let labels = &[("kind", role.as_str()), ("queue", queue)];
        gauge(&catalogue::QUEUE_READY, labels).set(ready as f64);
        let mut aged = self.aged.lock().unwrap_or_else(PoisonError::into_inner);
        let age = match oldest_age {
            Some(age) => {
                aged.insert(queue.to_owned());
                age.as_secs_f64()
            }
            None if !aged.contains(queue) => return,
            None if ready == 0 => 0.0,
            None => f64::NAN,
        };
        gauge(&catalogue::QUEUE_OLDEST_AGE, labels).set(age);
    }
}

fn counter(entry: &Entry, labels: &[(&'static str, &str)]) -> Counter {
    metrics::counter!(entry.name, owned(labels))
}

fn gauge(entry: &Entry, labels: &[(&'static str, &str)]) -> Gauge {
    metrics::gauge!(entry.name, owned(labels))
}

fn histogram(entry: &Entry, labels: &[(&'static str, &str)]) -> Histogram {
    metrics::histogram!(entry.name, owned(labels))
}

fn owned(labels: &[(&'static str, &str)]) -> Vec<Label> {
    labels.iter().map(|(key, value)| Label::new(*key, (*value).to_owned())).collect()
}

/// An exporter of a recorder of its own, with one gauge in it, for tests of what shows it.
#[cfg(test)]
pub(crate) fn test_exporter() -> Exporter {
    use metrics::Recorder;
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let key = metrics::Key::from_static_name("leveret_test");
    let metadata = metrics::Metadata::new(module_path!(), metrics::Level::INFO, None);
    recorder.register_gauge(&key, &metadata).set(1.0);
    Exporter::of(&recorder)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The configuration refuses such names; the rendering must not depend on that.
    const ODD: &str = "mail \"eu\"\nand \\ more";

    /// What is exported while that what `touch` returns is kept.
    fn rendered<T>(touch: impl FnOnce(&Metrics) -> T) -> String {
        let recorder = exporter::recorder().unwrap();
        metrics::with_local_recorder(&recorder, || {
            exporter::describe_all();
            let _kept = touch(&Metrics::new(1, ["orders", ODD], ["125ms", "1s"]));
            Exporter::of(&recorder).render()
        })
    }

    fn touch_all(metrics: &Metrics) -> (Vec<Share>, HeldMetrics) {
        let mut unsettled = vec![metrics.unsettled_due()];
        unsettled[0].set(4);
        for bridge in ["orders", ODD, "gone"] {
            let bridge = metrics.bridge(bridge);
            bridge.accepted(Duration::from_secs(5));
            bridge.delivered(Duration::from_millis(3), 2);
            bridge.dropped("id");
            bridge.retried("id");
            unsettled.push(bridge.unsettled());
            for reason in Reason::ALL {
                bridge.parked(reason, "detail");
            }
        }
        LevelMetrics::register("1s").entered(7, 700);
        LevelMetrics::due().entered(1, 100);
        metrics.unreadable_bundle("bad magic");
        let held = metrics.held();
        held.set(2, 512);
        held.set_due(3);
        for published in [Published::Bundle, Published::Delivery, Published::Parked] {
            metrics.confirmed(published, Duration::from_millis(2));
        }
        let connections = metrics.connections();
        connections.lost("it is away", Duration::ZERO);
        for role in [Role::Consume, Role::Publish] {
            let connection = connections.role(role);
            connection.connected("localhost:5672");
            connection.blocked("low on memory");
        }
        metrics.clock_stepped(-1_500);
        metrics.clock_stepped(250);
        metrics.policy_conflicts(1);
        metrics.queue_observed(QueueRole::Level, "leveret.level.1s", 12, Some(Duration::from_secs(1)));
        (unsettled, held)
    }

    #[test]
    fn everything_in_the_catalogue_is_exported_and_nothing_else() {
        let text = rendered(touch_all);
        let typed: BTreeSet<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        let listed: BTreeSet<(&str, &str)> =
            catalogue().iter().map(|entry| (entry.name, entry.kind.as_str())).collect();
        assert_eq!(typed, listed);
        for entry in catalogue() {
            assert!(text.contains(&format!("# HELP {} {}\n", entry.name, entry.help)), "{}", entry.name);
        }
    }

    #[test]
    fn series_carry_exactly_the_labels_of_the_catalogue() {
        let text = rendered(touch_all);
        for entry in catalogue() {
            let series = match entry.kind {
                Kind::Histogram(_) => format!("{}_count", entry.name),
                _ => entry.name.to_owned(),
            };
            let line = text
                .lines()
                .find(|line| line.strip_prefix(&series).is_some_and(|rest| rest.starts_with(['{', ' '])))
                .unwrap_or_else(|| panic!("no series of {series}"));
            assert_eq!(line.matches("=\"").count(), entry.labels.len(), "{line}");
            for label in entry.labels {
                assert!(line.contains(&format!("{label}=\"")), "{line}");
            }
        }
    }

    #[test]
    fn values_arrive() {
        let text = rendered(touch_all);
        for line in [
            "leveret_messages_accepted_total{bridge=\"orders\"} 1",
            "leveret_messages_accepted_total{bridge=\"(unknown)\"} 1",
            "leveret_delivery_lateness_seconds_bucket{bridge=\"orders\",le=\"0.002\"} 0",
            "leveret_delivery_lateness_seconds_bucket{bridge=\"orders\",le=\"0.005\"} 1",
            "leveret_message_hops_sum{bridge=\"orders\"} 2",
            "leveret_messages_parked_total{bridge=\"(unknown)\",reason=\"unreadable-bundle\"} 2",
            "leveret_level_messages_total{level=\"1s\"} 7",
            "leveret_level_bundle_bytes_total{level=\"due\"} 100",
            "leveret_bundle_messages_count 2",
            "leveret_bundle_bytes_bucket{le=\"1024\"} 2",
            "leveret_bundle_bytes_sum 800",
            "leveret_held_bytes 512",
            "leveret_due_messages 3",
            "leveret_unsettled_deliveries{source=\"due\"} 4",
            "leveret_connection_up{role=\"publish\"} 1",
            "leveret_clock_steps_total{direction=\"back\"} 1",
            "leveret_clock_last_step_seconds 0.25",
            "leveret_queue_messages_ready{kind=\"level\",queue=\"leveret.level.1s\"} 12",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn an_age_that_is_known_no_longer_does_not_stay() {
        let text = rendered(|metrics| {
            let observed = |queue, ready, age: Option<u64>| {
                metrics.queue_observed(QueueRole::Due, queue, ready, age.map(Duration::from_secs));
            };
            observed("emptied", 1, Some(9));
            observed("emptied", 0, None);
            observed("unsure", 1, Some(9));
            observed("unsure", 1, None);
            observed("silent", 1, None);
        });
        let ages: Vec<_> = text.lines().filter(|line| line.starts_with("leveret_queue_oldest")).collect();
        let series = |queue| format!("leveret_queue_oldest_age_seconds{{kind=\"due\",queue=\"{queue}\"}}");
        let expected = [format!("{} 0", series("emptied")), format!("{} NaN", series("unsure"))];
        assert_eq!(BTreeSet::from_iter(ages), expected.iter().map(String::as_str).collect());
    }

    #[test]
    fn label_values_are_escaped() {
        let text = rendered(touch_all);
        let line = r#"leveret_messages_accepted_total{bridge="mail \"eu\"\nand \\ more"} 1"#;
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }

    #[test]
    fn counters_start_at_zero_and_what_is_unknown_is_absent() {
        let text = rendered(|_| ());
        assert!(
            text.contains("leveret_messages_parked_total{bridge=\"orders\",reason=\"invalid-delay\"} 0\n"),
            "{text}"
        );
        assert!(text.contains("leveret_level_messages_total{level=\"125ms\"} 0\n"), "{text}");
        assert!(text.contains("leveret_connection_up{role=\"consume\"} 0\n"), "{text}");
        for unknown in
            ["leveret_policy_conflicts", "leveret_queue_messages_ready", "leveret_queue_oldest_age_seconds"]
        {
            assert!(!text.contains(unknown), "{text}");
        }
    }
}
