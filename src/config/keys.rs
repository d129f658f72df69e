//! The table of keys. `config/leveret.yaml` tells the same to people; tests hold the two together.

use super::choice::{Compression, DeliveredHeader, EntryKind, LogFormat, Ordering, QueueType, Unroutable};
use super::ladder::Preset;
use super::limits;
use super::shape::{Key, Shape};
use Shape::{AnyOf, Bool, Choice, Duration, Integer, List, Section, Size, Text};

const fn key(name: &'static str, shape: Shape, default: &'static str, doc: &'static str) -> Key {
    Key { name, shape, default, required: false, doc }
}

const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, default: "", required: true, doc }
}

const fn integer(range: (u64, u64)) -> Shape {
    Integer(range.0, range.1)
}

/// The whole file.
pub(super) const ROOT: Shape = Section(&[
    key("amqp", Section(AMQP), "", "The broker, and how to connect to it."),
    key(
        "namespace",
        Text,
        "leveret",
        "Every name that Leveret declares begins with it; a-z, 0-9, '.', '_', '-', up to 64.",
    ),
    key("queue_type", Choice(QueueType::NAMES), "quorum", "The type of Leveret's own queues."),
    key(
        "ordering",
        Choice(Ordering::NAMES),
        "parallel",
        "How several replicas share a bridge: side by side, or one at a time to keep the order of equal delays.",
    ),
    key(
        "workers",
        integer(limits::WORKERS),
        "1",
        "Workers of the process, each with two connections: more can use more cores.",
    ),
    key(
        "ladder",
        AnyOf(&[Choice(Preset::NAMES), List(&Duration), Section(LADDER)]),
        "default",
        "The levels that messages wait in: a preset, a list of TTLs, or a preset with extra levels.",
    ),
    key("max_delay", Duration, "3650d", "A longer delay is parked, never shortened."),
    key(
        "delivered_header",
        Choice(DeliveredHeader::NAMES),
        "negate",
        "What becomes of x-delay at delivery, for bridges that do not say.",
    ),
    key("annotate", Bool, "true", "Whether x-leveret-id is added at delivery, for bridges that do not say."),
    key(
        "bridges",
        List(&Section(BRIDGE)),
        "[{name: default, entry: {exchange: delay}}]",
        "Entry exchanges, each joined to a target exchange.",
    ),
    key("bundle", Section(BUNDLE), "", "How many messages travel together."),
    key("intake", Section(INTAKE), "", "Taking messages from the entry exchanges."),
    key("hold", Section(HOLD), "", "The last stretch of a wait, in memory."),
    key("delivery", Section(DELIVERY), "", "Publishing to the targets."),
    key("shutdown", Section(SHUTDOWN), "", "Stopping."),
    key("admin", Section(ADMIN), "", "The listener for /livez, /readyz and /metrics."),
    key(
        "management",
        Section(MANAGEMENT),
        "",
        "RabbitMQ's management API, to audit the policies that act on Leveret's queues; off unless given.",
    ),
    key("log", Section(LOG), "", "Logs, on standard error."),
]);

const AMQP: &[Key] = &[
    key(
        "uri",
        AnyOf(&[Text, List(&Text)]),
        "amqp://localhost:5672/%2f",
        "One URI (also with several hosts, separated by commas) or a list of URIs, tried in this order.",
    ),
    key("uri_file", Text, "", "A file that holds the URI, or several, one a line; read at each connect."),
    key("hosts", List(&Text), "", "Instead of a URI: host or host:port of each node, tried in this order."),
    key("vhost", Text, "", "With hosts: the virtual host; default /."),
    key("username", Text, "", "With hosts: the user; default guest."),
    key("username_file", Text, "", "With hosts: a file that holds the user; read at each connect."),
    key("password", Text, "", "With hosts: the password; default guest."),
    key("password_file", Text, "", "With hosts: a file that holds the password; read at each connect."),
    key("tls", Section(TLS), "", "Certificates, for amqps URIs and for hosts with TLS."),
    key("heartbeat", Duration, "20s", "Whole seconds; 0s for none."),
    key("connect_timeout", Duration, "10s", "For one host, with the handshakes."),
    key("connection_name", Text, "leveret", "How the connections are named in the management UI."),
];

const TLS: &[Key] = &[
    key(
        "enabled",
        Bool,
        "",
        "With hosts: whether to use TLS; default true where another key of this section is given.",
    ),
    key("ca_file", Text, "", "PEM; trusted instead of the system's roots."),
    key("cert_file", Text, "", "PEM; the client's certificate and its chain."),
    key("key_file", Text, "", "PEM; the key of cert_file."),
    key("external", Bool, "false", "Authenticate by the client certificate (SASL EXTERNAL)."),
];

