//! The configuration that is in effect, as YAML: every value, secrets masked, and itself a valid file.
//!
//! Each struct is taken apart in full, so that the compiler names this file when a setting is added.

use std::path::Path;

use serde_yaml::{Mapping, Value};

use super::amqp::{AmqpConfig, HostsSource, TlsConfig, UriSource};
use super::ladder::Preset;
use super::secret::{MASK, SecretSource};
use super::{
    AdminConfig, BridgeConfig, BundleConfig, Config, DeliveryConfig, EntryConfig, HoldConfig, IntakeConfig,
    LadderConfig, LogConfig, ManagementConfig, ShutdownConfig, TargetConfig, duration, size,
};

impl Config {
    /// This configuration as YAML with every value, for `leveret print config`. Passwords are `***`.
    ///
    /// # Errors
    /// Those of the YAML library; none is known.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        serde_yaml::to_string(&self.tree())
    }

    fn tree(&self) -> Value {
        let Self {
            amqp,
            namespace,
            queue_type,
            ordering,
            workers,
            ladder,
            max_delay,
            bridges,
            bundle: BundleConfig { max_messages, max_bytes: bundle_bytes, compression, key_files },
            intake: IntakeConfig { prefetch: intake_prefetch },
            hold: HoldConfig { prefetch: hold_prefetch, max_bytes: hold_bytes },
            delivery: DeliveryConfig { give_up_after, confirm_timeout },
            shutdown: ShutdownConfig { grace },
            admin: AdminConfig { listen },
            management,
            log: LogConfig { format, level },
        } = self;
        let listen = listen.map_or_else(|| "off".to_owned(), |listen| listen.to_string());
        let mut tree = vec![
            ("amqp", amqp_tree(amqp)),
            ("namespace", text(namespace)),
            ("queue_type", text(queue_type.as_str())),
            ("ordering", text(ordering.as_str())),
            ("workers", (*workers).into()),
            ("ladder", ladder_tree(ladder)),
            ("max_delay", time(*max_delay)),
            ("bridges", bridges.iter().map(bridge_tree).collect()),
            (
                "bundle",
                section([
                    ("max_messages", (*max_messages).into()),
                    ("max_bytes", bytes(*bundle_bytes)),
                    ("compression", compression.as_str().into()),
                    (
                        "key_files",
                        key_files.iter().map(|file| Value::from(file.display().to_string())).collect(),
                    ),
                ]),
            ),
            ("intake", section([("prefetch", (*intake_prefetch).into())])),
            ("hold", section([("prefetch", (*hold_prefetch).into()), ("max_bytes", bytes(*hold_bytes))])),
            (
                "delivery",
                section([
                    ("give_up_after", time(*give_up_after)),
                    ("confirm_timeout", time(*confirm_timeout)),
                ]),
            ),
            ("shutdown", section([("grace", time(*grace))])),
            ("admin", section([("listen", text(&listen))])),
        ];
        tree.extend(management.as_ref().map(|management| ("management", management_tree(management))));
        tree.push(("log", section([("format", text(format.as_str())), ("level", text(level))])));
        section(tree)
    }
}

fn amqp_tree(config: &AmqpConfig) -> Value {
    let AmqpConfig { source, tls, heartbeat, connect_timeout, connection_name } = config;
    let mut tree = match source {
        UriSource::Uris(endpoints) => match endpoints.as_slice() {
            [endpoint] => vec![("uri", text(&endpoint.masked_uri()))],
            endpoints => {
                vec![("uri", endpoints.iter().map(|endpoint| text(&endpoint.masked_uri())).collect())]
            }
        },
        UriSource::File(path) => vec![("uri_file", file(path))],
        UriSource::Hosts(hosts) => hosts_tree(hosts),
    };
    let enabled = match source {
        UriSource::Hosts(HostsSource { tls, .. }) => Some(*tls),
        UriSource::Uris(_) | UriSource::File(_) => None,
    };
    if tls.is_given() || enabled == Some(true) {
        tree.push(("tls", tls_tree(tls, enabled)));
    }
    tree.extend([
        ("heartbeat", time(*heartbeat)),
        ("connect_timeout", time(*connect_timeout)),
        ("connection_name", text(connection_name)),
    ]);
    section(tree)
}

