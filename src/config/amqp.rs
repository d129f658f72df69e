//! The broker, and how to connect to it: where the endpoints and credentials come from, read anew at each connect.

use std::path::PathBuf;
use std::time::Duration;

use super::secret::{SecretError, SecretSource, read_file};
use super::uri::{self, Endpoint, UriError};

/// The broker, and how to connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpConfig {
    /// Where the endpoints come from.
    pub source: UriSource,
    /// Certificates.
    pub tls: TlsConfig,
    /// Whole seconds, at most 65,535; zero for none. An endpoint's own wins.
    pub heartbeat: Duration,
    /// For one endpoint, with the handshakes. An endpoint's own wins.
    pub connect_timeout: Duration,
    /// How the connections are named in the management UI.
    pub connection_name: String,
}

/// Where the endpoints come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UriSource {
    /// URIs written in the configuration, in the order of fail-over; at least one.
    Uris(Vec<Endpoint>),
    /// A file with one URI a line.
    File(PathBuf),
    /// Hosts and credentials on their own.
    Hosts(HostsSource),
}

/// Hosts and credentials on their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsSource {
    /// In the order of fail-over; at least one.
    pub hosts: Vec<Host>,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// The virtual host.
    pub vhost: String,
    /// The user.
    pub username: SecretSource,
    /// The password.
    pub password: SecretSource,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name or address; IPv6 without brackets.
    pub name: String,
    /// TCP port.
    pub port: u16,
}

/// Certificates. The files are read at each connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    /// PEM; trusted instead of the system's roots.
    pub ca_file: Option<PathBuf>,
    /// PEM; the client's certificate and its chain. Given exactly where `key_file` is.
    pub cert_file: Option<PathBuf>,
    /// PEM; the key of `cert_file`.
    pub key_file: Option<PathBuf>,
    /// Authenticate by the client certificate (SASL EXTERNAL); then there is a `cert_file`.
    pub external: bool,
}

/// The endpoints cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum EndpointsError {
    /// A file cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The file of URIs holds something else.
    #[error("line {line} of {path} is not an AMQP URI")]
    Uri {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        source: UriError,
    },
    /// The file of URIs holds nothing.
    #[error("{0} holds no AMQP URI: write one a line")]
    NoUri(PathBuf),
    /// Endpoints and certificates contradict each other.
    #[error(transparent)]
    Tls(#[from] TlsConflict),
}

/// Endpoints and certificates contradict each other; connecting would silently leave something out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsConflict {
    /// There are certificates for a connection without TLS.
    #[error(
        "amqp.tls is given, but the connection is not encrypted: write amqps:// (or tls.enabled: true with hosts)"
    )]
    NotEncrypted,
    /// SASL EXTERNAL needs a certificate.
    #[error("SASL EXTERNAL needs amqps and a client certificate: set amqp.tls.cert_file and key_file")]
    ExternalWithoutCertificate,
}

impl AmqpConfig {
    /// The endpoints in the order of fail-over, with the credentials as they are now. Blocks while it reads files.
    ///
    /// # Errors
    /// When a file cannot be read, does not hold what it should, or does not go with the TLS settings.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, EndpointsError> {
        let mut endpoints = match &self.source {
            UriSource::Uris(endpoints) => endpoints.clone(),
            UriSource::File(path) => read_uris(path.clone())?,
            UriSource::Hosts(source) => source.endpoints()?,
        };
        for endpoint in &mut endpoints {
            endpoint.external_auth |= self.tls.external;
            self.tls.check(endpoint)?;
        }
        Ok(endpoints)
    }
}

impl TlsConfig {
    /// Whether any certificate is configured.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.ca_file.is_some() || self.cert_file.is_some() || self.key_file.is_some() || self.external
    }

    /// Whether the endpoint can be connected to as these settings say.
    pub(super) const fn check(&self, endpoint: &Endpoint) -> Result<(), TlsConflict> {
        if self.is_given() && !endpoint.tls {
            return Err(TlsConflict::NotEncrypted);
        }
        if endpoint.external_auth && (!endpoint.tls || self.cert_file.is_none()) {
            return Err(TlsConflict::ExternalWithoutCertificate);
        }
        Ok(())
    }
}

impl HostsSource {
    fn endpoints(&self) -> Result<Vec<Endpoint>, SecretError> {
        let username = self.username.read()?.expose().to_owned();
        let password = self.password.read()?;
        let endpoint = |host: &Host| Endpoint {
            tls: self.tls,
            host: host.name.clone(),
            port: host.port,
            vhost: self.vhost.clone(),
            username: username.clone(),
            password: password.clone(),
            external_auth: false,
            heartbeat: None,
            connection_timeout: None,
            channel_max: None,
            frame_max: None,
        };
        Ok(self.hosts.iter().map(endpoint).collect())
    }
}

fn read_uris(path: PathBuf) -> Result<Vec<Endpoint>, EndpointsError> {
    let content = read_file(&path)?;
    let mut endpoints = Vec::new();
    for (text, line) in content.expose().lines().zip(1..).filter(|(text, _)| !text.trim().is_empty()) {
        let parsed =
            uri::parse(text).map_err(|source| EndpointsError::Uri { path: path.clone(), line, source })?;
        endpoints.extend(parsed);
    }
    if endpoints.is_empty() { Err(EndpointsError::NoUri(path)) } else { Ok(endpoints) }
}
