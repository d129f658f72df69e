//! `leveret parked list`.

use serde_json::{Value, json};

use super::super::exit::{Exit, Outcome};
use super::super::output::{counted, exchange, harmless, moment, note, print, print_json, table};
use super::filter::Filter;
use super::pass::Pass;
use crate::amqp::topology::Names;
use crate::config::Config;
use crate::domain::time::UnixMillis;
use crate::engine::parked::Parked;

/// How much is looked at.
pub(super) struct Most {
    pub(super) shown: u64,
    pub(super) passed_over: u64,
}

/// Lists messages that match, those that were parked first at the top.
pub(super) async fn list(config: &Config, filter: &Filter, most: Most, as_json: bool) -> Outcome {
    let names = Names::new(&config.namespace);
    let mut pass = Pass::begin(config, most.shown.saturating_add(most.passed_over)).await?;
    let ready = pass.ready;
    let mut found = Vec::new();
    let (mut passed_over, mut seen) = (0, 0);
    while (found.len() as u64) < most.shown && passed_over < most.passed_over {
        let Some(delivery) = pass.next().await? else { break };
        let parked = Parked::read(&delivery, &names);
        seen += 1;
        if filter.matches(&parked) { found.push(parked) } else { passed_over += 1 }
    }
    pass.end().await?;
    // A quorum queue puts what was looked at before behind the rest of it.
    found.sort_by(|a, b| (a.parked_at, &a.id).cmp(&(b.parked_at, &b.id)));
    if as_json {
        print_json(&found.iter().map(object).collect::<Value>())?;
    } else if !found.is_empty() {
        print(&in_columns(&found))?;
    }
    if found.is_empty() && !as_json {
        note(&if ready == 0 { "nothing is parked" } else { "no parked message matches" });
    }
    if seen < ready {
        let looked = counted(seen, "message");
        note(&format_args!(
            "looked at {looked} of {ready} that are parked: raise --limit or --scan for more"
        ));
    }
    Ok(Exit::Success)
}

fn in_columns(found: &[Parked]) -> String {
    let known = |time: Option<UnixMillis>| time.map_or_else(|| "-".to_owned(), moment);
    let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { harmless(text) };
    let rows: Vec<_> = found
        .iter()
        .map(|parked| {
            [
                dash(parked.id.as_deref().unwrap_or_default()),
                dash(&parked.reason),
                dash(&parked.bridge),
                parked.target.as_deref().map_or_else(|| "-".to_owned(), exchange),
                dash(&parked.routing_key),
                known(parked.due),
                known(parked.parked_at),
                parked.body_bytes.to_string(),
                harmless(&parked.detail),
            ]
        })
        .collect();
    let head = ["ID", "REASON", "BRIDGE", "TARGET", "ROUTING KEY", "DUE", "PARKED", "BYTES", "DETAIL"];
    table(head, &rows)
}

fn object(parked: &Parked) -> Value {
    let Parked { id, reason, detail, bridge, target, routing_key, due, parked_at, body_bytes } = parked;
    json!({
        "id": id,
        "reason": reason,
        "detail": detail,
        "bridge": bridge,
        "target": target,
        "routing_key": routing_key,
        "due": due.map(moment),
        "due_ms": due.map(|due| due.0),
        "parked_at": parked_at.map(moment),
        "parked_at_ms": parked_at.map(|at| at.0),
        "body_bytes": body_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_a_dash_and_the_default_exchange_has_a_name() {
        let parked = Parked {
            id: None,
            reason: "dead-lettered".to_owned(),
            detail: "a\u{1b}b".to_owned(),
            bridge: "orders".to_owned(),
            target: Some(String::new()),
            routing_key: String::new(),
            due: Some(UnixMillis(1_767_225_600_000)),
            parked_at: None,
            body_bytes: 5,
        };
        let text = in_columns(std::slice::from_ref(&parked));
        let words: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = [
            "-",
            "dead-lettered",
            "orders",
            "(default)",
            "-",
            "2026-01-01T00:00:00.000Z",
            "-",
            "5",
            "a\\u{1b}b",
        ];
        assert_eq!(words, expected);
        assert_eq!(object(&parked)["due_ms"], 1_767_225_600_000_u64);
    }
}
