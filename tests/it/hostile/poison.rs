//! Messages that make their own publish fail: each is parked, and what shares a bundle with it comes. Targets that fail
//! are the subject of `bad_targets`.

use std::collections::BTreeSet;

use lapin::types::{AMQPValue, FieldTable};
use leveret::domain::bundle::{self, CONTENT_TYPE};
use leveret::domain::message::Message;

use super::{carried, forge, wire};
use crate::fidelity::scene::{ENTRY, INBOX, SOON, Scene, text};
use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::{Client, table};
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, wait_for_metric};
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, property};

pub(crate) const CASES: &[Case] = cases![
    shared: a_message_that_the_broker_refuses_costs_its_bundle_nothing,
        a_message_that_chooses_a_bad_exchange_costs_its_bundle_nothing,
        what_claims_to_be_refused_from_tomorrow_is_given_up;
    own_node: what_cannot_even_be_parked_is_moved_by_the_broker
];

/// Headers and properties that RabbitMQ takes from nobody, or not from Leveret's user, each with the reason for which the
/// message is parked: a broker of another version, or other settings, may refuse what the one before it took.
fn refused() -> Vec<(RawProperties, &'static str)> {
    let headers = |field: Field| RawProperties::of_headers(&[field]);
    let expiring = |text: &str| RawProperties::default().with_text(property::EXPIRATION, text);
    let nan = Field::new("n", b'd', &f64::NAN.to_be_bytes());
    let infinite = [Field::new("n", b'f', &f32::INFINITY.to_be_bytes())];
    let deep = Field::new("deep", b'F', &crate::harness::table::encode(&infinite));
    vec![
        (expiring("soon"), "refused"),
        (expiring("-1"), "refused"),
        (headers(Field::int("CC", 1)), "refused"),
        (headers(Field::text("CC", INBOX)), "refused"),
        (headers(Field::new("BCC", b'V', &[])), "refused"),
        // At these, RabbitMQ closes the whole connection.
        (headers(nan), "refused"),
        (headers(deep), "refused"),
        // Of a type that there is not; and what are no properties at all.
        (headers(Field::new("z", b'Z', &[0])), "unreadable-bundle"),
        (RawProperties { flags: property::TIMESTAMP, bytes: vec![1, 2, 3] }, "unreadable-bundle"),
    ]
}

async fn a_message_that_the_broker_refuses_costs_its_bundle_nothing(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    for (exchange, key) in [("leveret.due", ""), ("leveret.level", "leveret.level.125ms")] {
        let (mut messages, mut good, mut bad) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (index, (properties, reason)) in refused().into_iter().enumerate() {
            let body = format!("good {index}");
            messages.push(carried(INBOX, body.as_bytes()));
            good.insert(body.into_bytes());
            let poison = Message { properties: wire(&properties), ..carried(INBOX, b"bad") };
            bad.insert((poison.id.to_string(), reason.to_owned()));
            messages.push(poison);
        }
        // Somebody else's name is no poison: it is moved to a header.
        let other = RawProperties::default().with_text(property::USER_ID, "somebody");
        messages.push(Message { properties: wire(&other), ..carried(INBOX, b"of somebody") });
        good.insert(b"of somebody".to_vec());
        forge(&mut scene.raw, exchange, key, &messages).await;

        let mut parked = BTreeSet::new();
        for _ in 0..bad.len() {
            let properties = scene.parked().await.properties;
            parked.insert((text(&properties, "x-leveret-id"), text(&properties, "x-leveret-reason")));
        }
        assert_eq!(parked, bad);
        // What shared a channel with a refused message may come twice.
        while !good.is_empty() {
            good.remove(&scene.receive().await.message.body);
        }
    }
    scene.never_reconnected();
    settled(&scene.leveret).await;
    assert_eq!(scene.raw.get("leveret.parked").await, None);
}

async fn settled(leveret: &Leveret) {
    eventually("everything is settled", LIMIT, async || {
        (leveret.metrics().sum("leveret_unsettled_deliveries", &[]) == 0.0).then_some(())
    })
    .await;
}

