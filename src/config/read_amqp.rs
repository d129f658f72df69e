//! Reads the section `amqp`.

use std::path::PathBuf;
use std::time::Duration;

use super::amqp::{AmqpConfig, Host, HostsSource, TlsConfig, UriSource};
use super::limits;
use super::node::Value;
use super::reader::Field;
use super::secret::{Secret, SecretSource};
use super::uri::{self, Endpoint, GUEST, default_port, parse_host};

pub(super) fn amqp(field: &Field<'_>) -> AmqpConfig {
    let tls_field = field.at("tls").section();
    let tls = tls(&tls_field);
    let heartbeat_field = field.at("heartbeat");
    let heartbeat = heartbeat_field.duration(Duration::from_secs(20), limits::HEARTBEAT);
    if heartbeat.subsec_nanos() > 0 {
        heartbeat_field.refuse("must be whole seconds");
    }
    AmqpConfig {
        source: source(field, &tls_field, &tls),
        tls,
        heartbeat,
        connect_timeout: field
            .at("connect_timeout")
            .duration(Duration::from_secs(10), limits::CONNECT_TIMEOUT),
        connection_name: field.at("connection_name").text().unwrap_or_else(|| "leveret".to_owned()),
    }
}

fn tls(field: &Field<'_>) -> TlsConfig {
    let tls = TlsConfig {
        ca_file: file(&field.at("ca_file")),
        cert_file: file(&field.at("cert_file")),
        key_file: file(&field.at("key_file")),
        external: field.at("external").bool(false),
    };
    match (&tls.cert_file, &tls.key_file) {
        (Some(_), None) => field.at("cert_file").refuse("needs key_file too"),
        (None, Some(_)) => field.at("key_file").refuse("needs cert_file too"),
        _ => {}
    }
    if tls.external && tls.cert_file.is_none() {
        field.at("external").refuse("needs a client certificate: set cert_file and key_file");
    }
    tls
}

/// A path, where one is given. A path is shown with every error, so what is likely to be a secret itself is refused.
pub(super) fn file(field: &Field<'_>) -> Option<PathBuf> {
    field.is_given().then(|| {
        let text = field.required_text();
        if is_content(&text) {
            field.refuse("must be the path of a file, and holds what belongs into one");
        }
        text.into()
    })
}

/// Whether the text is what such files hold: a URI, PEM, or a key of 32 bytes.
fn is_content(text: &str) -> bool {
    let is_key = match text.trim().len() {
        64 => text.trim().bytes().all(|byte| byte.is_ascii_hexdigit()),
        44 => text.trim().ends_with('='),
        _ => false,
    };
    is_key || text.contains("://") || text.contains("-----") || text.contains('\n')
}

fn source(field: &Field<'_>, tls_field: &Field<'_>, tls: &TlsConfig) -> UriSource {
    let given: Vec<_> =
        ["uri", "uri_file", "hosts"].into_iter().filter(|key| field.at(key).is_given()).collect();
    if given.len() > 1 {
        field.refuse(format!("give one of uri, uri_file and hosts, not {}", given.join(" and ")));
    }
    if given.contains(&"hosts") {
        return UriSource::Hosts(hosts(field, tls_field, tls));
    }
    for key in ["vhost", "username", "username_file", "password", "password_file"] {
        let place = field.at(key);
        if place.is_given() {
            place.refuse("goes with hosts only: write it in the URI, or give hosts instead of a URI");
        }
    }
    if tls_field.at("enabled").is_given() {
        tls_field.at("enabled").refuse("goes with hosts only: for a URI, amqp:// or amqps:// says it");
    }
    if let Some(path) = file(&field.at("uri_file")) {
        return UriSource::File(path);
    }
    let uri = field.at("uri");
    let endpoints = uris(&uri);
    // A conflict concerns all endpoints alike; once is enough.
    if let Some(conflict) = endpoints.iter().find_map(|endpoint| tls.check(endpoint).err()) {
        uri.refuse(conflict.to_string());
    }
    UriSource::Uris(endpoints)
}

fn uris(field: &Field<'_>) -> Vec<Endpoint> {
    if !field.is_given() {
        return uri::parse("amqp://localhost:5672/%2f").unwrap_or_default();
    }
    let Some(Value::List(items)) = field.value() else { return uri(field) };
    if items.is_empty() {
        field.refuse("must have at least one URI");
    }
    field.items().flat_map(|item| uri(&item)).collect()
}

fn uri(field: &Field<'_>) -> Vec<Endpoint> {
    let Some(text) = field.text() else { return Vec::new() };
    uri::parse(&text).map_err(|error| field.refuse(error.to_string())).unwrap_or_default()
}

fn hosts(field: &Field<'_>, tls_field: &Field<'_>, tls: &TlsConfig) -> HostsSource {
    let encrypted = tls_field.at("enabled").bool(tls.is_given());
    if tls.is_given() && !encrypted {
        tls_field.at("enabled").refuse("is false, but certificates are given: remove one or the other");
    }
    let hosts_field = field.at("hosts");
    let items = hosts_field.list();
    if items.is_empty() {
        hosts_field.refuse("must have at least one host, such as rabbitmq:5672");
    }
    let host = |item: &Field<'_>| {
        let (name, port) = parse_host(&item.text()?, 1)
            .map_err(|_| item.refuse("is not host or host:port (an IPv6 address is written [::1]:5672)"))
            .ok()?;
        Some(Host { name, port: port.unwrap_or_else(|| default_port(encrypted)) })
    };
    let vhost = field.at("vhost");
    let name = vhost.text().unwrap_or_else(|| "/".to_owned());
    if name.is_empty() || name.len() > limits::SHORT_STRING {
        vhost.refuse(format!("must have 1 to {} bytes", limits::SHORT_STRING));
    }
    let (username, password) = credentials(field);
    let guest = || SecretSource::Inline(Secret::new(GUEST.to_owned()));
    HostsSource {
        hosts: items.iter().filter_map(host).collect(),
        tls: encrypted,
        vhost: name,
        username: username.unwrap_or_else(guest),
        password: password.unwrap_or_else(guest),
    }
}

/// User and password, each in place or from a file, both or neither.
pub(super) fn credentials(field: &Field<'_>) -> (Option<SecretSource>, Option<SecretSource>) {
    let username = secret(field, "username", "username_file");
    let password = secret(field, "password", "password_file");
    match (&username, &password) {
        (Some(_), None) => {
            field.at("password").refuse("is required where there is a user name (or password_file)")
        }
        (None, Some(_)) => {
            field.at("username").refuse("is required where there is a password (or username_file)")
        }
        _ => {}
    }
    (username, password)
}

fn secret(field: &Field<'_>, key: &str, file_key: &str) -> Option<SecretSource> {
    let (inline, path) = (field.at(key), field.at(file_key));
    if inline.is_given() && path.is_given() {
        path.refuse(format!("give {key} or {file_key}, not both"));
    }
    if inline.is_given() {
        return Some(SecretSource::Inline(Secret::new(inline.text().unwrap_or_default())));
    }
    file(&path).map(SecretSource::File)
}
