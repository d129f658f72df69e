//! The parked queue: what is kept of a message, what is said about it, and how it gets another try.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};

use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::{Client, Received, now_ms, table};
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{
    LIMIT, delayed, number_header, publish_numbered, take_numbered, take_parked, text_header, wait_for_metric,
};
use crate::harness::raw::{RawClient, RawMessage};
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, encode};

pub(crate) const CASES: &[Case] = cases![
    shared: every_property_survives_parking_and_another_try, each_reason_is_told_with_its_detail,
        the_headers_say_where_it_was_going, what_the_broker_moved_there_gets_another_try,
        commands_act_on_what_they_name, another_try_is_safe_beside_other_messages
];

const CONFIG: &str = "ladder: [125ms, 500ms, 1s]
annotate: false
bridges:
  - name: good
    entry: { exchange: good.delayed }
    target: { exchange: good.target }
  - name: bad
    entry: { exchange: bad.delayed }
    target: { exchange: bad.target }
";

/// A target exchange with a classic queue, both of that name.
async fn declare_target(client: &Client, name: &str) {
    client.declare_exchange(name, ExchangeKind::Topic).await;
    client.declare_queue(name, FieldTable::default()).await;
    client.bind(name, name, "#", FieldTable::default()).await;
}

async fn wait_for_depth(client: &Client, queue: &str, depth: u32) {
    eventually(&format!("{queue} has {depth} messages"), LIMIT, async || {
        (client.depth(queue).await == depth).then_some(())
    })
    .await;
}

async fn get(raw: &mut RawClient, queue: &str) -> RawMessage {
    eventually(&format!("a message in {queue}"), LIMIT, async || raw.get(queue).await).await
}

/// A short string in wire encoding.
fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// Every property there is.
fn every_property(headers: &[Field], delivery_mode: u8, expiration: &str) -> RawProperties {
    let timestamp = 1_700_000_000_u64.to_be_bytes();
    let bytes = [
        short("application/x-test"),
        short("identity"),
        encode(headers),
        vec![delivery_mode, 9],
        short("correlation"),
        short("reply.to"),
        short(expiration),
        short("message-1"),
        timestamp.to_vec(),
        short("type"),
        short("guest"),
        short("app"),
        short("cluster"),
    ];
    RawProperties { flags: 0xfffc, bytes: bytes.concat() }
}

/// What comes out after a stay in the parked queue is, byte by byte, what came out at a target that was well.
async fn every_property_survives_parking_and_another_try(broker: &Broker) {
    const EXPIRATION_MS: u64 = 1500;
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), CONFIG).await;
    let client = Client::connect(&vhost.uri()).await;
    declare_target(&client, "good.target").await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;

    let mut headers = Field::of_every_type();
    headers.push(Field::new("x-delay", b'I', &300_i32.to_be_bytes()));
    headers.push(Field::new("x-death", b'A', &encode(&[])));
    let delay = || vec![Field::new("x-delay", b'I', &300_i32.to_be_bytes())];
    let samples = [
        every_property(&headers, 1, &EXPIRATION_MS.to_string()),
        every_property(&delay(), 2, "86400000"),
        RawProperties::of_headers(&headers),
        RawProperties::of_headers(&delay()),
    ];
    for (number, properties) in (0..).zip(&samples) {
        let body = [number, 0, 255];
        for entry in ["good.delayed", "bad.delayed"] {
            raw.publish(entry, "a.routing.key", properties, &body).await;
        }
    }
    let mut expected = BTreeMap::new();
    for _ in &samples {
        let message = get(&mut raw, "good.target").await;
        expected.insert(message.body.clone(), message);
    }
    assert_eq!(expected.len(), samples.len());

    wait_for_depth(&client, "leveret.parked", 4).await;
    // Not a wait for something: nothing may happen in this time.
    tokio::time::sleep(Duration::from_millis(EXPIRATION_MS + 200)).await;
    assert_eq!(client.depth("leveret.parked").await, 4, "expiration ran in the parked queue");
    declare_target(&client, "bad.target").await;
    command(&vhost.uri(), &["parked", "retry", "--all"]).expect(0);
    for _ in &samples {
        let came = get(&mut raw, "bad.target").await;
        let expected = expected.remove(&came.body).expect("it came twice");
        assert_eq!(came, RawMessage { exchange: "bad.target".to_owned(), ..expected });
    }
    wait_for_depth(&client, "leveret.parked", 0).await;
}

