//! The least that Leveret's user needs: the patterns that RabbitMQ matches against the names of exchanges and queues.
//! The README shows them for the default configuration; the tests run every sidecar with them.

use std::fmt;

use crate::config::{Config, EntryKind, ExchangePattern};

/// A user's permissions in a virtual host, as patterns (regular expressions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// What it may declare.
    pub configure: String,
    /// What it may publish to, and bind and dead-letter to.
    pub write: String,
    /// What it may consume, and bind queues to.
    pub read: String,
    /// What it may do by routing key, where topic permissions are in use at all.
    pub topics: Vec<TopicPermission>,
}

/// A user's permissions by routing key on one topic exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPermission {
    /// The exchange.
    pub exchange: String,
    /// The routing keys that it may publish with.
    pub write: &'static str,
    /// The keys that it may bind by.
    pub read: &'static str,
}

impl Permissions {
    /// The least for a configuration.
    #[must_use]
    pub fn least(config: &Config) -> Self {
        let own = format!("{}\\..*", escaped(&config.namespace));
        let entries = config.bridges.iter().map(|bridge| escaped(&bridge.entry.exchange));
        let declared = pattern([own.clone()].into_iter().chain(entries));
        let targets = config.bridges.iter().flat_map(|bridge| {
            let allowed = bridge.target.allow.iter().map(allowed);
            [target(&bridge.target.exchange)].into_iter().chain(allowed)
        });
        let topics =
            config.bridges.iter().filter(|bridge| bridge.entry.kind == EntryKind::Topic).map(|bridge| {
                // Every message of the entry exchange is taken in, and none is published there.
                TopicPermission { exchange: bridge.entry.exchange.clone(), write: "^$", read: "^#$" }
            });
        Self {
            configure: declared.clone(),
            write: pattern([own].into_iter().chain(targets)),
            read: declared,
            topics: topics.collect(),
        }
    }
}

/// As the commands that give these permissions.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { configure, write, read, topics: _ } = self;
        writeln!(f, "rabbitmqctl set_permissions -p / leveret \\")?;
        writeln!(f, "    {} \\\n    {} \\\n    {}", quoted(configure), quoted(write), quoted(read))
    }
}

impl TopicPermission {
    /// As the command that gives it.
    #[must_use]
    pub fn command(&self) -> String {
        let Self { exchange, write, read } = self;
        let exchange = quoted(exchange);
        format!("rabbitmqctl set_topic_permissions -p / leveret {exchange} '{write}' '{read}'\n")
    }
}

/// Alternatives, each matched as a whole, each once.
fn pattern(alternatives: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for alternative in alternatives {
        if !all.contains(&alternative) {
            all.push(alternative);
        }
    }
    format!("^({})$", all.join("|"))
}

/// A target exchange; the default one has a name in permissions alone.
fn target(exchange: &str) -> String {
    escaped(if exchange.is_empty() { "amq.default" } else { exchange })
}

fn allowed(pattern: &ExchangePattern) -> String {
    pattern.as_str().split('*').map(escaped).collect::<Vec<_>>().join(".*")
}

/// The name with what has a meaning in regular expressions escaped.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        if r"\.+*?()|[]{}^$#".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// In quotes for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(yaml: &str) -> Permissions {
        Permissions::least(&Config::from_yaml(yaml).unwrap())
    }

    #[test]
    fn the_default_bridge_publishes_to_the_default_exchange() {
        let Permissions { configure, write, read, topics } = least("");
        assert_eq!(configure, r"^(leveret\..*|delay)$");
        assert_eq!(write, r"^(leveret\..*|amq\.default)$");
        assert_eq!(read, configure);
        assert_eq!(
            topics[0].command(),
            "rabbitmqctl set_topic_permissions -p / leveret 'delay' '^$' '^#$'\n"
        );
    }

    #[test]
    fn names_are_taken_literally_and_stars_are_not() {
        let permissions = least(
            "{namespace: a.b, bridges: [
                {name: x, entry: {exchange: 'in+1', type: fanout}, target: {exchange: it's, allow: ['m.*.x', 'y*']}},
                {name: y, entry: {exchange: in, type: topic}, target: {exchange: it's}}]}",
        );
        assert_eq!(permissions.configure, r"^(a\.b\..*|in\+1|in)$");
        assert_eq!(permissions.write, r"^(a\.b\..*|it's|m\..*\.x|y.*)$");
        assert_eq!(permissions.topics.len(), 1);
        let text = permissions.to_string();
        assert_eq!(text.lines().nth(2).unwrap(), r"    '^(a\.b\..*|it'\''s|m\..*\.x|y.*)$' \");
    }
}
