//! Certificates, keys and authorities that are replaced on disk while Leveret runs.

use std::path::{Path, PathBuf};

use super::{add_user, delivers};
use crate::harness::broker::Broker;
use crate::harness::certificates::{Authority, Certificate};
use crate::harness::cli::leveret_in;
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::LIMIT;
use crate::harness::tls_node::{Clients, TlsNode, replace};
use crate::harness::vhost::Vhost;

/// The files that the configuration names.
struct Files(PathBuf);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The next connection is to present this certificate, and to trust this authority.
    fn hold(&self, certificate: &Certificate, authority: &Authority) {
        replace(&self.path("ca.pem"), &authority.cert());
        replace(&self.path("key.pem"), &certificate.key);
        replace(&self.path("cert.pem"), &certificate.cert);
    }
}

pub(super) async fn certificates_are_replaced_while_it_runs(broker: &Broker) {
    let directory = tempfile::tempdir().unwrap();
    let old = Authority::new(directory.path(), "old-authority");
    let new = Authority::new(directory.path(), "new-authority");
    let clients = Clients { must_have_certificate: true, login_from: "distinguished_name" };
    let node = TlsNode::start(broker, &old.issue("server"), &old, &clients);
    let vhost = node.broker().create_vhost();
    add_user(&node, &vhost, "CN=hare");
    let files = Files(directory.path().join("mounted"));
    std::fs::create_dir(&files.0).unwrap();
    files.hold(&old.issue("hare"), &old);
    let management_ca = files.path("management-ca.pem");
    replace(&management_ca, &old.cert());

    let uri = node.nameless_uri(&vhost);
    let leveret = Leveret::start(&uri, &configuration(&node, &files)).await;
    delivers(&vhost).await;
    audited(&leveret, 1).await;
    issued_by(&vhost, "old-authority").await;

    // Everything is replaced but what the management API is trusted by. The open connections stay as they are.
    let renewed = new.issue("hare");
    node.present(&new.issue("server"));
    node.believe(&new);
    files.hold(&renewed, &new);
    let why = "the management API's certificate is signed by no authority that is trusted here, which are those in ";
    let why = format!("{why}{}: set management.ca_file", management_ca.display());
    eventually("the audit says why it fails", LIMIT, async || {
        leveret.log().lines().any(|line| line.contains("WARN") && line.contains(&why)).then_some(())
    })
    .await;
    replace(&management_ca, &new.cert());
    delivers(&vhost).await;

    // What was right before is refused now, and so is nothing at all.
    let stale = old.issue("hare");
    refused(&uri, &new, Some(&stale), &format!("signed the client certificate in {}", stale.cert.display()));
    refused(
        &uri,
        &new,
        None,
        "the broker asks for a client certificate, and there is none: set amqp.tls.cert_file",
    );

    // The next connection takes what is there.
    assert!(vhost.close_connections() >= 2);
    audited(&leveret, 2).await;
    issued_by(&vhost, "new-authority").await;
    delivers(&vhost).await;
}

fn configuration(node: &TlsNode, files: &Files) -> String {
    format!(
        "ladder: [1s]
amqp:
  tls: {{ ca_file: {ca}, cert_file: {cert}, key_file: {key}, external: true }}
management: {{ url: {url}, username: guest, password: guest, ca_file: {management_ca}, interval: 1s }}
",
        ca = files.path("ca.pem").display(),
        cert = files.path("cert.pem").display(),
        key = files.path("key.pem").display(),
        url = node.management_url(),
        management_ca = files.path("management-ca.pem").display(),
    )
}

/// The audit at the start of a session has succeeded so often.
async fn audited(leveret: &Leveret, times: usize) {
    eventually(&format!("session {times} is audited"), LIMIT, async || {
        (leveret.log().matches("no policy interferes").count() >= times).then_some(())
    })
    .await;
}

/// Both connections of the sidecar were let in by certificates of this authority.
async fn issued_by(vhost: &Vhost, authority: &str) {
    eventually(&format!("the certificates are of {authority}"), LIMIT, async || {
        let issuers = vhost.certificate_issuers();
        (issuers.len() == 2 && issuers.iter().all(|issuer| issuer.contains(authority))).then_some(())
    })
    .await;
}

fn refused(uri: &str, authority: &Authority, client: Option<&Certificate>, said: &str) {
    let ca = authority.cert();
    let mut files = vec![("LEVERET_AMQP__TLS__CA_FILE", &*ca)];
    if let Some(Certificate { cert, key }) = client {
        files.push(("LEVERET_AMQP__TLS__CERT_FILE", cert));
        files.push(("LEVERET_AMQP__TLS__KEY_FILE", key));
    }
    let environment: Vec<_> = files.iter().map(|(name, path)| (*name, text(path))).collect();
    let ended = leveret_in(uri, &environment, &["publish", "--routing-key", "q", "--body", "x"]).expect(69);
    assert!(ended.stderr.contains(said), "{ended:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
