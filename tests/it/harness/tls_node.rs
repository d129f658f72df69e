//! A node that speaks TLS, for AMQP and for its management API, and takes client certificates for authentication. It
//! reads its certificates anew at each handshake.

use std::path::Path;

use super::broker::{Address, Broker};
use super::certificates::{Authority, Certificate};
use super::leveret::free_port;
use super::node::Extra;
use super::vhost::Vhost;

/// See the module.
pub(crate) struct TlsNode {
    broker: Broker,
    port: u16,
    management_port: u16,
}

/// What the node asks of its clients.
pub(crate) struct Clients {
    /// Whether each must have a certificate.
    pub(crate) must_have_certificate: bool,
    /// What of a certificate is the user's name: `common_name` or `distinguished_name`.
    pub(crate) login_from: &'static str,
}

/// The node would keep a certificate for two minutes.
const FRESH_FILES: &str = "[{ssl, [{bypass_pem_cache, true}]}].\n";

impl TlsNode {
    /// Starts one like the broker. It has this certificate, and believes the authority's clients.
    pub(crate) fn start(
        broker: &Broker,
        certificate: &Certificate,
        authority: &Authority,
        clients: &Clients,
    ) -> Self {
        let (port, management_port) = (free_port(), free_port());
        let conf = format!(
            "listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.cacertfile = @DIR@/clients.pem
ssl_options.certfile = @DIR@/server.pem
ssl_options.keyfile = @DIR@/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = {}
ssl_cert_login_from = {}
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
management.ssl.ip = 127.0.0.1
management.ssl.port = {management_port}
management.ssl.cacertfile = @DIR@/clients.pem
management.ssl.certfile = @DIR@/server.pem
management.ssl.keyfile = @DIR@/server.key
",
            clients.must_have_certificate, clients.login_from
        );
        let files = [
            ("clients.pem", read(&authority.cert())),
            ("server.pem", read(&certificate.cert)),
            ("server.key", read(&certificate.key)),
            ("advanced.config", FRESH_FILES.into()),
        ];
        let extra = Extra { conf: &conf, plugins: &["rabbitmq_auth_mechanism_ssl"], files: &files };
        Self { broker: broker.dedicated_beside(&extra), port, management_port }
    }

    /// The same node without TLS.
    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// From now on it presents this certificate.
    pub(crate) fn present(&self, certificate: &Certificate) {
        self.replace("server.key", &certificate.key);
        self.replace("server.pem", &certificate.cert);
    }

    /// From now on it believes this authority's clients, and no others.
    pub(crate) fn believe(&self, authority: &Authority) {
        self.replace("clients.pem", &authority.cert());
        self.broker.reread_authorities();
    }

    /// The URI of a virtual host by TLS, as its administrator.
    pub(crate) fn uri(&self, vhost: &Vhost, host: &str) -> String {
        let address = Address { host: host.to_owned(), port: self.port, ..self.broker.address().clone() };
        encrypted(&address.uri(vhost.name()))
    }

    /// The same without user and password.
    pub(crate) fn nameless_uri(&self, vhost: &Vhost) -> String {
        format!("amqps://127.0.0.1:{}/{}", self.port, vhost.name())
    }

    /// The URL of its management API by TLS.
    pub(crate) fn management_url(&self) -> String {
        format!("https://localhost:{}", self.management_port)
    }

    fn replace(&self, name: &str, with: &Path) {
        replace(&self.broker.directory().join(name), with);
    }
}

/// The URI with TLS instead of none.
pub(crate) fn encrypted(uri: &str) -> String {
    uri.replacen("amqp:", "amqps:", 1)
}

/// Replaces a file by another one's content at once, as whoever rotates certificates should.
pub(crate) fn replace(file: &Path, with: &Path) {
    let next = file.with_extension("next");
    std::fs::write(&next, read(with)).unwrap();
    std::fs::rename(next, file).unwrap();
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