/// A message for each reason that needs no special broker, with what its detail must say.
async fn each_reason_is_told_with_its_detail(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let mut leveret = Leveret::start(&uri, &format!("max_delay: 1h\n{CONFIG}")).await;
    let client = Client::connect(&uri).await;
    declare_target(&client, "good.target").await;
    // Keys that begin with `x` lead nowhere.
    client
        .channel()
        .queue_unbind("good.target".into(), "good.target".into(), "#".into(), FieldTable::default())
        .await
        .unwrap();
    let text = |text: &str| AMQPValue::LongString(text.into());
    let publish = async |exchange: &str, key: &str, header: &str, value: AMQPValue| {
        let properties = BasicProperties::default().with_headers(table([(header, value)]));
        client.publish(exchange, key, properties, key.as_bytes()).await;
    };
    publish("good.delayed", "invalid-delay", "x-delay", text("soon")).await;
    publish("good.delayed", "delay-too-long", "x-delay", AMQPValue::LongInt(3_600_001)).await;
    publish("good.delayed", "unroutable", "x-delay", AMQPValue::LongInt(200)).await;
    publish("bad.delayed", "exchange-missing", "x-delay", AMQPValue::LongInt(200)).await;
    publish("good.delayed", "exchange-not-allowed", "x-delay-exchange", text("bad.target")).await;
    publish("leveret.due", "unreadable-bundle", "x-some", text("thing")).await;
    let mut parked = client.consume("leveret.parked").await;
    let mut by_reason = BTreeMap::new();
    for one in parked.take(6, LIMIT).await {
        let said = |name: &str| text_header(&one.delivery, name).unwrap().to_owned();
        assert_eq!(said("x-leveret-reason").as_bytes(), one.delivery.data, "{:?}", one.delivery);
        by_reason.insert(said("x-leveret-reason"), said("x-leveret-detail"));
    }
    // A message that waits for a bridge which is gone when it is due.
    publish("bad.delayed", "unknown-bridge", "x-delay", AMQPValue::LongInt(2000)).await;
    wait_for_metric(&leveret, "leveret_messages_accepted_total", &[("bridge", "bad")], 2.0).await;
    leveret.sigterm();
    assert!(leveret.wait().await.success());
    let config = "ladder: [1s]\nbridges: [{ name: other, entry: { exchange: other.delayed } }]\n";
    let _leveret = Leveret::start(&uri, config).await;
    let one = parked.next(LIMIT).await;
    assert_eq!(text_header(&one.delivery, "x-leveret-reason"), Some("unknown-bridge"));
    let detail = text_header(&one.delivery, "x-leveret-detail").unwrap().to_owned();
    by_reason.insert("unknown-bridge".to_owned(), detail);

    let details = [
        ("invalid-delay", &["x-delay", "soon"][..]),
        ("delay-too-long", &["x-delay", "3600001"]),
        ("unroutable", &["good.target", "unroutable", "312"]),
        ("exchange-missing", &["bad.target", "404"]),
        ("exchange-not-allowed", &["x-delay-exchange", "bad.target", "good"]),
        ("unreadable-bundle", &["bundle"]),
        ("unknown-bridge", &["bad"]),
    ];
    for (reason, words) in details {
        let detail = &by_reason[reason];
        assert!(words.iter().all(|word| detail.contains(word)), "{reason}: {detail}");
    }
    assert!(parked.drain().is_empty());
}

