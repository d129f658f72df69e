//! A replica of Leveret behind proxies of its own, one for each node.

use std::time::Duration;

use tokio::time::sleep;

use super::schedule::ReplicaFault;
use super::stage::RECOVERY_LIMIT;
use super::traffic::CONFIG;
use crate::harness::cluster::Cluster;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::proxy::{Proxy, Way};
use crate::harness::vhost::Vhost;

/// Bytes a second in each direction of a connection: about a tenth of what a replica moves.
const NARROW: usize = 20_000;

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
                let cut_off = |proxy: &Proxy| {
                    proxy.refuse();
                    proxy.cut();
                };
                self.network(cut_off, lasts).await;
            }
            ReplicaFault::Stalled => self.network(Proxy::stall, lasts).await,
            ReplicaFault::Deaf => self.network(|proxy| proxy.lose(Way::FromBroker), lasts).await,
            ReplicaFault::Mute => self.network(|proxy| proxy.lose(Way::ToBroker), lasts).await,
            ReplicaFault::Narrow => self.network(|proxy| proxy.narrow(NARROW), lasts).await,
        }
        self.wait_until_ready().await;
    }

    /// Its network breaks for a while.
    async fn network(&self, breaks: impl Fn(&Proxy), lasts: Duration) {
        self.proxies.iter().for_each(breaks);
        sleep(lasts).await;
        self.proxies.iter().for_each(Proxy::resume);
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
