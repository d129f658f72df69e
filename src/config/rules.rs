//! The rules between values: what is valid by itself may still contradict something else.

use std::collections::HashMap;

use super::duration;
use super::limits;
use super::reader::Field;
use super::{BridgeConfig, Config};

/// Notes everything that contradicts.
pub(super) fn check(config: &Config, root: &Field<'_>) {
    let namespace = root.at("namespace");
    if let Err(text) = check_name(&config.namespace) {
        namespace.refuse(text);
    } else if config.namespace == "amq" || config.namespace.starts_with("amq.") {
        namespace.refuse("must not begin with `amq`: the broker keeps these names for itself");
    }
    check_shares(config, root);
    let bridges = root.at("bridges");
    if config.bridges.is_empty() && bridges.items().next().is_none() {
        bridges.refuse("must have at least one bridge");
    }
    let places: Vec<_> = bridges.items().collect();
    for (bridge, place) in config.bridges.iter().zip(&places) {
        check_bridge(config, bridge, place);
    }
    check_unique(
        config.bridges.iter().map(|bridge| bridge.name.as_str()),
        places.iter().map(|place| place.at("name")),
    );
    check_unique(
        config.bridges.iter().map(|bridge| bridge.entry.exchange.as_str()),
        places.iter().map(|place| place.at("entry").at("exchange")),
    );
}

/// Each worker has an equal share of what the process may hold.
fn check_shares(config: &Config, root: &Field<'_>) {
    let workers = usize::from(config.workers);
    let hold = root.at("hold").at("max_bytes");
    if config.hold.max_bytes < config.bundle.max_bytes {
        hold.refuse("must be at least bundle.max_bytes: a bundle is held whole");
    } else if config.hold.max_bytes / workers < config.bundle.max_bytes {
        hold.refuse(format!(
            "must be at least bundle.max_bytes for each of the {workers} workers: a bundle is held whole"
        ));
    }
    for (section, prefetch) in [("intake", config.intake.prefetch), ("hold", config.hold.prefetch)] {
        if prefetch < config.workers {
            root.at(section)
                .at("prefetch")
                .refuse(format!("must be at least 1 for each of the {workers} workers"));
        }
    }
}

fn check_bridge(config: &Config, bridge: &BridgeConfig, place: &Field<'_>) {
    // An empty name has been noted as missing.
    if !bridge.name.is_empty()
        && let Err(text) = check_name(&bridge.name)
    {
        place.at("name").refuse(text);
    }
    if bridge.default_delay > config.max_delay {
        let max_delay = duration::format(config.max_delay);
        place
            .at("default_delay")
            .refuse(format!("is longer than max_delay ({max_delay}): every message would be parked"));
    }
    let own = format!("{}.", config.namespace);
    let entry = place.at("entry");
    let exchange = &bridge.entry.exchange;
    if exchange.starts_with("amq.") {
        entry.at("exchange").refuse("must not begin with `amq.`: the broker keeps these names for itself");
    } else if exchange.starts_with(&own) {
        entry
            .at("exchange")
            .refuse(format!("must not begin with `{own}`: these are Leveret's own exchanges"));
    }
    check_short(exchange, &entry.at("exchange"));
    for (key, place) in bridge.entry.keys.iter().zip(entry.at("keys").items()) {
        check_short(key, &place);
    }
    check_target(config, bridge, &place.at("target"), &own);
}

fn check_target(config: &Config, bridge: &BridgeConfig, place: &Field<'_>, own: &str) {
    let entries = || config.bridges.iter().filter(|bridge| !bridge.entry.exchange.is_empty());
    let exchange = &bridge.target.exchange;
    check_short(exchange, &place.at("exchange"));
    if let Some(entry) = entries().find(|entry| entry.entry.exchange == *exchange) {
        place.at("exchange").refuse(format!(
            "`{exchange}` is the entry exchange of the bridge `{}`: messages would go round in a loop",
            entry.name
        ));
    } else if exchange.starts_with(own) {
        place
            .at("exchange")
            .refuse(format!("must not begin with `{own}`: these are Leveret's own exchanges"));
    }
    for (pattern, place) in bridge.target.allow.iter().zip(place.at("allow").items()) {
        check_short(pattern.as_str(), &place);
        if let Some(entry) = entries().find(|entry| pattern.matches(&entry.entry.exchange)) {
            place.refuse(format!(
                "`{pattern}` fits the entry exchange `{}`: messages could go round in a loop",
                entry.entry.exchange
            ));
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    if (1..=limits::NAME).contains(&name.len()) && name.chars().all(is_allowed) {
        Ok(())
    } else {
        Err(format!("`{name}` is not a name: use 1 to {} of a-z, 0-9, `.`, `_` and `-`", limits::NAME))
    }
}

fn check_short(text: &str, place: &Field<'_>) {
    if text.len() > limits::SHORT_STRING {
        place.refuse(format!("has {} bytes; AMQP allows {}", text.len(), limits::SHORT_STRING));
    }
}

fn check_unique<'c, 'f>(names: impl Iterator<Item = &'c str>, places: impl Iterator<Item = Field<'f>>) {
    let mut first = HashMap::new();
    for (name, place) in names.zip(places).filter(|(name, _)| !name.is_empty()) {
        match first.get(name) {
            None => {
                first.insert(name, place);
            }
            Some(earlier) => place.refuse(format!("`{name}` is already at {}", earlier.place())),
        }
    }
}