/// The contract with whoever reads the queue.
async fn the_headers_say_where_it_was_going(broker: &Broker) {
    let vhost = broker.create_vhost();
    let _leveret = Leveret::start(&vhost.uri(), CONFIG).await;
    let client = Client::connect(&vhost.uri()).await;
    let before = now_ms();
    let mut headers = table([("x-delay", AMQPValue::LongInt(700)), ("mine", AMQPValue::Boolean(true))]);
    // Nobody but Leveret says these.
    for forged in ["x-leveret-reason", "x-leveret-id", "x-leveret-exchange", "x-leveret-user-id"] {
        headers.insert(forged.into(), AMQPValue::LongString("forged".into()));
    }
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_delivery_mode(1)
        .with_expiration("60000".into())
        .with_user_id("guest".into());
    client.publish("bad.delayed", "a.key", properties, b"body").await;
    client.publish("bad.delayed", "a.key", delayed(700), b"plain").await;
    let mut parked = client.consume("leveret.parked").await;
    let mut both = parked.take(2, LIMIT).await;
    both.sort_by_key(|one| one.delivery.data.len());
    let [full, plain] = both.try_into().unwrap();

    let said = |one: &Received, name: &str| text_header(&one.delivery, name).map(ToOwned::to_owned);
    let told = |name: &str| said(&full, name).unwrap_or_else(|| panic!("no {name}: {:?}", full.delivery));
    assert_eq!(full.delivery.data, b"body");
    assert_eq!(told("x-leveret-reason"), "exchange-missing");
    assert_eq!(told("x-leveret-id").len(), 26);
    assert_eq!(told("x-leveret-bridge"), "bad");
    assert_eq!(told("x-leveret-exchange"), "bad.target");
    assert_eq!(told("x-leveret-entry-exchange"), "bad.delayed");
    assert_eq!(told("x-leveret-routing-key"), "a.key");
    assert_eq!(told("x-leveret-expiration"), "60000");
    assert_eq!(told("x-leveret-user-id"), "guest");
    let number = |name: &str| number_header(&full.delivery, name).unwrap();
    assert_eq!(number("x-leveret-delivery-mode"), 1);
    assert!(number("x-leveret-hops") >= 1);
    let accepted = number("x-leveret-accepted-at");
    assert!(accepted >= before);
    assert_eq!(number("x-leveret-due"), accepted + 700);
    assert!((number("x-leveret-due")..=full.at_ms).contains(&number("x-leveret-parked-at")));
    // The application's own are as they were, and nothing acts on the message while it is parked.
    assert_eq!(number("x-delay"), 700);
    let properties = &full.delivery.properties;
    assert_eq!(properties.headers().as_ref().unwrap().inner()["mine"], AMQPValue::Boolean(true));
    assert_eq!((properties.expiration(), properties.user_id()), (&None, &None));
    assert_eq!(properties.delivery_mode(), &Some(2));

    assert_eq!(said(&plain, "x-leveret-expiration"), None);
    assert_eq!(said(&plain, "x-leveret-user-id"), None);
    assert_eq!(plain.delivery.properties.delivery_mode(), &Some(2));
}

/// A message whose `expiration` ends before Leveret takes it is not lost either.
async fn what_the_broker_moved_there_gets_another_try(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let mut leveret = Leveret::start(&uri, CONFIG).await;
    let client = Client::connect(&uri).await;
    declare_target(&client, "good.target").await;
    leveret.sigterm();
    assert!(leveret.wait().await.success());
    client.publish("good.delayed", "a.key", delayed(100).with_expiration("50".into()), b"7").await;
    wait_for_depth(&client, "leveret.parked", 1).await;
    let listed = command(&uri, &["parked", "list", "--json"]).expect(0).json();
    assert_eq!(listed[0]["reason"], "dead-lettered", "{listed}");
    assert_eq!(listed[0]["routing_key"], "a.key", "{listed}");

    let _leveret = Leveret::start(&uri, CONFIG).await;
    // Its expiration runs again from delivery on.
    let mut inbox = client.consume("good.target").await;
    command(&uri, &["parked", "retry", "--reason", "dead-lettered"]).expect(0);
    let came = inbox.next(LIMIT).await;
    assert_eq!(came.delivery.data, b"7");
    assert_eq!(came.delivery.routing_key.as_str(), "a.key");
    wait_for_depth(&client, "leveret.parked", 0).await;
}

