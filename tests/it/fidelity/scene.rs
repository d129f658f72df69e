//! Where these tests play: a sidecar in a virtual host of its own, and an application that sees bytes.

use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};

use crate::harness::broker::Broker;
use crate::harness::client::{Client, now_ms, table};
use crate::harness::eventually;
use crate::harness::leveret::{Leveret, Setup};
use crate::harness::raw::{RawClient, RawMessage};
use crate::harness::table::{Field, RawProperties};
use crate::harness::vhost::Vhost;

/// Generous: a wait that ends later than this never ends.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Few levels, so that a sidecar starts fast; what waits for hours can be looked at in the last.
pub(crate) const LADDER: &str = "ladder: [125ms, 1s, 1h]\n";

/// The queue of what waits for hours.
pub(crate) const LONG_LEVEL: &str = "leveret.level.1h";

/// The entry exchange of the default bridge, which leads to the default exchange.
pub(crate) const ENTRY: &str = "delay";

/// The queue that the application consumes.
pub(crate) const INBOX: &str = "inbox";

/// A sidecar and an application beside it.
pub(crate) struct Scene {
    // It goes before its virtual host does.
    pub(crate) leveret: Leveret,
    pub(crate) app: Client,
    pub(crate) raw: RawClient,
    pub(crate) vhost: Vhost,
}

/// A message and when it came, in Unix milliseconds.
pub(crate) struct Came {
    pub(crate) at_ms: i64,
    pub(crate) message: RawMessage,
}

impl Scene {
    /// A sidecar with the default bridge, and an inbox.
    pub(crate) async fn start(broker: &Broker) -> Self {
        Self::with(broker, "").await
    }

    /// A sidecar with this configuration beside [`LADDER`], and an inbox.
    pub(crate) async fn with(broker: &Broker, config: &str) -> Self {
        Self::prepared(broker, config, async |_| {}).await
    }

    /// As [`Scene::with`], for a sidecar that may send with any `user_id`.
    pub(crate) async fn of_impersonator(broker: &Broker, config: &str) -> Self {
        Self::set_up(broker, Setup::impersonator, config, async |_| {}).await
    }

    /// As [`Scene::with`], after `prepare` has declared what the sidecar expects.
    pub(crate) async fn prepared(broker: &Broker, config: &str, prepare: impl AsyncFnOnce(&Client)) -> Self {
        Self::set_up(broker, |setup| setup, config, prepare).await
    }

    async fn set_up(
        broker: &Broker,
        empower: impl FnOnce(Setup) -> Setup,
        config: &str,
        prepare: impl AsyncFnOnce(&Client),
    ) -> Self {
        let vhost = broker.create_vhost();
        let app = Client::connect(&vhost.uri()).await;
        app.declare_queue(INBOX, FieldTable::default()).await;
        prepare(&app).await;
        let raw = RawClient::connect(vhost.address(), vhost.name()).await;
        let setup = Setup::new(&vhost.uri()).config(&format!("{LADDER}{config}"));
        let leveret = empower(setup).start().await;
        Self { leveret, app, raw, vhost }
    }

    /// Publishes to the default bridge for the inbox; returns when that began, in Unix milliseconds.
    pub(crate) async fn send(&mut self, properties: &RawProperties, body: &[u8]) -> i64 {
        let before = now_ms();
        self.raw.publish(ENTRY, INBOX, properties, body).await;
        before
    }

    /// The next message of the inbox.
    pub(crate) async fn receive(&mut self) -> Came {
        self.receive_from(INBOX).await
    }

    /// The next message of a queue.
    pub(crate) async fn receive_from(&mut self, queue: &str) -> Came {
        let raw = &mut self.raw;
        let message = eventually(&format!("a message in {queue}"), SOON, async || raw.get(queue).await).await;
        Came { at_ms: now_ms(), message }
    }

    /// The next parked message.
    pub(crate) async fn parked(&mut self) -> RawMessage {
        self.receive_from("leveret.parked").await.message
    }

    /// Makes sure that nothing comes that nobody has taken: what was published before this has arrived by the time
    /// that a message published now does.
    pub(crate) async fn nothing_more(&mut self) {
        self.send(&RawProperties::of_headers(&[Field::int("x-delay", 400)]), b"last").await;
        assert_eq!(self.receive().await.message.body, b"last");
        assert_eq!(self.raw.get(INBOX).await, None);
        assert_eq!(self.raw.get("leveret.parked").await, None, "parked");
    }

    /// Makes sure that no message cost the sidecar a connection.
    pub(crate) fn never_reconnected(&self) {
        let metrics = self.leveret.metrics();
        assert_eq!(metrics.sum("leveret_reconnects_total", &[]), 0.0);
        assert_eq!(metrics.sum("leveret_connection_up", &[]), 2.0);
    }
}

/// The arguments of a quorum queue.
pub(crate) fn quorum() -> FieldTable {
    table([("x-queue-type", AMQPValue::LongString("quorum".into()))])
}

/// Leveret's own integer header (`l`).
pub(crate) fn number(properties: &RawProperties, name: &str) -> i64 {
    let field =
        properties.header(name).unwrap_or_else(|| panic!("no header {name}: {:?}", names(properties)));
    i64::from_be_bytes(field.value.as_slice().try_into().unwrap())
}

/// A text header.
pub(crate) fn text(properties: &RawProperties, name: &str) -> String {
    let field =
        properties.header(name).unwrap_or_else(|| panic!("no header {name}: {:?}", names(properties)));
    field.as_text().unwrap_or_else(|| panic!("{field:?} is not text")).to_owned()
}

fn names(properties: &RawProperties) -> Vec<String> {
    properties.headers().into_iter().map(|field| field.name).collect()
}
