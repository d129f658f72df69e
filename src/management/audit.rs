//! Which policies in force would break one of Leveret's queues. Pure: it judges what the broker reported.
//!
//! A policy is matched by name, so one written for other queues (`".*"`) takes Leveret's too, arguments or not.
//! What is harmless is as deliberate here as what is not: refusing to start costs the operator as much as a fault.

use std::fmt;

use serde_json::Value;

use super::QueueInfo;
use crate::domain::queue::QueueRole;

/// The broker looks at consumer timeouts about once a minute, and Leveret settles well within that.
const SHORTEST_CONSUMER_TIMEOUT_MS: u64 = 60_000;

/// What a lost consumer had taken comes back after a minute at most where no policy says otherwise.
const LATEST_RETURN_MS: u64 = 60_000;

/// One key of a policy that would break a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The queue.
    pub queue: String,
    /// Who demands it: the names of the policy and the operator policy in force.
    pub origin: String,
    /// The key.
    pub key: String,
    /// Its value, as JSON.
    pub value: String,
    /// What would happen, as a sentence without its end.
    pub consequence: &'static str,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, origin, key, value, consequence } = self;
        write!(
            f,
            "{origin} sets {key} to {value} on queue {queue:?}: {consequence}; exclude the queue from the policy's \
             pattern, or give the queue a policy of higher priority without {key}"
        )
    }
}

/// Each key of the queue's effective policy that would break it in this role, in order of the key.
///
/// Of a queue whose effective policy is not known (`None`) there is nothing to say: ask again later, see
/// [`ManagementClient::queues_with_policies`](super::ManagementClient::queues_with_policies).
#[must_use]
pub fn conflicts(queue: &QueueInfo, role: QueueRole) -> Vec<Conflict> {
    let demands = queue.effective_policy_definition.iter().flatten();
    let mut conflicts: Vec<_> = demands
        .filter_map(|(key, value)| {
            Some(Conflict {
                queue: queue.name.clone(),
                origin: origin(queue),
                key: key.clone(),
                value: value.to_string(),
                consequence: consequence(queue, role, key, value)?,
            })
        })
        .collect();
    conflicts.sort_by(|a, b| a.key.cmp(&b.key));
    conflicts
}

/// The broker merges both policies and does not say which key is whose.
fn origin(queue: &QueueInfo) -> String {
    match (&queue.policy, &queue.operator_policy) {
        (Some(policy), None) => format!("policy {policy:?}"),
        (None, Some(operator)) => format!("operator policy {operator:?}"),
        (Some(policy), Some(operator)) => format!("policy {policy:?} or operator policy {operator:?}"),
        (None, None) => "a policy".to_owned(),
    }
}

/// What the key would do to the queue, or `None` where it does no harm.
fn consequence(queue: &QueueInfo, role: QueueRole, key: &str, value: &Value) -> Option<&'static str> {
    match key {
        "message-ttl" => message_ttl(queue, role, value),
        "expires" => Some(expires(role)),
        "max-length" | "max-length-bytes" => max_length(queue, role),
        "overflow" => overflow(queue, role, value),
        "dead-letter-exchange" => dead_letter_exchange(queue, role),
        "delivery-limit" => delivery_limit(queue, role, value),
        "consumer-timeout" => consumer_timeout(role, value),
        "consumer-disconnected-timeout" => consumer_disconnected_timeout(queue, role, value),
        "delayed-retry-min" => delayed_retry(queue, role, value),
        // Harmless:
        // - `dead-letter-strategy`: the argument wins on a quorum level, and a classic queue has no strategy. On the
        //   other queues either strategy brings the message to the parked queue.
        // - `dead-letter-routing-key`: due and parked are fed by fanout exchanges, which look at no key; the key that
        //   an ingress message was published with stays in its `x-death`.
        // - `queue-mode`, `queue-version`, `max-in-memory-*`, `ha-*`, `*-locator`, `*-group-size`: where and how the
        //   broker keeps messages, not for how long.
        // - `delayed-retry-type` and `delayed-retry-max` (4.3): without a long minimum, what comes back comes soon.
        // - Whatever a later broker adds: refusing to start on an unknown key would make every upgrade an outage.
        _ => None,
    }
}

