//! A broker to test on: a private node, or one that somebody else runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::eventually;
use super::management::Management;
use super::node::{Extra, Installation, Node};
use super::vhost::Vhost;

const ALARM_LIMIT: Duration = Duration::from_secs(20);

/// A host that speaks AMQP, and whom to be there.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// Percent-encoded, as in a URI.
    pub(crate) password: String,
}

impl Address {
    /// Reads `amqp://user:password@host:port`; what follows is ignored.
    pub(crate) fn parse(uri: &str) -> Result<Self, String> {
        let parts = || {
            let rest = uri.strip_prefix("amqp://")?;
            let authority = rest.split('/').next()?;
            let (credentials, host_and_port) =
                authority.rsplit_once('@').unwrap_or(("guest:guest", authority));
            let (user, password) = credentials.split_once(':')?;
            let (host, port) = host_and_port.rsplit_once(':').unwrap_or((host_and_port, "5672"));
            let port = port.parse().ok()?;
            Some(Self { host: host.into(), port, user: user.into(), password: password.into() })
        };
        parts().ok_or_else(|| "the broker's URI must be amqp://user:password@host:port".to_owned())
    }

    /// The URI of a virtual host there.
    pub(crate) fn uri(&self, vhost: &str) -> String {
        let Self { host, port, user, password } = self;
        let vhost = vhost.replace('/', "%2f");
        format!("amqp://{user}:{password}@{host}:{port}/{vhost}")
    }
}

/// What a broker is short of. It then blocks every connection that publishes, on all nodes of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    Memory,
    Disk,
}

/// A broker. Ordinary tests share one of each installation, each in virtual hosts of its own; a test that stops or
/// alarms the broker takes a [`Broker::dedicated`] one.
pub(crate) struct Broker {
    version: (u32, u32),
    address: Address,
    management: Management,
    /// None where somebody else runs the broker.
    own: Option<(Installation, Node)>,
}

impl Broker {
    /// Starts a private node.
    pub(crate) fn start(installation: Installation, extra: &Extra<'_>) -> Result<Self, String> {
        Self::on(installation, Node::start(installation, extra)?)
    }

    /// Starts another node in the cluster of this one. See [`super::cluster::Cluster`].
    pub(super) fn join(&self) -> Result<Self, String> {
        let (installation, node) = self.own();
        Self::on(*installation, node.join()?)
    }

    fn on(installation: Installation, node: Node) -> Result<Self, String> {
        let (user, password) = ("guest".to_owned(), "guest".to_owned());
        let address = Address { host: "127.0.0.1".to_owned(), port: node.amqp_port, user, password };
        let management = Management::new(&format!("http://guest:guest@127.0.0.1:{}", node.management_port));
        management.wait_until_ready()?;
        Self::new(address, management, Some((installation, node)))
    }

    /// A broker that somebody else runs.
    pub(crate) fn external(address: Address, management_url: &str) -> Result<Self, String> {
        Self::new(address, Management::new(management_url), None)
    }

    fn new(
        address: Address,
        management: Management,
        own: Option<(Installation, Node)>,
    ) -> Result<Self, String> {
        let version = major_and_minor(&management.version()?)?;
        Ok(Self { version, address, management, own })
    }

    /// Another node of the same installation, for this test alone: it may stop, kill and alarm it.
    pub(crate) fn dedicated(&self) -> Self {
        self.dedicated_with("")
    }

    /// As [`Broker::dedicated`], with lines added to its `rabbitmq.conf`.
    pub(crate) fn dedicated_with(&self, conf: &str) -> Self {
        self.dedicated_beside(&Extra { conf, ..Extra::default() })
    }

    /// As [`Broker::dedicated`], with something beside the usual.
    pub(crate) fn dedicated_beside(&self, extra: &Extra<'_>) -> Self {
        let installation = self.own().0;
        Self::start(installation, extra).unwrap()
    }

    /// Whether it is private: a test may then stop, kill and alarm it.
    #[allow(dead_code, reason = "for the torture test, which spares a broker that is not")]
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Its major and minor version: `(4, 3)`.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Where it speaks AMQP.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Its management API.
    pub(crate) fn management(&self) -> &Management {
        &self.management
    }

    /// A fresh virtual host, deleted when it is dropped.
    pub(crate) fn create_vhost(&self) -> Vhost {
        // No two of any brokers have the same name.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        Vhost::create(&self.management, &self.address, name)
    }

    /// Makes sure that a crash leaves the quorum queues declared so far. RabbitMQ writes the list of them late: where
    /// it is killed within a second or so of a declaration, it comes back with that queue empty or without a leader,
    /// confirmed messages notwithstanding (3.10.8 and 4.3.6).
    pub(crate) fn flush_declarations(&self) {
        self.eval("[ok = dets:sync(Table) || Table <- dets:all()].");
    }

