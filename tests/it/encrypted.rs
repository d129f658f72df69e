//! `amqps`: an authority of one's own, the wrong one, and a certificate in place of a password.

use std::path::Path;

use lapin::types::FieldTable;
use serde_json::json;

use crate::harness::broker::{Address, Broker};
use crate::harness::certificates::Authority;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::messages::{LIMIT, publish_numbered, take_numbered};
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::RawProperties;
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![shared:; own_node: connections_are_encrypted_and_authenticated];

/// One node for all of it: it has to be restarted to learn its certificates.
async fn connections_are_encrypted_and_authenticated(broker: &Broker) {
    let node = broker.dedicated();
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "right");
    let stranger = Authority::new(directory.path(), "wrong");
    let port = encrypt(&node, &authority);
    let vhost = node.create_vhost();
    let address = Address { port, ..node.address().clone() };
    let uri = address.uri(vhost.name()).replacen("amqp:", "amqps:", 1);
    let tls = |ca: &Path, more: &str| {
        format!("ladder: [1s]\namqp: {{ tls: {{ ca_file: {}{more} }} }}\n", ca.display())
    };

    // The right authority; and the name of the host is checked, too.
    for host in ["127.0.0.1", "localhost"] {
        let leveret = Leveret::start(&uri.replace("127.0.0.1", host), &tls(&authority.cert(), "")).await;
        delivers(&vhost).await;
        drop(leveret);
    }
    // Another authority, and none but the system's.
    for yaml in [tls(&stranger.cert(), ""), "ladder: [1s]\n".to_owned()] {
        is_refused(&Setup::new(&uri).config(&yaml).spawn(), "certificate").await;
    }
    // Plain text to the port.
    let plain = format!("{}?connection_timeout=1000", uri.replacen("amqps:", "amqp:", 1));
    is_refused(&Setup::new(&plain).spawn(), "cannot connect").await;

    // A client certificate in place of user and password.
    let client = authority.issue("hare");
    let external = |(cert, key): (&Path, &Path)| {
        let files = format!(", cert_file: {}, key_file: {}, external: true", cert.display(), key.display());
        tls(&authority.cert(), &files)
    };
    node.management().put("/users/hare", &json!({ "password_hash": "", "tags": "" }));
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    node.management().put(&format!("/permissions/{}/hare", vhost.name()), &all);
    let nameless = format!("amqps://127.0.0.1:{port}/{}", vhost.name());
    let leveret = Leveret::start(&nameless, &external((&client.cert, &client.key))).await;
    delivers(&vhost).await;
    rescues(&vhost).await;
    drop(leveret);
    let forged = stranger.issue("hare");
    let setup = Setup::new(&nameless).config(&external((&forged.cert, &forged.key)));
    is_refused(&setup.spawn(), "cannot connect").await;
}

async fn delivers(vhost: &Vhost) {
    let client = Client::connect(&vhost.uri()).await;
    // A queue of its own, for which no earlier consumer is left.
    let queue = format!("q-{}", fastrand::u64(..));
    client.declare_queue(&queue, FieldTable::default()).await;
    publish_numbered(&client, "delay", 100, 0..2, |_| queue.clone()).await;
    take_numbered(&mut client.consume(&queue).await, 0..2).await;
}

/// What the client library cannot read is found over a connection of another kind, which must be encrypted too.
async fn rescues(vhost: &Vhost) {
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    raw.publish_bytes("delay", &[0xff], &RawProperties::default(), b"unreadable").await.unwrap();
    let parked = eventually("it is parked", LIMIT, async || raw.get("leveret.parked").await).await;
    assert_eq!(parked.body, b"unreadable");
}

async fn is_refused(leveret: &Leveret, word: &str) {
    eventually(&format!("it is refused: {word}"), LIMIT, async || {
        let log = leveret.log();
        log.lines().any(|line| line.contains("trying again") && line.contains(word)).then_some(())
    })
    .await;
    assert!(!leveret.is_ready());
}

/// Gives the node a listener with TLS that asks for client certificates and takes them for authentication. Its port.
fn encrypt(node: &Broker, authority: &Authority) -> u16 {
    let server = authority.issue("server");
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    node.stop();
    let configuration = node.directory().join("rabbitmq.conf");
    let mut text = std::fs::read_to_string(&configuration).unwrap();
    // As the node sees its own directory, which may be another root than this one's.
    let environment = std::fs::read_to_string(node.directory().join("environment")).unwrap();
    let inside = environment
        .lines()
        .find_map(|line| line.strip_prefix("export RABBITMQ_CONFIG_FILE=")?.strip_suffix("/rabbitmq.conf"))
        .unwrap();
    for (key, source) in
        [("cacertfile", authority.cert()), ("certfile", server.cert), ("keyfile", server.key)]
    {
        std::fs::copy(source, node.directory().join(key)).unwrap();
        text += &format!("ssl_options.{key} = {inside}/{key}\n");
    }
    text += &format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.verify = verify_peer\n\
         ssl_options.fail_if_no_peer_cert = false\nssl_cert_login_from = common_name\n\
         auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n"
    );
    std::fs::write(configuration, text).unwrap();
    let plugins = "[rabbitmq_management, rabbitmq_auth_mechanism_ssl].\n";
    std::fs::write(node.directory().join("enabled_plugins"), plugins).unwrap();
    node.start_again();
    port
}
