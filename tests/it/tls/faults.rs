//! What goes wrong with certificates, and what Leveret says of it.

use std::path::Path;

use super::{add_user, delivers};
use crate::harness::broker::Broker;
use crate::harness::certificates::{Authority, Certificate, Wish};
use crate::harness::cli::leveret_in;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::LIMIT;
use crate::harness::raw::RawClient;
use crate::harness::table::RawProperties;
use crate::harness::tls_node::{Clients, TlsNode, encrypted};
use crate::harness::vhost::Vhost;

const UNREACHABLE: i32 = 69;
const CONFIGURATION: i32 = 78;

const CA: &str = "LEVERET_AMQP__TLS__CA_FILE";
const CERT: &str = "LEVERET_AMQP__TLS__CERT_FILE";
const KEY: &str = "LEVERET_AMQP__TLS__KEY_FILE";
const EXTERNAL: &str = "LEVERET_AMQP__TLS__EXTERNAL";
/// What the system trusts, instead of what is installed.
const SYSTEM: &str = "SSL_CERT_FILE";

const MAY_HAVE: Clients = Clients { must_have_certificate: false, login_from: "common_name" };

/// Publishes with this environment, which connects as `run` does, and ends with `code` and all of `said`.
fn ends(uri: &str, environment: &[(&str, &Path)], code: i32, said: &[&str]) {
    let environment: Vec<_> =
        environment.iter().map(|(name, path)| (*name, path.to_str().unwrap())).collect();
    let patience = ("LEVERET_AMQP__CONNECT_TIMEOUT", "30s");
    let arguments = ["publish", "--routing-key", "nobody", "--delay", "1h", "--body", "x"];
    let ended = leveret_in(uri, &[&environment[..], &[patience]].concat(), &arguments);
    assert_eq!(ended.code, code, "{environment:?}: {ended:?}");
    for part in said {
        assert!(ended.stderr.contains(part), "not said: {part}\n{environment:?}\n{}", ended.stderr);
    }
}

/// One node for all of it.
pub(super) async fn each_fault_is_told_with_what_to_do(broker: &Broker) {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let stranger = Authority::new(directory.path(), "wrong");
    let server = authority.issue("server");
    let node = TlsNode::start(broker, &server, &authority, &MAY_HAVE);
    let vhost = node.broker().create_vhost();
    let uri = node.uri(&vhost, "127.0.0.1");
    // What is published to.
    drop(Leveret::start(&vhost.uri(), "ladder: [1s]").await);
    let (right, wrong) = (authority.cert(), stranger.cert());

    // The authority of the file alone is trusted, or the system's; and either name of the host will do.
    ends(&uri, &[(CA, &right)], 0, &[]);
    ends(&node.uri(&vhost, "localhost"), &[(CA, &right)], 0, &[]);
    ends(&uri, &[(SYSTEM, &right)], 0, &[]);
    let by_nobody = "the broker's certificate is signed by no authority that is trusted here, which are ";
    ends(&uri, &[(SYSTEM, &wrong)], UNREACHABLE, &[by_nobody, "the system's: set amqp.tls.ca_file to"]);
    let those = format!("{by_nobody}those in {}: set amqp.tls.ca_file to", wrong.display());
    ends(&uri, &[(CA, &wrong), (SYSTEM, &right)], UNREACHABLE, &[&uri_shown(&uri), &those]);

    server_certificates(&node, &vhost, &authority);
    node.present(&server);

    // A port of the other kind.
    let plain_port = encrypted(&vhost.uri());
    ends(&plain_port, &[(CA, &right)], UNREACHABLE, &["the broker does not speak TLS on this port", "5671"]);
    let plain = uri.replacen("amqps:", "amqp:", 1);
    ends(&plain, &[], UNREACHABLE, &["cannot connect to amqp://", "amqps://"]);

    client_certificates(&node, &vhost, &authority, &stranger);
    external(&node, &vhost, &authority).await;
}

/// The endpoint as it is shown: without the password.
fn uri_shown(uri: &str) -> String {
    uri.rsplit_once('@').map(|(_, place)| place.to_owned()).unwrap()
}

fn server_certificates(node: &TlsNode, vhost: &Vhost, authority: &Authority) {
    let (uri, ca) = (node.uri(vhost, "127.0.0.1"), authority.cert());
    let elsewhere = "DNS:elsewhere.example,DNS:*.far.example";
    let refused = [
        (
            Wish { valid: ("20200101000000Z", "20210101000000Z"), ..Wish::default() },
            "the broker's certificate expired at 2021-01-01T00:00:00Z, and it is 2",
        ),
        (
            Wish { valid: ("20480101000000Z", "20490101000000Z"), ..Wish::default() },
            "the broker's certificate is valid from 2048-01-01T00:00:00Z on, and it is 2",
        ),
        (
            Wish { names: elsewhere, ..Wish::default() },
            "the broker's certificate is for elsewhere.example, *.far.example, and not for 127.0.0.1: connect by a name",
        ),
    ];
    for (number, (wish, said)) in refused.iter().enumerate() {
        node.present(&authority.issue_as(&format!("refused-{number}"), wish));
        ends(&uri, &[(CA, &ca)], UNREACHABLE, &[said]);
    }
    node.present(&authority.issue_as("by-name", &Wish { names: "DNS:localhost", ..Wish::default() }));
    ends(&uri, &[(CA, &ca)], UNREACHABLE, &["is for localhost, and not for 127.0.0.1"]);
    ends(&node.uri(vhost, "localhost"), &[(CA, &ca)], 0, &[]);
}

