//! Where the run is played: brokers, replicas, targets, consumers; and how each fault is done to them.

use std::sync::Mutex as StdMutex;
use std::time::{Duration, Instant};

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::sync::DropGuard;

use super::record::Record;
use super::replica::Replica;
use super::report::Incident;
use super::schedule::{BrokerFault, Fault, Led, Step, TargetFault, World};
use super::traffic::{BRIDGES, FRAGILE};
use crate::harness::broker::Broker;
use crate::harness::client::{Client, now_ms, table};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::ledger::collect;
use crate::harness::vhost::Vhost;

/// A wait that is longer than this never ends.
pub(crate) const RECOVERY_LIMIT: Duration = Duration::from_secs(300);

const REPLICAS: usize = 3;
/// From the first RabbitMQ on that keeps what a cluster knows in Raft.
const CLUSTERED: (u32, u32) = (4, 0);
const NODES: usize = 3;
/// The fragile target is soon full.
const FRAGILE_LENGTH: i32 = 20;
const PREFETCH: u16 = 1_000;
/// For an operation that a node may leave without an answer when it dies.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Stage<'a> {
    cluster: Cluster<'a>,
    vhost: Vhost,
    /// On all nodes.
    uri: String,
    record: &'static Record,
    /// Each with one fault at a time.
    replicas: Vec<Mutex<Replica>>,
    /// Held while a fault of the broker lasts.
    broker: Mutex<()>,
    /// The consumer of the fragile target, held while a fault of that lasts.
    fragile: Mutex<Option<DropGuard>>,
    _collecting: Vec<DropGuard>,
    began: Instant,
    incidents: StdMutex<Vec<Incident>>,
}

impl<'a> Stage<'a> {
    /// Starts everything but the load: on a cluster where the broker can have one.
    pub(crate) async fn set(broker: &'a Broker, record: &'static Record) -> Self {
        let size = if broker.is_own() && broker.version() >= CLUSTERED { NODES } else { 1 };
        let cluster = Cluster::around(broker, size);
        let vhost = broker.create_vhost();
        let uri = cluster.uri(&vhost);
        declare_targets(&uri).await;
        let mut replicas = Vec::new();
        for number in 0..REPLICAS {
            replicas.push(Mutex::new(Replica::start(number, &cluster, &vhost).await));
        }
        if broker.is_own() {
            cluster.flush_declarations();
        }
        let collect = |queue| collect(record, &uri, queue, PREFETCH, Duration::ZERO);
        let sound = BRIDGES.iter().filter(|bridge| !bridge.is_fragile).map(|bridge| bridge.name);
        let _collecting = sound.chain(["leveret.parked"]).map(collect).collect();
        let fragile = Mutex::new(Some(collect(FRAGILE)));
        let (began, incidents) = (Instant::now(), StdMutex::default());
        Self {
            cluster,
            vhost,
            uri,
            record,
            replicas,
            broker: Mutex::default(),
            fragile,
            _collecting,
            began,
            incidents,
        }
    }

    /// What there is to break.
    pub(crate) fn world(&self) -> World {
        let own = self.cluster.nodes().iter().all(|node| node.is_own());
        World { replicas: self.replicas.len(), nodes: if own { self.cluster.nodes().len() } else { 0 } }
    }

    /// Where to publish.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// What broke so far, and has recovered.
    pub(crate) fn incidents(&self) -> Vec<Incident> {
        self.incidents.lock().unwrap().clone()
    }

    /// The queues that hold something, with how much.
    pub(crate) fn depths(&self) -> Vec<(String, u64)> {
        self.vhost.depths()
    }

    /// Does a fault, and waits until all that it concerns is well again. Faults of the same thing wait for one another.
    pub(crate) async fn suffer(&self, step: Step) {
        let Step { fault, lasts, .. } = step;
        match fault {
            Fault::Replica(number, of_replica) => {
                let mut replica = self.replicas[number].lock().await;
                self.incident(step, replica.suffer(of_replica, lasts)).await;
            }
            Fault::Broker(of_broker) => {
                let _alone = self.broker.lock().await;
                let happening = async {
                    self.befall_broker(of_broker, lasts).await;
                    for replica in &self.replicas {
                        replica.lock().await.wait_until_ready().await;
                    }
                };
                self.incident(step, happening).await;
            }
            Fault::Target(TargetFault::Full) => {
                let mut consumer = self.fragile.lock().await;
                let happening = async {
                    drop(consumer.take());
                    sleep(lasts).await;
                    *consumer = Some(collect(self.record, &self.uri, FRAGILE, PREFETCH, Duration::ZERO));
                };
                self.incident(step, happening).await;
            }
            Fault::Target(TargetFault::Deleted) => {
                let _alone = self.fragile.lock().await;
                let happening = async {
                    self.ask("the fragile target is deleted", delete_fragile_exchange).await;
                    sleep(lasts).await;
                    self.ask("the fragile target is declared again", declare_fragile_exchange).await;
                };
                self.incident(step, happening).await;
            }
        }
    }