fn message_ttl(queue: &QueueInfo, role: QueueRole, value: &Value) -> Option<&'static str> {
    match role {
        // The broker takes the smaller of policy and argument, so a longer policy changes nothing. With a shorter one
        // the level is not what its name says: a message that comes out is taken to have served the level's TTL.
        QueueRole::Level => {
            let own = queue.arguments.get("x-message-ttl").and_then(Value::as_u64);
            let harmless = value.as_u64().zip(own).is_some_and(|(policy, own)| policy >= own);
            (!harmless)
                .then_some("bundles would leave the level before its time, and messages could come early")
        }
        QueueRole::Ingress | QueueRole::Due => {
            Some("messages that wait while leveret is stopped or slow would be parked instead of delivered")
        }
        QueueRole::Parked => Some("parked messages would be deleted before anybody looked at them"),
    }
}

/// Any value: publishing to a queue is no use of it, and nothing ever consumes from a level or from parked.
fn expires(role: QueueRole) -> &'static str {
    match role {
        QueueRole::Level => "the broker would delete the level together with the bundles that wait in it",
        QueueRole::Ingress | QueueRole::Due => {
            "the broker would delete the queue and its messages when leveret is stopped for that long"
        }
        QueueRole::Parked => "the broker would delete the queue together with the parked messages",
    }
}

/// Any value: a limit that is never reached needs no policy.
fn max_length(queue: &QueueInfo, role: QueueRole) -> Option<&'static str> {
    match (role, refuses_publishes(queue)) {
        // A limit on intake whose publishers are told is back-pressure, which is the operator's to choose.
        (QueueRole::Ingress, true) => None,
        (QueueRole::Ingress, false) => Some("the oldest messages would be parked when the queue is full"),
        (QueueRole::Level, true) => {
            Some("bundles would be refused when the level is full, and intake would stop")
        }
        (QueueRole::Level, false) => {
            Some("bundles would leave a full level before their time, and messages could come early")
        }
        (QueueRole::Due, true) => Some(
            "levels would stop for minutes at a time when the queue is full, since it refuses their bundles",
        ),
        (QueueRole::Due, false) => {
            Some("bundles of messages that are due would be parked when the queue is full")
        }
        (QueueRole::Parked, true) => {
            Some("messages could not be parked when the queue is full, and would block others")
        }
        (QueueRole::Parked, false) => {
            Some("the oldest parked messages would be deleted when the queue is full")
        }
    }
}

/// Without a length limit there is nothing to overflow, with one exception: a quorum level needs `reject-publish` for
/// at-least-once dead-lettering, and there the policy wins over the argument.
fn overflow(queue: &QueueInfo, role: QueueRole, value: &Value) -> Option<&'static str> {
    let breaks = role == QueueRole::Level && is_quorum(queue) && value != "reject-publish";
    breaks.then_some(
        "the level would dead-letter at most once, and a bundle could be lost on its way to the due queue",
    )
}

/// The argument wins over the policy, so this counts only where a queue was declared without it.
fn dead_letter_exchange(queue: &QueueInfo, role: QueueRole) -> Option<&'static str> {
    if queue.arguments.contains_key("x-dead-letter-exchange") {
        return None;
    }
    match role {
        QueueRole::Level => Some("bundles whose time is over would go there instead of to the due queue"),
        QueueRole::Ingress | QueueRole::Due => {
            Some("messages that the broker gives up on would go there instead of to the parked queue")
        }
        // It is declared without, and nothing in it dies: no TTL, no limit, discarding acknowledges.
        QueueRole::Parked => None,
    }
}

/// A negative one means "no limit" where policies may say so (from 4.0); before, the broker takes no such policy.
fn delivery_limit(queue: &QueueInfo, role: QueueRole, value: &Value) -> Option<&'static str> {
    if !is_quorum(queue) || value.as_i64().is_some_and(|limit| limit < 0) {
        return None;
    }
    match role {
        // Levels have no consumer, and dead-lettering returns nothing.
        QueueRole::Level => None,
        QueueRole::Ingress | QueueRole::Due => Some(
            "messages in flight would be parked instead of delivered after that many crashes or lost connections",
        ),
        QueueRole::Parked => Some("looking at the parked messages that many times would delete them"),
    }
}

fn consumer_timeout(role: QueueRole, value: &Value) -> Option<&'static str> {
    let consumed = matches!(role, QueueRole::Ingress | QueueRole::Due);
    let breaks = consumed && value.as_u64().is_none_or(|timeout| timeout < SHORTEST_CONSUMER_TIMEOUT_MS);
    breaks.then_some(
        "the broker would take back bundles that are still being delivered, and messages would come twice",
    )
}