fn client_certificates(node: &TlsNode, vhost: &Vhost, authority: &Authority, stranger: &Authority) {
    let (uri, ca) = (node.uri(vhost, "127.0.0.1"), authority.cert());
    let right = authority.issue("client");
    let with = |certificate: &Certificate, code, said: &[&str]| {
        ends(&uri, &[(CA, &ca), (CERT, &certificate.cert), (KEY, &certificate.key)], code, said);
    };
    with(&right, 0, &[]);
    let forged = stranger.issue("client");
    let named = format!("the client certificate in {}", forged.cert.display());
    with(&forged, UNREACHABLE, &["the broker trusts no authority that signed", &named]);
    let valid = ("20200101000000Z", "20210101000000Z");
    let expired = authority.issue_as("late", &Wish { valid, ..Wish::default() });
    with(
        &expired,
        UNREACHABLE,
        &[&expired.cert.display().to_string(), "has expired, says the broker: renew it"],
    );
    // What is wrong with the files is known without any broker.
    let odd = Certificate { cert: right.cert.clone(), key: forged.key };
    with(&odd, CONFIGURATION, &["is not that of the certificate in", "replace both files together"]);
    let missing = Certificate { cert: right.cert.with_extension("gone"), key: right.key.clone() };
    with(&missing, CONFIGURATION, &["cannot read how to connect: cannot read ", "client.gone"]);
    let swapped = Certificate { cert: right.key, key: right.cert };
    with(&swapped, CONFIGURATION, &["client.key holds no CERTIFICATE"]);
}

/// A client certificate in place of user and password.
async fn external(node: &TlsNode, vhost: &Vhost, authority: &Authority) {
    let uri = node.nameless_uri(vhost);
    let ca = authority.cert();
    add_user(node, vhost, "hare");
    let known = authority.issue("hare");
    let unknown = authority.issue("rabbit");
    let yes = Path::new("true");
    let as_user = |certificate: &Certificate, code, said: &[&str]| {
        let Certificate { cert, key } = certificate;
        ends(&uri, &[(CA, &ca), (CERT, cert), (KEY, key), (EXTERNAL, yes)], code, said);
    };
    as_user(&known, 0, &[]);
    as_user(&unknown, UNREACHABLE, &["ACCESS_REFUSED", "ssl_cert_login_from", "user of that name"]);

    let yaml = format!(
        "ladder: [1s]\namqp: {{ tls: {{ ca_file: {}, cert_file: {}, key_file: {}, external: true }} }}\n",
        ca.display(),
        known.cert.display(),
        known.key.display()
    );
    let _leveret = Leveret::start(&uri, &yaml).await;
    delivers(vhost).await;
    // What the client library cannot read is found over a connection of another kind, which must be encrypted too.
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    raw.publish_bytes("delay", &[0xff], &RawProperties::default(), b"unreadable").await.unwrap();
    let client = Client::connect(&vhost.uri()).await;
    eventually("it is parked", LIMIT, async || (client.depth("leveret.parked").await == 1).then_some(()))
        .await;
}

/// Readiness and log say what is wrong, for as long as it is.
pub(super) async fn a_fault_that_is_mended_needs_no_restart(broker: &Broker) {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let expired = Wish { valid: ("20200101000000Z", "20210101000000Z"), ..Wish::default() };
    let node = TlsNode::start(broker, &authority.issue_as("expired", &expired), &authority, &MAY_HAVE);
    let vhost = node.broker().create_vhost();
    let yaml = format!("ladder: [1s]\namqp: {{ tls: {{ ca_file: {} }} }}\n", authority.cert().display());
    let mut leveret = Setup::new(&node.uri(&vhost, "localhost")).config(&yaml).spawn();
    let said = "the broker's certificate expired at 2021-01-01T00:00:00Z";
    eventually("readiness says why", LIMIT, async || {
        let (status, body) = leveret.get("/readyz")?;
        (status == 503 && body.contains(said)).then_some(())
    })
    .await;
    let log = leveret.log();
    let told = |line: &str| line.contains("WARN") && line.contains("trying again") && line.contains(said);
    assert!(log.lines().any(told), "{log}");
    node.present(&authority.issue("renewed"));
    leveret.wait_until_ready().await;
    delivers(&vhost).await;
}
