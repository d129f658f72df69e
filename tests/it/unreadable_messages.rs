//! Messages that the AMQP client library cannot read, or cannot hold: nothing else waits for them.

use std::collections::BTreeSet;

use lapin::types::{AMQPValue, FieldTable};

use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::messages::{LIMIT, delayed, numbers, publish_numbered, text_header, wait_for_metric};
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, encode, property};

pub(crate) const CASES: &[Case] = cases![
    shared: what_is_not_utf_8_is_parked_and_holds_nothing_up, what_cannot_be_parked_stays_in_its_queue,
        headers_may_be_nested_deeply
];

const CONFIG: &str = "ladder: [250ms, 1s]
bridges:
  - name: one
    entry: { exchange: one.delayed }
  - name: two
    entry: { exchange: two.delayed }
";
const DELAY_MS: i32 = 600;
const NOT_UTF_8: &[u8] = &[b'k', 0xff, 0xc3];

/// Messages whose routing key, header name or message id is not UTF-8, each with the word that its detail names.
fn unreadable() -> [(&'static [u8], RawProperties, &'static str); 3] {
    let delay = Field::int("x-delay", DELAY_MS);
    // A name in a table is a short string.
    let name = [&[3], NOT_UTF_8, b"I\0\0\0\x01"].concat();
    let mut table = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    table.extend(name);
    [
        (NOT_UTF_8, RawProperties::of_headers(&[delay]), "routing key"),
        (b"q", RawProperties { flags: property::HEADERS, bytes: table }, "headers"),
        (
            b"q",
            RawProperties { flags: property::MESSAGE_ID, bytes: [&[3], NOT_UTF_8].concat() },
            "message_id",
        ),
    ]
}

async fn what_is_not_utf_8_is_parked_and_holds_nothing_up(broker: &Broker) {
    const EACH: u32 = 20;
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let leveret = Leveret::start(&uri, CONFIG).await;
    let client = Client::connect(&uri).await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let queues = ["one.q", "two.q"];
    for queue in queues {
        client.declare_queue(queue, FieldTable::default()).await;
    }
    let publish = async |numbers: std::ops::Range<u32>| {
        publish_numbered(&client, "one.delayed", DELAY_MS, numbers.clone(), |_| queues[0].to_owned()).await;
        publish_numbered(&client, "two.delayed", DELAY_MS, numbers, |_| queues[1].to_owned()).await;
    };
    publish(0..EACH / 2).await;
    for (key, properties, field) in &unreadable() {
        raw.publish_bytes("one.delayed", key, properties, field.as_bytes()).await.unwrap();
    }
    publish(EACH / 2..EACH).await;

    for queue in queues {
        let mut inbox = client.consume(queue).await;
        // What was on its way when the connection broke may come twice.
        let mut come = BTreeSet::new();
        while come.len() < EACH as usize {
            come.extend(numbers(&[inbox.next(LIMIT).await]));
        }
        assert_eq!(come, (0..EACH).collect(), "{queue}");
    }
    let labels = [("bridge", "one"), ("reason", "unreadable-message")];
    wait_for_metric(&leveret, "leveret_messages_parked_total", &labels, 3.0).await;
    leveret_holds_nothing(&leveret).await;

    let listed = command(&uri, &["parked", "list", "--json"]).expect(0).json();
    let listed = listed.as_array().unwrap();
    assert!(listed.len() >= 3, "{listed:?}");
    for parked in listed {
        assert_eq!(
            (parked["reason"].as_str(), parked["bridge"].as_str()),
            (Some("unreadable-message"), Some("one"))
        );
    }
    let refused = command(&uri, &["parked", "retry", "--reason", "unreadable-message"]).expect(1);
    assert!(refused.stderr.contains("not UTF-8") && refused.stdout.contains("retried 0"), "{refused:?}");

    let mut inbox = client.consume("leveret.parked").await;
    let mut bodies = BTreeSet::new();
    for parked in inbox.take(listed.len(), LIMIT).await {
        let body = String::from_utf8(parked.delivery.data.clone()).unwrap();
        let detail = text_header(&parked.delivery, "x-leveret-detail").unwrap();
        assert!(detail.contains(&body), "{body}: {detail}");
        let headers = parked.delivery.properties.headers().as_ref().unwrap().inner();
        let (_, sent, _) = unreadable().into_iter().find(|(_, _, field)| *field == body).unwrap();
        let AMQPValue::ByteArray(raw) = &headers["x-leveret-raw-properties"] else { panic!("{headers:?}") };
        // The broker adds a header of its own to what it delivers again, which changes the table's length.
        let fields = sent.bytes.get(if sent.flags == property::HEADERS { 4.. } else { 0.. }).unwrap();
        assert!(raw.as_slice().windows(fields.len()).any(|part| part == fields), "{body}: {raw:?}");
        bodies.insert(body);
    }
    assert_eq!(bodies.len(), 3, "{bodies:?}");
}

