//! Reads the tree into a [`Config`]: what each key means and what holds where it is missing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::choice::{Compression, DeliveredHeader, EntryKind, LogFormat, Ordering, QueueType, Unroutable};
use super::node::{Node, Value};
use super::pattern::ExchangePattern;
use super::problem::Problems;
use super::read_amqp::{amqp, credentials, file};
use super::reader::Field;
use super::{
    AdminConfig, BridgeConfig, BundleConfig, Config, DEFAULT_BRIDGE, DEFAULT_ENTRY, DeliveryConfig,
    EntryConfig, HoldConfig, IntakeConfig, LogConfig, ManagementConfig, ShutdownConfig, TargetConfig, ladder,
    limits,
};

const SECOND: Duration = Duration::from_secs(1);

impl Default for Config {
    fn default() -> Self {
        let (nothing, problems) = (Node::default(), Problems::default());
        config(&Field::root(&nothing, &problems))
    }
}

pub(super) fn config(root: &Field<'_>) -> Config {
    let root = root.clone().section();
    let section = |key| root.at(key).section();
    let (bundle, hold, delivery, log) =
        (section("bundle"), section("hold"), section("delivery"), section("log"));
    let delivered_header = root.at("delivered_header").choice(DeliveredHeader::Negate);
    let annotate = root.at("annotate").bool(true);
    Config {
        amqp: amqp(&section("amqp")),
        namespace: root.at("namespace").text().unwrap_or_else(|| "leveret".to_owned()),
        queue_type: root.at("queue_type").choice(QueueType::Quorum),
        ordering: root.at("ordering").choice(Ordering::Parallel),
        workers: root.at("workers").integer(1, limits::WORKERS),
        ladder: ladder::read(&root.at("ladder")),
        max_delay: root.at("max_delay").duration(3650 * 86_400 * SECOND, limits::MAX_DELAY),
        bridges: bridges(&root.at("bridges"), delivered_header, annotate),
        bundle: BundleConfig {
            max_messages: bundle.at("max_messages").integer(500, limits::BUNDLE_MESSAGES),
            max_bytes: bundle.at("max_bytes").size(256 << 10, limits::BUNDLE_BYTES),
            compression: bundle.at("compression").choice(Compression::None),
            key_files: bundle.at("key_files").items().filter_map(|item| file(&item)).collect(),
        },
        intake: IntakeConfig { prefetch: section("intake").at("prefetch").integer(1_000, limits::PREFETCH) },
        hold: HoldConfig {
            prefetch: hold.at("prefetch").integer(1_000, limits::PREFETCH),
            max_bytes: hold.at("max_bytes").size(64 << 20, limits::HOLD_BYTES),
        },
        delivery: DeliveryConfig {
            give_up_after: delivery.at("give_up_after").duration(3600 * SECOND, limits::GIVE_UP_AFTER),
            confirm_timeout: delivery.at("confirm_timeout").duration(30 * SECOND, limits::CONFIRM_TIMEOUT),
        },
        shutdown: ShutdownConfig {
            grace: section("shutdown").at("grace").duration(25 * SECOND, limits::GRACE),
        },
        admin: AdminConfig { listen: listen(&section("admin").at("listen")) },
        management: root.at("management").is_given().then(|| management(&section("management"))),
        log: LogConfig { format: log.at("format").choice(LogFormat::Text), level: level(&log.at("level")) },
    }
}

fn bridges(field: &Field<'_>, delivered_header: DeliveredHeader, annotate: bool) -> Vec<BridgeConfig> {
    if !field.is_given() {
        return vec![BridgeConfig {
            name: DEFAULT_BRIDGE.to_owned(),
            entry: EntryConfig {
                exchange: DEFAULT_ENTRY.to_owned(),
                kind: EntryKind::Topic,
                keys: Vec::new(),
            },
            target: TargetConfig { exchange: String::new(), allow: Vec::new() },
            default_delay: Duration::ZERO,
            unroutable: Unroutable::Park,
            delivered_header,
            annotate,
        }];
    }
    field.list().into_iter().map(|item| bridge(&item.section(), delivered_header, annotate)).collect()
}

fn bridge(field: &Field<'_>, delivered_header: DeliveredHeader, annotate: bool) -> BridgeConfig {
    let target = field.at("target").section();
    BridgeConfig {
        name: field.at("name").required_text(),
        entry: entry(&field.at("entry").section()),
        target: TargetConfig {
            exchange: target.at("exchange").text().unwrap_or_default(),
            allow: texts(&target.at("allow")).into_iter().map(ExchangePattern::new).collect(),
        },
        default_delay: field.at("default_delay").duration(Duration::ZERO, limits::DEFAULT_DELAY),
        unroutable: field.at("unroutable").choice(Unroutable::Park),
        delivered_header: field.at("delivered_header").choice(delivered_header),
        annotate: field.at("annotate").bool(annotate),
    }
}

fn entry(field: &Field<'_>) -> EntryConfig {
    let kind = field.at("type").choice(EntryKind::Topic);
    let keys_field = field.at("keys");
    let keys = texts(&keys_field);
    if kind == EntryKind::Direct && keys.is_empty() {
        keys_field
            .refuse("is required for the type direct: list the routing keys to take, or use the type topic");
    }
    if kind != EntryKind::Direct && keys_field.is_given() {
        keys_field.refuse(format!("goes with the type direct only; the type {kind} takes every routing key"));
    }
    EntryConfig { exchange: field.at("exchange").required_text(), kind, keys }
}

fn texts(field: &Field<'_>) -> Vec<String> {
    // Every item is read, so that each wrong one is noted.
    field.list().iter().filter_map(Field::text).collect()
}

fn listen(field: &Field<'_>) -> Option<SocketAddr> {
    match field.value() {
        None => return Some((Ipv4Addr::UNSPECIFIED, 9690).into()),
        Some(Value::Bool(false)) => return None,
        _ => {}
    }
    let text = field.text().filter(|text| text != "off")?;
    text.parse()
        .map_err(|_| {
            field.refuse(format!(
                "`{text}` is not an IP address and port, such as 0.0.0.0:9690 or [::]:9690, nor off"
            ));
        })
        .ok()
}

fn management(field: &Field<'_>) -> ManagementConfig {
    let url_field = field.at("url");
    let url = url_field.required_text();
    if url_field.is_given() && !is_plain_url(&url) {
        url_field.refuse(
            "must be http:// or https://, a host and perhaps a port and a path, such as http://localhost:15672; \
             credentials go to username and password",
        );
    }
    let (username, password) = credentials(field);
    ManagementConfig {
        url: url.trim_end_matches('/').to_owned(),
        username,
        password,
        ca_file: file(&field.at("ca_file")),
        interval: field.at("interval").duration(60 * SECOND, limits::AUDIT_INTERVAL),
    }
}

fn is_plain_url(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty()
            && !host.starts_with(':')
            && rest.chars().all(|c| c.is_ascii_graphic() && !"@?#\"\\".contains(c))
    })
}

fn level(field: &Field<'_>) -> String {
    let text = field.text().unwrap_or_else(|| "info".to_owned());
    // The parser of directives cuts at the wrong places after a blank, and panics where that is within a character.
    let directives = text.split(',').map(str::trim).collect::<Vec<_>>().join(",");
    if !text.is_ascii() || directives.is_empty() || EnvFilter::try_new(&directives).is_err() {
        field.refuse(format!(
            "`{text}` is not valid: write error, warn, info, debug or trace, also by module, as in info,leveret::engine=debug"
        ));
    }
    directives
}
