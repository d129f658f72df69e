//! Nodes that form a cluster. Quorum queues that are declared while all of them run have a member on each.

use std::time::Duration;

use super::broker::Broker;
use super::vhost::Vhost;
use super::{blocking, eventually};

/// Queues whose member was away catch up.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);

/// A node and those that have joined it. Where there are none, it is a cluster of one.
pub(crate) struct Cluster<'a> {
    first: &'a Broker,
    others: Vec<Broker>,
}

impl<'a> Cluster<'a> {
    /// Starts as many nodes as it takes for a cluster of `size`.
    pub(crate) fn around(first: &'a Broker, size: usize) -> Self {
        Self { first, others: (1..size).map(|_| first.join().unwrap()).collect() }
    }

    /// The first node, which creates virtual hosts, and then the others.
    pub(crate) fn nodes(&self) -> Vec<&Broker> {
        std::iter::once(self.first).chain(&self.others).collect()
    }

    /// The URI of a virtual host on all nodes.
    pub(crate) fn uri(&self, vhost: &Vhost) -> String {
        self.uri_from(0, vhost)
    }

    /// The same, beginning with another node: whoever connects prefers that.
    pub(crate) fn uri_from(&self, first: usize, vhost: &Vhost) -> String {
        if self.others.is_empty() {
            return vhost.uri();
        }
        let mut ports: Vec<_> = self.nodes().iter().map(|node| node.address().port).collect();
        ports.rotate_left(first);
        vhost.uri_through_any(&ports)
    }

    /// See [`Broker::flush_declarations`].
    pub(crate) fn flush_declarations(&self) {
        self.nodes().iter().for_each(|node| node.flush_declarations());
    }

    /// Waits until no quorum queue would be without a majority if this node of the cluster went.
    pub(crate) async fn wait_until_spare(&self, node: &Broker) {
        if self.others.is_empty() {
            return;
        }
        eventually("the cluster can do without a node", WHOLE_LIMIT, async || {
            let path = "/health/checks/node-is-quorum-critical";
            let (status, _) = node.management().try_call("GET", path, None).ok()?;
            (status == 200).then_some(())
        })
        .await;
    }

    /// Cuts a node off from the others, which stay together; clients still reach all of them.
    pub(crate) fn isolate(&self, node: &Broker) {
        let peers = self.peers(node);
        // With the wrong cookie it neither comes to them nor lets them in.
        node.eval(&format!(
            "[begin erlang:set_cookie(Peer, severed), erlang:disconnect_node(Peer) end || Peer <- [{peers}]]."
        ));
    }

    /// Ends what [`Cluster::isolate`] began.
    pub(crate) fn rejoin(&self, node: &Broker) {
        let peers = self.peers(node);
        node.eval(&format!(
            "[begin erlang:set_cookie(Peer, erlang:get_cookie()), net_kernel:connect_node(Peer) end || Peer <- [{peers}]]."
        ));
    }

    /// The names of the other nodes.
    fn peers(&self, node: &Broker) -> String {
        let others = self.nodes().into_iter().map(Broker::node_name).filter(|name| *name != node.node_name());
        others.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
    }

    /// The node that leads a quorum queue.
    pub(crate) async fn leader_of(&self, vhost: &Vhost, queue: &str) -> &Broker {
        eventually("a queue has a leader", WHOLE_LIMIT, async || {
            let stats = vhost.queue_stats(queue)?;
            let leader = stats.details["leader"].as_str()?;
            self.nodes().into_iter().find(|node| node.node_name() == leader)
        })
        .await
    }

    /// Kills all nodes with SIGKILL.
    pub(crate) fn kill(&self) {
        self.nodes().iter().for_each(|node| node.kill());
    }

    /// Starts all nodes again. None of them serves before most of them run.
    pub(crate) fn start_again(&self) {
        blocking(|| {
            std::thread::scope(|scope| {
                for node in self.nodes() {
                    scope.spawn(|| node.start_again());
                }
            });
        });
    }
}