    /// Kills it with SIGKILL, as a crash would. See [`Broker::flush_declarations`].
    pub(crate) fn kill(&self) {
        self.own().1.kill();
    }

    /// Stops it in good order.
    pub(crate) fn stop(&self) {
        self.own().1.stop();
    }

    /// Starts it again, with the same ports and data, and waits until it serves.
    pub(crate) fn start_again(&self) {
        self.own().1.start_again();
        self.management.wait_until_ready().unwrap();
    }

    /// Stops it in good order and starts it again.
    pub(crate) fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Raises or clears an alarm.
    pub(crate) async fn set_alarm(&self, alarm: Alarm, raised: bool) {
        let (limit, field) = match (alarm, raised) {
            (Alarm::Memory, true) => {
                (["set_vm_memory_high_watermark", "absolute", "1MB"].as_slice(), "mem_alarm")
            }
            (Alarm::Memory, false) => (["set_vm_memory_high_watermark", "0.6"].as_slice(), "mem_alarm"),
            (Alarm::Disk, true) => (["set_disk_free_limit", "1000000GB"].as_slice(), "disk_free_alarm"),
            (Alarm::Disk, false) => (["set_disk_free_limit", "50MB"].as_slice(), "disk_free_alarm"),
        };
        self.own().1.ctl(limit);
        eventually("the alarm is as asked", ALARM_LIMIT, async || {
            let nodes = self.management.find("/nodes")?;
            let alarms = nodes.as_array()?.iter().any(|node| node[field] == true);
            (alarms == raised).then_some(())
        })
        .await;
    }

    /// Has it read again whom to believe in TLS, which it otherwise keeps for as long as anybody is connected.
    pub(crate) fn reread_authorities(&self) {
        self.own().1.ctl(&["eval", "ssl:clear_pem_cache()."]);
    }

    /// Closes every channel that consumes in this virtual host with a soft error: the broker believes that the client has
    /// acknowledged what it was never given.
    pub(crate) fn fail_consuming_channels(&self, vhost: &str) {
        let fail = format!(
            "[rabbit_channel_common:do(Channel, {{'basic.ack', 1000000000, false}}) || Channel <- rabbit_channel:list(), \
             [{{vhost, <<\"{vhost}\">>}}, {{consumer_count, Count}}] <- [rabbit_channel:info(Channel, [vhost, consumer_count])], \
             Count > 0]."
        );
        self.eval(&fail);
    }

    /// Gives consumers so long to acknowledge a delivery. For connections that are made from now on.
    pub(crate) fn set_consumer_timeout(&self, timeout: Duration) {
        let ms = timeout.as_millis();
        // The 3 series looks once in a tick of the channel, which is a minute.
        self.eval(&format!(
            "[application:set_env(rabbit, Name, Ms) || {{Name, Ms}} <- [{{consumer_timeout, {ms}}}, \
             {{channel_tick_interval, 500}}]]."
        ));
    }

    /// Lets a classic queue hang: it takes no message and confirms none until it is resumed.
    pub(crate) fn suspend_queue(&self, vhost: &str, queue: &str) {
        self.tell_queue("suspend", vhost, queue);
    }

    /// Lets a queue go on that hangs.
    pub(crate) fn resume_queue(&self, vhost: &str, queue: &str) {
        self.tell_queue("resume", vhost, queue);
    }

    fn tell_queue(&self, what: &str, vhost: &str, queue: &str) {
        let name = format!("rabbit_misc:r(<<\"{vhost}\">>, queue, <<\"{queue}\">>)");
        let tell =
            format!("{{ok, Queue}} = rabbit_amqqueue:lookup({name}), sys:{what}(amqqueue:get_pid(Queue)).");
        self.eval(&tell);
    }

    /// Enables a plugin that RabbitMQ comes with.
    pub(crate) fn enable_plugin(&self, name: &str) {
        self.own().1.enable_plugin(name);
    }

    /// The directory of its node, with its logs.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.own().1.directory()
    }

    /// Ends its node for good: for a broker that is never dropped.
    pub(crate) fn dispose(&self) {
        self.own().1.dispose();
    }

    /// What the nodes of its cluster call it.
    pub(crate) fn node_name(&self) -> &str {
        &self.own().1.name
    }

    /// Runs an Erlang expression on its node.
    pub(super) fn eval(&self, expression: &str) {
        self.own().1.ctl(&["eval", expression]);
    }

    fn own(&self) -> &(Installation, Node) {
        self.own.as_ref().expect("this test needs a node of its own: list it under `own_node`")
    }
}

/// The first two numbers of a version.
pub(crate) fn major_and_minor(version: &str) -> Result<(u32, u32), String> {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    numbers.next().zip(numbers.next()).ok_or_else(|| format!("{version:?} is not a version"))
}
