//! A replica of Leveret behind proxies of its own, one for each node.

use std::time::Duration;

use tokio::time::sleep;

use super::schedule::ReplicaFault;
use super::stage::RECOVERY_LIMIT;
use super::traffic::CONFIG;
use crate::harness::cluster::Cluster;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::proxy::Proxy;
use crate::harness::vhost::Vhost;

pub(crate) struct Replica {
    leveret: Leveret,
    uri: String,
    proxies: Vec<Proxy>,
}

impl Replica {
    /// Starts one and waits until it is ready. Each prefers another node.
    pub(crate) async fn start(number: usize, cluster: &Cluster<'_>, vhost: &Vhost) -> Self {
        let mut nodes = cluster.nodes();
        let first = number % nodes.len();
        nodes.rotate_left(first);
        let mut proxies = Vec::new();
        for node in nodes {
            proxies.push(Proxy::start(node.address()).await);
        }
        let ports: Vec<_> = proxies.iter().map(Proxy::port).collect();
        let uri = vhost.uri_through_any(&ports);
        let mut replica = Self { leveret: spawn(&uri), uri, proxies };
        replica.wait_until_ready().await;
        replica
    }

    /// Breaks for a while, and recovers.
    pub(crate) async fn suffer(&mut self, fault: ReplicaFault, lasts: Duration) {
        match fault {
            ReplicaFault::Killed => {
                self.leveret.sigkill();
                self.leveret.wait().await;
                sleep(lasts).await;
                self.leveret = spawn(&self.uri);
            }
            ReplicaFault::Frozen => {
                self.leveret.sigstop();
                sleep(lasts).await;
                self.leveret.sigcont();
            }
            ReplicaFault::CutOff => {
                self.proxies.iter().for_each(|proxy| {
                    proxy.refuse();
                    proxy.cut();
                });
                sleep(lasts).await;
                self.proxies.iter().for_each(Proxy::resume);
            }
            ReplicaFault::Stalled => {
                self.proxies.iter().for_each(Proxy::stall);
                sleep(lasts).await;
                self.proxies.iter().for_each(Proxy::resume);
            }
        }
        self.wait_until_ready().await;
    }

    pub(crate) async fn wait_until_ready(&mut self) {
        self.leveret.wait_until_ready_within(RECOVERY_LIMIT).await;
    }

    /// Deliveries that it has taken and not acknowledged.
    pub(crate) fn unsettled(&self) -> f64 {
        self.leveret.metrics().sum("leveret_unsettled_deliveries", &[])
    }

    /// Stops it in good order.
    pub(crate) async fn stop(mut self) {
        self.leveret.sigterm();
        self.leveret.expect_exit(0).await;
    }
}

fn spawn(uri: &str) -> Leveret {
    Setup::new(uri).config(CONFIG).spawn()
}