async fn commands_act_on_what_they_name(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let leveret = Leveret::start(&uri, CONFIG).await;
    let client = Client::connect(&uri).await;
    client.declare_exchange("good.target", ExchangeKind::Topic).await;
    // Three of each, of two reasons.
    publish_numbered(&client, "bad.delayed", 100, 0..3, |number| format!("k{number}")).await;
    publish_numbered(&client, "good.delayed", 100, 10..13, |_| "k".to_owned()).await;
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[], 6.0).await;

    let run = |arguments: &[&str]| command(&uri, &[&["parked"], arguments].concat());
    let listed = |arguments: &[&str]| run(&[&["list", "--json"], arguments].concat()).expect(0).json();
    assert_eq!(listed(&[]).as_array().unwrap().len(), 6);
    assert_eq!(listed(&["--limit", "4"]).as_array().unwrap().len(), 4);
    assert_eq!(listed(&["--bridge", "good"]).as_array().unwrap().len(), 3);
    let missing = listed(&["--reason", "exchange-missing"]);
    assert_eq!(missing.as_array().unwrap().len(), 3);
    for one in missing.as_array().unwrap() {
        assert_eq!((&one["bridge"], &one["target"]), (&"bad".into(), &"bad.target".into()), "{one}");
    }
    let shown = run(&["list"]).expect(0).stdout;
    assert_eq!(shown.lines().count(), 7, "{shown}");
    // In whatever order they were parked.
    let told = |name: &str| [0, 1, 2].map(|index: usize| missing[index][name].as_str().unwrap());
    let (ids, keys) = (told("id"), told("routing_key"));

    // Discarding is by id, or needs to be confirmed.
    run(&["discard", "--reason", "unroutable"]).expect(2);
    run(&["discard"]).expect(2);
    run(&["discard", "--id", ids[0]]).expect(0);
    run(&["discard", "--id", ids[0]]).expect(1);
    assert_eq!(listed(&[]).as_array().unwrap().len(), 5);

    // Retried in vain, a message is parked again.
    run(&["retry", "--id", ids[1]]).expect(0);
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[], 7.0).await;
    wait_for_depth(&client, "leveret.parked", 5).await;

    declare_target(&client, "bad.target").await;
    let mut inbox = client.consume("bad.target").await;
    run(&["retry", "--id", ids[1]]).expect(0);
    assert_eq!(inbox.next(LIMIT).await.delivery.routing_key.as_str(), keys[1]);
    run(&["retry", "--reason", "exchange-missing"]).expect(0);
    assert_eq!(inbox.next(LIMIT).await.delivery.routing_key.as_str(), keys[2]);
    run(&["retry", "--id", ids[1]]).expect(1);
    run(&["discard", "--reason", "unroutable", "--yes"]).expect(0);
    assert_eq!(listed(&[]).as_array().unwrap().len(), 0);
    wait_for_depth(&client, "leveret.parked", 0).await;
    assert!(inbox.drain().is_empty());
}

/// Messages are parked and delivered while others are retried: each comes once.
async fn another_try_is_safe_beside_other_messages(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let leveret = Leveret::start(&uri, CONFIG).await;
    let client = Client::connect(&uri).await;
    declare_target(&client, "good.target").await;
    let mut good = client.consume("good.target").await;
    publish_numbered(&client, "bad.delayed", 200, 0..300, |_| "k".to_owned()).await;
    wait_for_depth(&client, "leveret.parked", 300).await;
    // Retried in vain, while others are on their way.
    publish_numbered(&client, "good.delayed", 1000, 0..200, |_| "k".to_owned()).await;
    publish_numbered(&client, "bad.delayed", 1000, 300..400, |_| "k".to_owned()).await;
    command(&uri, &["parked", "retry", "--all"]).expect(0);
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[("bridge", "bad")], 700.0).await;
    take_numbered(&mut good, 0..200).await;
    wait_for_depth(&client, "leveret.parked", 400).await;
    declare_target(&client, "bad.target").await;
    let mut bad = client.consume("bad.target").await;
    command(&uri, &["parked", "retry", "--all"]).expect(0);
    take_numbered(&mut bad, 0..400).await;
    wait_for_depth(&client, "leveret.parked", 0).await;
    assert!(bad.drain().is_empty() && good.drain().is_empty());
    let mut parked = client.consume("leveret.parked").await;
    take_parked(&mut parked, "none", 0..0).await;
}
