//! Every metric by name, once: what it is called, what it counts, in which unit. Touches no recorder.

use metrics::Unit;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only ever grows, from zero at start.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets with these upper bounds, in the metric's unit.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The kind as Prometheus spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One metric of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name, with its unit at the end where it has one.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What one is.
    pub unit: Unit,
    /// The labels that each of its series carries.
    pub labels: &'static [&'static str],
    /// One sentence for a person.
    pub help: &'static str,
}

/// Everything that `/metrics` can show, in the order of the message's path.
#[must_use]
pub fn catalogue() -> &'static [Entry] {
    ALL
}

/// From a millisecond, which is good, to a minute, which is bad.
const LATENESS_BUCKETS: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0];

/// From no delay to a month; the round delays that people use are bounds.
const DELAY_BUCKETS: &[f64] = &[
    0.0,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    1_800.0,
    3_600.0,
    10_800.0,
    43_200.0,
    86_400.0,
    259_200.0,
    604_800.0,
    2_592_000.0,
];

const HOPS_BUCKETS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0, 64.0];

const BUNDLE_BUCKETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0];

const MIB: f64 = 1_048_576.0;

/// Coarse below the size to which bundles are filled; finer near the sizes that brokers refuse (16 and 128 MiB unless configured)
/// and near three quarters of them, from which on there is an alert.
const BUNDLE_BYTES_BUCKETS: &[f64] = &[
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    MIB,
    4.0 * MIB,
    8.0 * MIB,
    12.0 * MIB,
    16.0 * MIB,
    24.0 * MIB,
    32.0 * MIB,
    48.0 * MIB,
    64.0 * MIB,
    96.0 * MIB,
    128.0 * MIB,
];

const CONFIRM_BUCKETS: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Defines a constant for each metric and lists them all, so that none can be missing from the list.
macro_rules! catalogue {
    ($($ident:ident = $name:literal, $kind:expr, $unit:ident, [$($label:literal),*], $help:literal;)*) => {
        $(pub(super) const $ident: Entry = Entry {
            name: $name,
            kind: $kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            help: $help,
        };)*
        const ALL: &[Entry] = &[$($ident),*];
    };
}

use Kind::{Counter, Gauge, Histogram};