/// Of a consumer whose node is lost.
fn consumer_disconnected_timeout(queue: &QueueInfo, role: QueueRole, value: &Value) -> Option<&'static str> {
    let consumed = matches!(role, QueueRole::Ingress | QueueRole::Due);
    (consumed && is_quorum(queue) && comes_back_late(value)).then_some(
        "messages that were in flight when a node of the broker was lost would come that much later",
    )
}

/// Where the broker returns messages only after a while: after crashes, or whenever they are given back.
fn delayed_retry(queue: &QueueInfo, role: QueueRole, value: &Value) -> Option<&'static str> {
    let kind = queue.effective_policy_definition.as_ref().and_then(|policy| policy.get("delayed-retry-type"));
    let is_on = kind.is_some_and(|kind| kind != "disabled");
    if !is_on || !is_quorum(queue) || !comes_back_late(value) {
        return None;
    }
    match role {
        // Levels have no consumer, and dead-lettering returns nothing.
        QueueRole::Level => None,
        QueueRole::Ingress | QueueRole::Due => {
            Some("messages that were in flight at a crash or a lost connection would come that much later")
        }
        QueueRole::Parked => Some("parked messages that were looked at would be out of sight for that long"),
    }
}

fn comes_back_late(value: &Value) -> bool {
    value.as_u64().is_none_or(|millis| millis > LATEST_RETURN_MS)
}

/// Whether publishers to the full queue are told so. Of policy and argument, the policy wins on a quorum queue and the
/// argument on a classic one. `reject-publish-dlx` tells them too, but parks the message besides.
fn refuses_publishes(queue: &QueueInfo) -> bool {
    let policy = queue.effective_policy_definition.as_ref().and_then(|definition| definition.get("overflow"));
    let argument = queue.arguments.get("x-overflow");
    let overflow = if is_quorum(queue) { policy.or(argument) } else { argument.or(policy) };
    overflow.is_some_and(|overflow| overflow == "reject-publish")
}