/// An application may choose the exchange where the bridge lets it.
async fn a_message_that_chooses_a_bad_exchange_costs_its_bundle_nothing(broker: &Broker) {
    let bridge = "bridges: [{ name: default, entry: { exchange: delay }, target: { exchange: '', \
                  allow: ['m*', 'é*', 'nul*', 'internal', 'leveret.*', 'amq.*'] } }]";
    let mut scene = Scene::with(broker, bridge).await;
    let internal = serde_json::json!({ "type": "topic", "durable": true, "internal": true });
    broker.management().put(&format!("/exchanges/{}/internal", scene.vhost.name()), &internal);
    let (ascii, longest) = ("m".repeat(255), "é".repeat(127));
    let choices = [
        ("missing", "exchange-missing"),
        ("é", "exchange-missing"),
        (ascii.as_str(), "exchange-missing"),
        // What the broker would say of these, the client could not read.
        (longest.as_str(), "exchange-not-allowed"),
        ("nul \0 and \n", "exchange-not-allowed"),
        ("internal", "access-refused"),
        ("leveret.due", "target-loops"),
        ("amq.fanout", "unroutable"),
    ];
    let mut bad = BTreeSet::new();
    let mut inbox = scene.app.consume(INBOX).await;
    let mut good = BTreeSet::new();
    for round in 0..3 {
        for (exchange, reason) in choices {
            let headers = [Field::int("x-delay", 1_500), Field::text("x-delay-exchange", exchange)];
            let body = format!("{round} {exchange}");
            scene.raw.publish(ENTRY, INBOX, &RawProperties::of_headers(&headers), body.as_bytes()).await;
            bad.insert((body.clone().into_bytes(), reason.to_owned()));
            scene.send(&RawProperties::of_headers(&headers[..1]), body.as_bytes()).await;
            good.insert(body.into_bytes());
        }
    }
    let mut parked = BTreeSet::new();
    for _ in 0..bad.len() {
        let message = scene.parked().await;
        parked.insert((message.body, text(&message.properties, "x-leveret-reason")));
    }
    assert_eq!(parked, bad);
    let come: BTreeSet<_> =
        inbox.take(good.len(), SOON).await.into_iter().map(|received| received.delivery.data).collect();
    assert_eq!(come, good);
    scene.never_reconnected();
    settled(&scene.leveret).await;
    assert!(inbox.drain().is_empty());
    assert_eq!(scene.raw.get("leveret.parked").await, None);
}

/// The time for which a full target is tried counts from now at the latest.
async fn what_claims_to_be_refused_from_tomorrow_is_given_up(broker: &Broker) {
    let config = "delivery: { give_up_after: 1s }";
    let full = table([
        ("x-max-length", AMQPValue::LongInt(0)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ]);
    let mut scene =
        Scene::prepared(broker, config, async |app| app.declare_queue("full", full.clone()).await).await;
    let later = leveret::domain::time::UnixMillis(u64::MAX);
    let message = Message { refused_since: Some(later), ..carried("full", b"given up") };
    forge(&mut scene.raw, "leveret.due", "", &[message, carried(INBOX, b"good")]).await;
    assert_eq!(scene.receive().await.message.body, b"good");
    let parked = scene.parked().await;
    assert_eq!(text(&parked.properties, "x-leveret-reason"), "target-full");
    assert_eq!(parked.body, b"given up");
    scene.nothing_more().await;
}

/// A message that is larger than the broker's limit by now, as after the limit was lowered, is refused for the parked queue
/// as well. What brought it is moved there by the broker, and takes no memory any more.
async fn what_cannot_even_be_parked_is_moved_by_the_broker(broker: &Broker) {
    const LIMIT_BYTES: usize = 65_536;
    let node = broker.dedicated_with(&format!("max_message_size = {LIMIT_BYTES}\n"));
    let vhost = node.create_vhost();
    let leveret = Leveret::start(&vhost.uri(), crate::fidelity::scene::LADDER).await;
    let client = Client::connect(&vhost.uri()).await;
    client.declare_queue(INBOX, FieldTable::default()).await;
    let mut inbox = client.consume(INBOX).await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    // Compressed, it was small enough for its bundle.
    let large = carried(INBOX, &vec![0; 2 * LIMIT_BYTES]);
    let whole = bundle::encode(&[carried(INBOX, b"before"), large, carried(INBOX, b"after")]);
    let content = zstd::bulk::compress(&whole[6..whole.len() - 4], 1).unwrap();
    let mut body = [b"LVRT".as_slice(), &[bundle::VERSION, 1], &content].concat();
    body.extend(crc32c::crc32c(&body).to_be_bytes());
    let envelope = RawProperties::of_headers(&[Field::new("x-leveret-version", b'l', &1_i64.to_be_bytes())])
        .with_text(property::CONTENT_TYPE, CONTENT_TYPE);
    raw.publish("leveret.due", "", &envelope, &body).await;

    let mut missing = BTreeSet::from([b"before".to_vec(), b"after".to_vec()]);
    while !missing.is_empty() {
        missing.remove(&inbox.next(LIMIT).await.delivery.data);
    }
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[("reason", "refused")], 1.0).await;
    eventually("the broker has moved it", LIMIT, async || {
        (client.depth("leveret.parked").await == 1).then_some(())
    })
    .await;
    settled(&leveret).await;
    let listed = command(&vhost.uri(), &["parked", "list", "--json"]).expect(0).json();
    assert_eq!(listed[0]["reason"], "dead-lettered", "{listed}");
    let parked = raw.get("leveret.parked").await.unwrap();
    assert!(parked.body == body, "the bundle changed");
    assert_eq!(leveret.metrics().sum("leveret_reconnects_total", &[]), 0.0);
    // Others are taken on.
    client.publish(ENTRY, INBOX, crate::harness::messages::delayed(300), b"next").await;
    assert_eq!(inbox.next(LIMIT).await.delivery.data, b"next");
}