catalogue! {
    ACCEPTED = "leveret_messages_accepted_total", Counter, Count, ["bridge"],
        "Messages taken from the bridge's ingress queue.";
    DELAY = "leveret_message_delay_seconds", Histogram(DELAY_BUCKETS), Seconds, ["bridge"],
        "Delay that each accepted message asked for.";
    DELIVERED = "leveret_messages_delivered_total", Counter, Count, ["bridge"],
        "Messages that the broker confirmed at their target.";
    LATENESS = "leveret_delivery_lateness_seconds", Histogram(LATENESS_BUCKETS), Seconds, ["bridge"],
        "Time from the moment a message was due to the moment its target confirmed it.";
    HOPS = "leveret_message_hops", Histogram(HOPS_BUCKETS), Count, ["bridge"],
        "Stays in a level that each delivered message needed; many hops mean that an extra level would pay.";
    DROPPED = "leveret_messages_dropped_total", Counter, Count, ["bridge"],
        "Messages that no queue was bound for, on bridges configured to drop those.";
    RETRIED = "leveret_deliveries_retried_total", Counter, Count, ["bridge"],
        "Deliveries that a target's queue refused for now and that will be tried again.";
    PARKED = "leveret_messages_parked_total", Counter, Count, ["bridge", "reason"],
        "Messages moved to the parked queue because they could not be delivered.";

    LEVEL_MESSAGES = "leveret_level_messages_total", Counter, Count, ["level"],
        "Messages that entered the level: hops.";
    LEVEL_BUNDLES = "leveret_level_bundles_total", Counter, Count, ["level"],
        "Bundles published to the level.";
    LEVEL_BYTES = "leveret_level_bundle_bytes_total", Counter, Bytes, ["level"],
        "Bytes of the bundles published to the level.";
    BUNDLE_MESSAGES = "leveret_bundle_messages", Histogram(BUNDLE_BUCKETS), Count, [],
        "Messages in each bundle published.";
    BUNDLE_BYTES = "leveret_bundle_bytes", Histogram(BUNDLE_BYTES_BUCKETS), Bytes, [],
        "Bytes of each bundle published; the broker refuses what is larger than its max_message_size.";
    UNREADABLE = "leveret_bundles_unreadable_total", Counter, Count, [],
        "Envelopes parked whole because this version could not read them.";

    HELD_MESSAGES = "leveret_held_messages", Gauge, Count, [],
        "Messages waiting in memory for the last stretch of their delay.";
    HELD_BYTES = "leveret_held_bytes", Gauge, Bytes, [],
        "Bytes of the messages waiting in memory.";
    DUE_MESSAGES = "leveret_due_messages", Gauge, Count, [],
        "Messages whose moment has come, and that no target has confirmed yet.";
    UNSETTLED = "leveret_unsettled_deliveries", Gauge, Count, ["source"],
        "Deliveries taken from the broker and not yet acknowledged.";
    CONFIRM = "leveret_publish_confirm_seconds", Histogram(CONFIRM_BUCKETS), Seconds, ["kind"],
        "Time from a publish to the broker's confirm.";

    CONNECTION_UP = "leveret_connection_up", Gauge, Count, ["role"],
        "1 while the connection to the broker is open, of each worker.";
    CONNECTION_BLOCKED = "leveret_connection_blocked", Gauge, Count, ["role"],
        "1 while the broker blocks the connection, of any worker, because of a memory or disk alarm.";
    RECONNECTS = "leveret_reconnects_total", Counter, Count, ["role"],
        "Times the connection was lost or refused and is tried again.";

    CLOCK_STEPS = "leveret_clock_steps_total", Counter, Count, ["direction"],
        "Steps of the system clock against the monotonic clock.";
    CLOCK_LAST_STEP = "leveret_clock_last_step_seconds", Gauge, Seconds, [],
        "Size of the last step of the system clock; negative when it went back.";
    POLICY_CONFLICTS = "leveret_policy_conflicts", Gauge, Count, [],
        "Policies in force that would break a queue of Leveret's; absent where they cannot be audited.";
    QUEUE_READY = "leveret_queue_messages_ready", Gauge, Count, ["kind", "queue"],
        "Messages ready in the queue (bundles, in levels and due); absent where it is not known.";
    QUEUE_OLDEST_AGE = "leveret_queue_oldest_age_seconds", Gauge, Seconds, ["kind", "queue"],
        "Age of the message at the head of the queue; absent where it is not known.";

    BUILD_INFO = "leveret_build_info", Gauge, Count, ["version"],
        "Always 1; the version is its label.";

    PROCESS_CPU = "process_cpu_seconds_total", Counter, Seconds, [],
        "User and system CPU time spent.";
    PROCESS_RESIDENT = "process_resident_memory_bytes", Gauge, Bytes, [],
        "Resident memory.";
    PROCESS_VIRTUAL = "process_virtual_memory_bytes", Gauge, Bytes, [],
        "Virtual memory.";
    PROCESS_THREADS = "process_threads", Gauge, Count, [],
        "Threads of the process.";
    PROCESS_OPEN_FDS = "process_open_fds", Gauge, Count, [],
        "Open file descriptors.";
    PROCESS_MAX_FDS = "process_max_fds", Gauge, Count, [],
        "File descriptors that may be open.";
    PROCESS_START = "process_start_time_seconds", Gauge, Seconds, [],
        "When the process started, since the Unix epoch.";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        let mut seen = HashSet::new();
        for entry in catalogue() {
            assert!(seen.insert(entry.name), "{} is there twice", entry.name);
            assert!(
                entry.name.starts_with("leveret_") || entry.name.starts_with("process_"),
                "{}",
                entry.name
            );
            assert_eq!(entry.kind == Counter, entry.name.ends_with("_total"), "{}", entry.name);
            let base = entry.name.trim_end_matches("_total");
            match entry.unit {
                Unit::Seconds => assert!(base.ends_with("_seconds"), "{}", entry.name),
                Unit::Bytes => assert!(base.ends_with("_bytes"), "{}", entry.name),
                _ => assert_eq!(entry.unit, Unit::Count, "{}", entry.name),
            }
            assert!(entry.help.ends_with('.'), "{}: {}", entry.name, entry.help);
        }
    }

    #[test]
    fn buckets_ascend() {
        for entry in catalogue() {
            if let Histogram(buckets) = entry.kind {
                assert!(!buckets.is_empty() && buckets.is_sorted_by(|a, b| a < b), "{}", entry.name);
            }
        }
    }
}