async fn leveret_holds_nothing(leveret: &Leveret) {
    eventually("everything is settled", LIMIT, async || {
        let metrics = leveret.metrics();
        let unsettled = metrics.sum("leveret_unsettled_deliveries", &[]);
        (leveret.is_ready() && unsettled == 0.0).then_some(())
    })
    .await;
}

/// What is parked is removed only when the parked queue has it.
async fn what_cannot_be_parked_stays_in_its_queue(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let everything = [".*", ".*", ".*"];
    let user = vhost.add_user("sidecar", "", everything);
    let leveret = Leveret::start(&user.uri(vhost.name()), CONFIG).await;
    let client = Client::connect(&uri).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    vhost.permit(&user.user, [".*", "^(?!leveret\\.parked$)", ".*"]);
    client.publish("one.delayed", "q", delayed(DELAY_MS), b"good").await;
    let [(key, properties, _), ..] = unreadable();
    raw.publish_bytes("one.delayed", key, &properties, b"kept").await.unwrap();
    eventually("it says that it cannot park", LIMIT, async || {
        leveret.log().contains("cannot park what cannot be read").then_some(())
    })
    .await;
    vhost.permit(&user.user, everything);
    let mut inbox = client.consume("leveret.parked").await;
    assert_eq!(inbox.next(LIMIT).await.delivery.data, b"kept");
    let mut inbox = client.consume("q").await;
    assert_eq!(inbox.next(LIMIT).await.delivery.data, b"good");
}

/// A table in a table in a table and so on, with an empty name each.
fn nested(bytes: usize) -> Vec<u8> {
    const LEVEL: usize = 6;
    (1..=bytes / LEVEL)
        .rev()
        .flat_map(|left| {
            let length = u32::try_from((left - 1) * LEVEL).unwrap().to_be_bytes();
            [&[0, b'F'], length.as_slice()].concat()
        })
        .collect()
}

/// It is read, held, delivered or parked, and listed, by recursion.
async fn headers_may_be_nested_deeply(broker: &Broker) {
    let vhost = broker.create_vhost();
    let uri = vhost.uri();
    let leveret = Leveret::start(&uri, CONFIG).await;
    let client = Client::connect(&uri).await;
    client.declare_queue("q", FieldTable::default()).await;
    let mut raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let delay = encode(&[Field::int("x-delay", DELAY_MS)]);
    let deep = |bytes: usize| {
        let fields = [&delay[4..], &nested(bytes)].concat();
        let length = u32::try_from(fields.len()).unwrap().to_be_bytes();
        RawProperties { flags: property::HEADERS, bytes: [length.as_slice(), &fields].concat() }
    };
    // Enough for a common stack to overflow. A frame holds more, but the broker's own effort grows faster than the depth.
    const DEEP: usize = 20_000;
    raw.publish("one.delayed", "q", &deep(DEEP), b"1").await;
    raw.publish("one.delayed", "nowhere", &deep(DEEP), b"2").await;
    client.publish("two.delayed", "q", delayed(DELAY_MS), b"3").await;
    wait_for_metric(&leveret, "leveret_messages_parked_total", &[("reason", "unroutable")], 1.0).await;
    command(&uri, &["parked", "list"]).expect(0);

    let mut come = BTreeSet::new();
    eventually("each is delivered or parked", LIMIT, async || {
        for queue in ["q", "leveret.parked"] {
            while let Some(message) = raw.get(queue).await {
                come.insert(message.body.first().copied());
            }
        }
        (come.len() == 3).then_some(())
    })
    .await;
    leveret_holds_nothing(&leveret).await;
}