fn is_quorum(queue: &QueueInfo) -> bool {
    queue.kind == "quorum"
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use QueueRole::{Due, Ingress, Level, Parked};

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("not an object: {other}"),
        }
    }

    /// A queue as Leveret declares it.
    fn queue(role: QueueRole, kind: &str, policy: Value) -> QueueInfo {
        let arguments = match (role, kind) {
            (Level, "quorum") => json!({
                "x-message-ttl": 1_000, "x-dead-letter-exchange": "leveret.due",
                "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
            }),
            (Level, _) => json!({"x-message-ttl": 1_000, "x-dead-letter-exchange": "leveret.due"}),
            (Ingress | Due, _) => json!({"x-dead-letter-exchange": "leveret.parked"}),
            (Parked, _) => json!({}),
        };
        QueueInfo {
            name: format!("leveret.{role}"),
            kind: kind.to_owned(),
            arguments: object(arguments),
            policy: Some("everything".to_owned()),
            effective_policy_definition: Some(object(policy)),
            ..QueueInfo::default()
        }
    }

    fn broken_keys(role: QueueRole, kind: &str, policy: &Value) -> Vec<String> {
        conflicts(&queue(role, kind, policy.clone()), role).into_iter().map(|conflict| conflict.key).collect()
    }

    /// For each policy, the roles that it breaks: first on quorum queues, then on classic ones.
    #[test]
    fn each_key_breaks_the_roles_that_it_breaks_and_no_other() {
        let all: &[QueueRole] = &[Level, Ingress, Due, Parked];
        let cases: &[(Value, &[QueueRole], &[QueueRole])] = &[
            (json!({"message-ttl": 999}), all, all),
            (json!({"message-ttl": 1_000}), &[Ingress, Due, Parked], &[Ingress, Due, Parked]),
            (json!({"message-ttl": 60_000}), &[Ingress, Due, Parked], &[Ingress, Due, Parked]),
            (json!({"expires": 86_400_000}), all, all),
            (json!({"max-length": 1_000_000}), all, all),
            (json!({"max-length-bytes": 1}), all, all),
            (json!({"overflow": "drop-head"}), &[Level], &[]),
            (json!({"overflow": "reject-publish-dlx"}), &[Level], &[]),
            (json!({"overflow": "reject-publish"}), &[], &[]),
            (
                json!({"max-length": 5, "overflow": "reject-publish"}),
                &[Level, Due, Parked],
                &[Level, Due, Parked],
            ),
            (json!({"dead-letter-exchange": "dlx"}), &[], &[]),
            (json!({"dead-letter-routing-key": "dead"}), &[], &[]),
            (json!({"dead-letter-strategy": "at-most-once"}), &[], &[]),
            (json!({"dead-letter-strategy": "at-least-once"}), &[], &[]),
            (json!({"delivery-limit": 20}), &[Ingress, Due, Parked], &[]),
            (json!({"delivery-limit": 0}), &[Ingress, Due, Parked], &[]),
            (json!({"delivery-limit": -1}), &[], &[]),
            (json!({"consumer-timeout": 59_999}), &[Ingress, Due], &[Ingress, Due]),
            (json!({"consumer-timeout": 1_800_000}), &[], &[]),
            (json!({"consumer-disconnected-timeout": 60_001}), &[Ingress, Due], &[]),
            (json!({"consumer-disconnected-timeout": 60_000}), &[], &[]),
            (json!({"delayed-retry-type": "all", "delayed-retry-min": 60_001}), &[Ingress, Due, Parked], &[]),
            (json!({"delayed-retry-type": "all", "delayed-retry-min": 60_000}), &[], &[]),
            (json!({"delayed-retry-type": "disabled", "delayed-retry-min": 3_600_000}), &[], &[]),
            (json!({"delayed-retry-min": 3_600_000}), &[], &[]),
            (json!({"queue-mode": "lazy", "queue-version": 2, "ha-mode": "all"}), &[], &[]),
            (json!({"max-in-memory-length": 0, "queue-leader-locator": "balanced"}), &[], &[]),
            (json!({}), &[], &[]),
        ];
        for (policy, quorum, classic) in cases {
            for (kind, broken) in [("quorum", quorum), ("classic", classic)] {
                for role in QueueRole::ALL {
                    let keys = broken_keys(role, kind, policy);
                    assert_eq!(
                        !keys.is_empty(),
                        broken.contains(&role),
                        "{policy} on a {kind} {role}: {keys:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_dead_letter_exchange_counts_where_the_queue_was_declared_without() {
        for (role, breaks) in [(Level, true), (Ingress, true), (Due, true), (Parked, false)] {
            let mut queue = queue(role, "quorum", json!({"dead-letter-exchange": "dlx"}));
            queue.arguments.remove("x-dead-letter-exchange");
            assert_eq!(!conflicts(&queue, role).is_empty(), breaks, "{role}");
        }
    }

    #[test]
    fn a_level_whose_own_ttl_is_unknown_is_not_taken_to_be_safe() {
        let mut queue = queue(Level, "quorum", json!({"message-ttl": 60_000}));
        queue.arguments.remove("x-message-ttl");
        assert_eq!(conflicts(&queue, Level).len(), 1);
    }

    #[test]
    fn of_overflow_the_policy_wins_on_quorum_and_the_argument_on_classic() {
        let policy = json!({"max-length": 5, "overflow": "drop-head"});
        for (kind, broken) in [("quorum", true), ("classic", false)] {
            let mut queue = queue(Ingress, kind, policy.clone());
            queue.arguments.insert("x-overflow".to_owned(), json!("reject-publish"));
            assert_eq!(!conflicts(&queue, Ingress).is_empty(), broken, "{kind}");
        }
    }

    #[test]
    fn several_keys_are_all_reported_in_order() {
        let policy = json!({"max-length": 5, "expires": 5, "queue-mode": "lazy", "delivery-limit": 3});
        assert_eq!(broken_keys(Due, "quorum", &policy), ["delivery-limit", "expires", "max-length"]);
    }

    #[test]
    fn nothing_is_said_while_nothing_is_known() {
        let mut queue = queue(Level, "quorum", json!({}));
        queue.effective_policy_definition = None;
        assert_eq!(conflicts(&queue, Level), []);
    }

    #[test]
    fn the_text_names_policy_key_value_queue_and_a_way_out() {
        let mut queue = queue(Level, "quorum", json!({"overflow": "drop-head"}));
        let text = conflicts(&queue, Level)[0].to_string();
        for part in [
            "policy \"everything\"",
            "overflow",
            "\"drop-head\"",
            "\"leveret.level\"",
            "at most once",
            "pattern",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        queue.operator_policy = Some("ops".to_owned());
        assert!(
            conflicts(&queue, Level)[0]
                .to_string()
                .starts_with("policy \"everything\" or operator policy \"ops\"")
        );
        queue.policy = None;
        assert!(conflicts(&queue, Level)[0].to_string().starts_with("operator policy \"ops\" sets"));
    }
}
