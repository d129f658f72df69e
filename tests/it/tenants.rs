//! Several Leverets that know nothing of each other on one broker: each with a namespace, and a user, of its own.

use lapin::ExchangeKind;
use lapin::types::FieldTable;

use crate::harness::broker::Broker;
use crate::harness::client::Client;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, publish_numbered, take_numbered};
use crate::harness::runner::{Case, cases};
use crate::harness::vhost::Vhost;

pub(crate) const CASES: &[Case] = cases![shared: namespaces_share_a_virtual_host];

/// A tenant's configuration: its name is in those of its exchanges, and in its namespace.
fn config(tenant: &str, ladder: &str) -> String {
    format!(
        "namespace: leveret.{tenant}\nladder: {ladder}\nbridges:\n  - name: main\n    \
         entry: {{ exchange: {tenant}.delayed }}\n    target: {{ exchange: {tenant}.target }}\n"
    )
}

/// How a tenant connects: with permissions for its own alone.
fn uri(vhost: &Vhost, tenant: &str) -> String {
    let own = format!(r"^(leveret\.{tenant}|{tenant})\..*$");
    vhost.add_user(tenant, "", [&own, &own, &own]).uri(vhost.name())
}

/// One name begins like the other, so that whoever looked for less than `leveret.shop.` would find both.
async fn namespaces_share_a_virtual_host(broker: &Broker) {
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    let tenants = [("shop", "[300ms, 1s]"), ("shop-2", "[500ms]")];
    let mut running = Vec::new();
    for (tenant, ladder) in tenants {
        let target = format!("{tenant}.target");
        client.declare_exchange(&target, ExchangeKind::Topic).await;
        client.declare_queue(&format!("{tenant}.q"), FieldTable::default()).await;
        client.bind(&format!("{tenant}.q"), &target, "#", FieldTable::default()).await;
        running.push(Leveret::start(&uri(&vhost, tenant), &config(tenant, ladder)).await);
    }
    for (tenant, _) in tenants {
        publish_numbered(&client, &format!("{tenant}.delayed"), 1_500, 0..20, |_| "key".to_owned()).await;
    }
    let mut inboxes = Vec::new();
    for (tenant, _) in tenants {
        let mut inbox = client.consume(&format!("{tenant}.q")).await;
        take_numbered(&mut inbox, 0..20).await;
        inboxes.push(inbox);
    }
    // The other goes on when one is stopped.
    let (gone, mut left) = (running.remove(0), running.remove(0));
    gone.sigterm();
    publish_numbered(&client, "shop-2.delayed", 700, 20..30, |_| "key".to_owned()).await;
    take_numbered(&mut inboxes[1], 20..30).await;
    left.wait_until_ready_within(LIMIT).await;
    let levels: Vec<_> = vhost.queue_names().into_iter().filter(|name| name.contains(".level.")).collect();
    assert_eq!(levels, ["leveret.shop-2.level.500ms", "leveret.shop.level.1s", "leveret.shop.level.300ms"]);
}
