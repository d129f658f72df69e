//! What the management API answers, as far as Leveret needs it.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The broker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Overview {
    /// The server's version, such as `4.3.6`.
    pub rabbitmq_version: String,
    /// The cluster's name.
    #[serde(default)]
    pub cluster_name: String,
}

/// The user that asks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its tags, such as `administrator` or `impersonator`.
    #[serde(default, deserialize_with = "tags")]
    pub tags: Vec<String>,
}

/// A queue. What comes from the broker's statistics is absent for some seconds after a declaration, and for ever where
/// statistics are switched off (`management_agent.disable_metrics_collector`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// `quorum`, `classic` or `stream`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// What it was declared with.
    #[serde(default, deserialize_with = "object")]
    pub arguments: Map<String, Value>,
    /// The name of the policy in force.
    #[serde(default)]
    pub policy: Option<String>,
    /// The name of the operator policy in force.
    #[serde(default)]
    pub operator_policy: Option<String>,
    /// What policy and operator policy demand together. `None`: not known yet, which is not the same as nothing.
    #[serde(default, deserialize_with = "optional_object")]
    pub effective_policy_definition: Option<Map<String, Value>>,
    /// Messages ready and unacknowledged.
    #[serde(default)]
    pub messages: Option<u64>,
    /// Messages ready.
    #[serde(default)]
    pub messages_ready: Option<u64>,
    /// Consumers.
    #[serde(default)]
    pub consumers: Option<u64>,
    /// The `timestamp` property of the first message, in Unix seconds; classic queues alone know it.
    #[serde(default, deserialize_with = "optional_integer")]
    pub head_message_timestamp: Option<i64>,
    /// The node that the queue (or its leader) is on.
    #[serde(default)]
    pub node: Option<String>,
    /// The leader's node, of a quorum queue.
    #[serde(default)]
    pub leader: Option<String>,
    /// Such as `running`, `idle`, `down`.
    #[serde(default)]
    pub state: Option<String>,
}

impl QueueInfo {
    /// The columns to ask the API for, so that it computes and sends no others.
    pub(super) const COLUMNS: &str = "name,type,arguments,policy,operator_policy,effective_policy_definition,\
        messages,messages_ready,consumers,head_message_timestamp,node,leader,state";
}

/// A policy or an operator policy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// A regular expression on the names of what it is for.
    pub pattern: String,
    /// `all`, `queues`, `classic_queues`, `quorum_queues`, `streams` or `exchanges`.
    #[serde(rename = "apply-to", default)]
    pub apply_to: String,
    /// What it demands.
    #[serde(default, deserialize_with = "object")]
    pub definition: Map<String, Value>,
    /// Of several that match, the highest is in force.
    #[serde(default)]
    pub priority: i64,
}

/// One page of queues.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) items: Vec<QueueInfo>,
    pub(super) page_count: u64,
}

/// What comes with an error status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) error: String,
    pub(super) reason: String,
}

/// Up to 3.8 the tags are one text with commas.
fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Tags {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Tags::deserialize(deserializer)? {
        Tags::List(tags) => tags,
        Tags::Text(text) => text.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
    })
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Ok(optional_object(deserializer)?.unwrap_or_default())
}

/// Erlang cannot tell an empty object from an empty list, and some versions send the latter.
fn optional_object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<String, Value>>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Object(map) => Ok(Some(map)),
        Value::Array(list) if list.is_empty() => Ok(Some(Map::new())),
        Value::Null => Ok(None),
        other => Err(serde::de::Error::custom(format_args!("expected an object, found {other}"))),
    }
}

/// A head without a timestamp is null in some versions and an empty text in others.
fn optional_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_i64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_queue_has_no_known_policy_and_an_unmatched_one_has_an_empty_one() {
        let new: QueueInfo = serde_json::from_value(json!({"name": "q", "type": "quorum"})).unwrap();
        assert_eq!(new.effective_policy_definition, None);
        for empty in [json!({}), json!([])] {
            let queue = json!({"name": "q", "policy": null, "effective_policy_definition": empty});
            let queue: QueueInfo = serde_json::from_value(queue).unwrap();
            assert_eq!(queue.effective_policy_definition, Some(Map::new()));
        }
        let wrong = json!({"name": "q", "effective_policy_definition": 5});
        serde_json::from_value::<QueueInfo>(wrong).unwrap_err();
    }

    #[test]
    fn tags_are_a_list_or_a_text() {
        for (tags, expected) in [
            (json!(["monitoring", "impersonator"]), vec!["monitoring", "impersonator"]),
            (json!("monitoring,impersonator"), vec!["monitoring", "impersonator"]),
            (json!(""), vec![]),
        ] {
            let user: User = serde_json::from_value(json!({"name": "me", "tags": tags})).unwrap();
            assert_eq!(user.tags, expected);
        }
    }

    #[test]
    fn a_head_without_a_timestamp_is_no_error() {
        for (timestamp, expected) in
            [(json!(""), None), (json!(null), None), (json!(1_700_000_000), Some(1_700_000_000))]
        {
            let queue = json!({"name": "q", "head_message_timestamp": timestamp});
            let queue: QueueInfo = serde_json::from_value(queue).unwrap();
            assert_eq!(queue.head_message_timestamp, expected);
        }
    }
}