const LADDER: &[Key] = &[
    key("preset", Choice(Preset::WITH_NONE), "", "The levels to start from; default default."),
    key(
        "extra",
        List(&Duration),
        "",
        "Usual delays to make levels for; each level's TTL is a little shorter than its delay.",
    ),
];

const BRIDGE: &[Key] = &[
    required(
        "name",
        Text,
        "Unique; a-z, 0-9, '.', '_', '-', up to 64; a label of metrics and a part of the ingress queue's name.",
    ),
    required("entry", Section(ENTRY), "The exchange that applications publish to; Leveret declares it."),
    key("target", Section(TARGET), "", "The exchange where messages come out."),
    key("default_delay", Duration, "0s", "The delay of a message without any delay header."),
    key(
        "unroutable",
        Choice(Unroutable::NAMES),
        "park",
        "What happens to a message that the target routes to no queue.",
    ),
    key(
        "delivered_header",
        Choice(DeliveredHeader::NAMES),
        "",
        "What becomes of x-delay at delivery; default as at the top.",
    ),
    key("annotate", Bool, "", "Whether x-leveret-id is added at delivery; default as at the top."),
];

const ENTRY: &[Key] = &[
    required("exchange", Text, "Its name."),
    key("type", Choice(EntryKind::NAMES), "topic", "Its type."),
    key("keys", List(&Text), "", "For the type direct, which needs them: the routing keys that are taken."),
];

const TARGET: &[Key] = &[
    key(
        "exchange",
        Text,
        "''",
        "Its name; empty for the default exchange, where the routing key is the queue's name.",
    ),
    key(
        "allow",
        List(&Text),
        "[]",
        "Patterns (with *) of exchanges that a message may choose by its header x-delay-exchange.",
    ),
];

const BUNDLE: &[Key] = &[
    key("max_messages", integer(limits::BUNDLE_MESSAGES), "500", "Messages in one bundle."),
    key(
        "max_bytes",
        Size,
        "256KiB",
        "Bytes of one bundle, from 4KiB to 8MiB; a larger message travels alone.",
    ),
    key(
        "compression",
        Choice(Compression::NAMES),
        "none",
        "How bundles are compressed; those already there are read all the same.",
    ),
    key(
        "key_files",
        List(&Text),
        "[]",
        "Files with a key of 32 bytes each, in base64 or hexadecimal: the first encrypts bundles, all decrypt.",
    ),
];

const INTAKE: &[Key] = &[key(
    "prefetch",
    integer(limits::PREFETCH),
    "1000",
    "Unsettled messages of one bridge, shared by the workers.",
)];

const HOLD: &[Key] = &[
    key("prefetch", integer(limits::PREFETCH), "1000", "Unsettled bundles, shared by the workers."),
    key(
        "max_bytes",
        Size,
        "64MiB",
        "Bytes of messages in memory, from 64KiB to 2GiB, shared by the workers, at least one bundle for each; half is for what is due, half for the bridges.",
    ),
];

const DELIVERY: &[Key] = &[
    key("give_up_after", Duration, "1h", "A message that full target queues refuse for so long is parked."),
    key(
        "confirm_timeout",
        Duration,
        "30s",
        "A publish that is not confirmed for so long is tried again; one to Leveret's own queues, on a new connection.",
    ),
];

const SHUTDOWN: &[Key] = &[key("grace", Duration, "25s", "How long a graceful stop may take.")];

const ADMIN: &[Key] = &[key("listen", AnyOf(&[Text, Bool]), "0.0.0.0:9690", "Address and port, or off.")];

const MANAGEMENT: &[Key] = &[
    required("url", Text, "http:// or https://, host and port; required."),
    key("username", Text, "", "Default: as for AMQP."),
    key("username_file", Text, "", "A file that holds the user; read at each audit."),
    key("password", Text, "", "Default: as for AMQP."),
    key("password_file", Text, "", "A file that holds the password; read at each audit."),
    key("ca_file", Text, "", "PEM; trusted instead of the system's roots."),
    key("interval", Duration, "60s", "How often the audit is repeated."),
];

const LOG: &[Key] = &[
    key("format", Choice(LogFormat::NAMES), "text", "For people or for machines."),
    key(
        "level",
        Text,
        "info",
        "error, warn, info, debug or trace, also by module: info,leveret::engine=debug.",
    ),
];