fn hosts_tree(source: &HostsSource) -> Vec<(&'static str, Value)> {
    let HostsSource { hosts, tls: _, vhost, username, password } = source;
    let hosts = hosts.iter().map(|host| match host.name.contains(':') {
        true => text(&format!("[{}]:{}", host.name, host.port)),
        false => text(&format!("{}:{}", host.name, host.port)),
    });
    vec![
        ("hosts", hosts.collect()),
        ("vhost", text(vhost)),
        username_entry(username),
        password_entry(password),
    ]
}

fn tls_tree(tls: &TlsConfig, enabled: Option<bool>) -> Value {
    let TlsConfig { ca_file, cert_file, key_file, external } = tls;
    let files = [("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)];
    let files = files.into_iter().filter_map(|(key, path)| Some((key, file(path.as_ref()?))));
    let enabled = enabled.map(|enabled| ("enabled", enabled.into()));
    section(enabled.into_iter().chain(files).chain([("external", (*external).into())]))
}

/// The preset's name where the levels are a preset's.
fn ladder_tree(ladder: &LadderConfig) -> Value {
    let LadderConfig { levels } = ladder;
    let presets = [("default", Preset::Default), ("rocketmq", Preset::Rocketmq)];
    presets
        .into_iter()
        .find(|(_, preset)| preset.levels() == *levels)
        .map_or_else(|| levels.iter().map(|ttl| time(*ttl)).collect(), |(name, _)| text(name))
}

fn bridge_tree(bridge: &BridgeConfig) -> Value {
    let BridgeConfig {
        name,
        entry: EntryConfig { exchange, kind, keys },
        target: TargetConfig { exchange: target, allow },
        default_delay,
        unroutable,
        delivered_header,
        annotate,
    } = bridge;
    let mut entry = vec![("exchange", text(exchange)), ("type", text(kind.as_str()))];
    if !keys.is_empty() {
        entry.push(("keys", keys.iter().map(|key| text(key)).collect()));
    }
    let allow = allow.iter().map(|pattern| text(pattern.as_str())).collect();
    section([
        ("name", text(name)),
        ("entry", section(entry)),
        ("target", section([("exchange", text(target)), ("allow", allow)])),
        ("default_delay", time(*default_delay)),
        ("unroutable", text(unroutable.as_str())),
        ("delivered_header", text(delivered_header.as_str())),
        ("annotate", (*annotate).into()),
    ])
}

fn management_tree(management: &ManagementConfig) -> Value {
    let ManagementConfig { url, username, password, ca_file, interval } = management;
    let mut tree = vec![("url", text(url))];
    tree.extend(username.as_ref().map(username_entry));
    tree.extend(password.as_ref().map(password_entry));
    tree.extend(ca_file.as_ref().map(|path| ("ca_file", file(path))));
    tree.push(("interval", time(*interval)));
    section(tree)
}

fn username_entry(source: &SecretSource) -> (&'static str, Value) {
    match source {
        // A user's name is no secret.
        SecretSource::Inline(username) => ("username", text(username.expose())),
        SecretSource::File(path) => ("username_file", file(path)),
    }
}

fn password_entry(source: &SecretSource) -> (&'static str, Value) {
    match source {
        SecretSource::Inline(_) => ("password", text(MASK)),
        SecretSource::File(path) => ("password_file", file(path)),
    }
}

fn section(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Mapping(entries.into_iter().map(|(key, value)| (text(key), value)).collect::<Mapping>())
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn file(path: &Path) -> Value {
    text(&path.display().to_string())
}

fn time(duration: std::time::Duration) -> Value {
    text(&duration::format(duration))
}

fn bytes(bytes: usize) -> Value {
    // A usize fits in 64 bits on every machine that Rust knows.
    text(&size::format(u64::try_from(bytes).unwrap_or(u64::MAX)))
}