    async fn befall_broker(&self, fault: BrokerFault, lasts: Duration) {
        let nodes = self.cluster.nodes();
        match fault {
            BrokerFault::NodeKilled(number) => kill_for(nodes[number], lasts).await,
            BrokerFault::LeaderKilled(led) => {
                let queue = match led {
                    Led::Due => "leveret.due",
                    Led::Level => "leveret.level.1s",
                };
                kill_for(self.cluster.leader_of(&self.vhost, queue).await, lasts).await;
            }
            BrokerFault::NodeCutOff(number) => {
                self.cluster.isolate(nodes[number]);
                sleep(lasts).await;
                self.cluster.rejoin(nodes[number]);
                for node in nodes {
                    self.cluster.wait_until_spare(node).await;
                }
            }
            BrokerFault::Restarted => {
                for node in nodes {
                    self.cluster.wait_until_spare(node).await;
                    node.stop();
                    sleep(lasts / 10).await;
                    node.start_again();
                }
            }
            BrokerFault::AllKilled => {
                self.cluster.kill();
                sleep(lasts).await;
                self.cluster.start_again();
            }
            BrokerFault::Alarm(alarm) => {
                nodes[0].set_alarm(alarm, true).await;
                sleep(lasts).await;
                nodes[0].set_alarm(alarm, false).await;
            }
        }
    }

    async fn incident(&self, step: Step, happening: impl Future<Output = ()>) {
        let Step { fault, lasts, .. } = step;
        let from_ms = now_ms();
        println!("{:9.1} s  {fault}, for {:.1} s", self.began.elapsed().as_secs_f64(), lasts.as_secs_f64());
        happening.await;
        let to_ms = now_ms();
        let took = (to_ms - from_ms) as f64 / 1_000.0;
        println!("{:9.1} s    over after {took:.1} s: {fault}", self.began.elapsed().as_secs_f64());
        self.incidents.lock().unwrap().push(Incident { fault, from_ms, to_ms });
    }

    /// Asks whichever node answers, until one has done it. Between faults of the broker: what is asked of a node that is
    /// cut off may be done long after it was given up, when it is wanted no more.
    async fn ask(&self, what: &str, work: impl AsyncFn(&Client) -> Result<(), lapin::Error>) {
        let _well = self.broker.lock().await;
        eventually(what, RECOVERY_LIMIT, async || {
            let client = Client::try_connect(&self.uri).await.ok()?;
            timeout(ANSWER_LIMIT, work(&client)).await.ok()?.ok()
        })
        .await;
    }

    /// Waits until nothing is left in Leveret, and stops all replicas in good order.
    pub(crate) async fn strike(self) {
        for replica in self.replicas {
            let replica = replica.into_inner();
            eventually("everything is settled", RECOVERY_LIMIT, async || {
                (replica.unsettled() == 0.0).then_some(())
            })
            .await;
            replica.stop().await;
        }
        eventually("all queues are empty", RECOVERY_LIMIT, async || {
            self.vhost.depths().is_empty().then_some(())
        })
        .await;
    }
}

async fn kill_for(node: &Broker, lasts: Duration) {
    node.kill();
    sleep(lasts).await;
    node.start_again();
}

async fn declare_targets(uri: &str) {
    let client = Client::connect(uri).await;
    let quorum = || ("x-queue-type", AMQPValue::LongString("quorum".into()));
    client.declare_queue("mail", table([quorum()])).await;
    client.declare_queue("orders", table([quorum()])).await;
    client.declare_exchange("orders", ExchangeKind::Topic).await;
    client.bind("orders", "orders", "orders.#", FieldTable::default()).await;
    let soon_full = table([
        quorum(),
        ("x-max-length", AMQPValue::LongInt(FRAGILE_LENGTH)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ]);
    client.declare_queue(FRAGILE, soon_full).await;
    declare_fragile_exchange(&client).await.unwrap();
}

async fn declare_fragile_exchange(client: &Client) -> Result<(), lapin::Error> {
    let (channel, none) = (client.channel(), FieldTable::default());
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(FRAGILE.into(), ExchangeKind::Direct, durable, none.clone()).await?;
    channel
        .queue_bind(FRAGILE.into(), FRAGILE.into(), FRAGILE.into(), QueueBindOptions::default(), none)
        .await
}

async fn delete_fragile_exchange(client: &Client) -> Result<(), lapin::Error> {
    client.channel().exchange_delete(FRAGILE.into(), ExchangeDeleteOptions::default()).await
}
