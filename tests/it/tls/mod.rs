//! `amqps` and `https`. Each way in which a handshake can fail is told with its cause and what to do about it; and
//! certificates are replaced while Leveret runs.

mod faults;
mod rotation;

use lapin::types::FieldTable;
use serde_json::json;

use crate::harness::client::Client;
use crate::harness::messages::{publish_numbered, take_numbered};
use crate::harness::runner::{Case, cases};
use crate::harness::tls_node::TlsNode;
use crate::harness::vhost::Vhost;
use faults::{a_fault_that_is_mended_needs_no_restart, each_fault_is_told_with_what_to_do};
use rotation::certificates_are_replaced_while_it_runs;

pub(crate) const CASES: &[Case] = cases![
    shared:;
    own_node: each_fault_is_told_with_what_to_do, a_fault_that_is_mended_needs_no_restart,
        certificates_are_replaced_while_it_runs
];

/// A message passes through the default bridge.
async fn delivers(vhost: &Vhost) {
    let client = Client::connect(&vhost.uri()).await;
    // A queue of its own, for which no earlier consumer is left.
    let queue = format!("q-{}", fastrand::u64(..));
    client.declare_queue(&queue, FieldTable::default()).await;
    publish_numbered(&client, "delay", 100, 0..2, |_| queue.clone()).await;
    take_numbered(&mut client.consume(&queue).await, 0..2).await;
}

/// Adds a user without a password, who is let in by a client certificate alone.
fn add_user(node: &TlsNode, vhost: &Vhost, name: &str) {
    let management = node.broker().management();
    let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    management.put(&format!("/users/{name}"), &json!({ "password_hash": "", "tags": "" }));
    let own = r"^(leveret\..*|delay)$";
    let permissions =
        json!({ "configure": own, "write": r"^(leveret\..*|amq\.default|delay)$", "read": own });
    management.put(&format!("/permissions/{}/{name}", vhost.name()), &permissions);
}
