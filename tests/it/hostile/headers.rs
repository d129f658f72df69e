//! Headers that Leveret reads, of every type and forged: each message comes or is parked, and none costs a connection.
//! Those that say when a message is due have tests of their own, in `fidelity`.

use std::collections::BTreeSet;

use crate::fidelity::scene::{ENTRY, INBOX, SOON, Scene, text};
use crate::harness::broker::Broker;
use crate::harness::cli::leveret as command;
use crate::harness::client::now_ms;
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, encode, prefixed, property};

pub(crate) const CASES: &[Case] = cases![
    shared: every_type_in_every_header_that_is_read, forged_deaths_change_nothing,
        a_forged_death_can_cost_only_its_own_message
];

const DELAY_MS: i32 = 150;

/// What Leveret looks at besides the headers of the due time; the last ones it takes off where the broker set them.
const READ: [&str; 8] = [
    "x-delay-exchange",
    "x-delay-key",
    "timestamp_in_ms",
    "x-leveret-id",
    "x-death",
    "CC",
    "x-delivery-count",
    "x-acquired-count",
];

async fn every_type_in_every_header_that_is_read(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let (mut to_come, mut to_be_parked) = (BTreeSet::new(), BTreeSet::new());
    for header in READ {
        for field in Field::of_every_type() {
            let body = format!("{header}: {}", field.name);
            let field = Field { name: header.to_owned(), ..field };
            let properties = RawProperties::of_headers(&[field, Field::int("x-delay", DELAY_MS)]);
            // What the broker does not take is the publisher's to hear.
            let mut publisher = RawClient::connect(scene.vhost.address(), scene.vhost.name()).await;
            match publisher.try_publish(ENTRY, INBOX, &properties, body.as_bytes()).await {
                Ok(()) if header == "x-delay-exchange" => to_be_parked.insert(body),
                Ok(()) => to_come.insert(body),
                Err(refused) => {
                    assert!(header == "CC" && refused.contains("406"), "{body}: {refused}");
                    false
                }
            };
        }
    }
    let types = Field::of_every_type().len();
    assert_eq!(to_be_parked.len(), types);
    assert!(to_come.len() > (READ.len() - 2) * types, "{to_come:?}");
    while !to_come.is_empty() {
        let came = String::from_utf8(scene.receive().await.message.body).unwrap();
        assert!(to_come.remove(&came), "{came} came twice, or should not");
    }
    while !to_be_parked.is_empty() {
        let parked = scene.parked().await;
        assert_eq!(text(&parked.properties, "x-leveret-reason"), "exchange-not-allowed");
        assert!(to_be_parked.remove(&String::from_utf8(parked.body).unwrap()));
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// An entry of `x-death`, as the broker writes one.
fn death(queue: &str, reason: &str) -> Vec<u8> {
    let keys = Field::texts("routing-keys", &[queue]);
    let entry = encode(&[
        Field::new("count", b'l', &i64::MAX.to_be_bytes()),
        Field::text("reason", reason),
        Field::text("queue", queue),
        Field::new("time", b'T', &u64::MAX.to_be_bytes()),
        Field::text("exchange", "leveret.due"),
        keys,
    ]);
    [b"F", entry.as_slice()].concat()
}

fn deaths(entries: &[Vec<u8>]) -> Field {
    Field::new("x-death", b'A', &prefixed(&entries.concat()))
}

/// A message that claims to have died in each of Leveret's queues makes its way through them all the same, and what is
/// parked of it is not taken for what the broker moved there.
async fn forged_deaths_change_nothing(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let queues = [
        "leveret.due",
        "leveret.level.125ms",
        "leveret.level.1s",
        "leveret.ingress.default",
        "leveret.parked",
    ];
    let mut entries = Vec::new();
    for queue in queues {
        entries
            .extend(["expired", "rejected", "maxlen", "delivery_limit"].map(|reason| death(queue, reason)));
    }
    for delay in [0, 300, 1_500] {
        for entries in [entries.as_slice(), &entries[..1], &entries[12..13]] {
            let properties = RawProperties::of_headers(&[deaths(entries), Field::int("x-delay", delay)]);
            let before = scene.send(&properties, b"comes").await;
            let came = scene.receive().await;
            assert_eq!(came.message.body, b"comes");
            assert!(came.at_ms >= before + i64::from(delay));

            scene.raw.publish(ENTRY, "nowhere", &properties, b"parked").await;
            eventually("it is parked", SOON, async || {
                (scene.app.depth("leveret.parked").await == 1).then_some(())
            })
            .await;
            let listed = command(&scene.vhost.uri(), &["parked", "list", "--json"]).expect(0).json();
            assert_eq!(listed[0]["reason"], "unroutable", "{listed}");
            assert_eq!(listed[0]["routing_key"], "nowhere", "{listed}");
            let parked = scene.parked().await;
            assert_eq!(parked.body, b"parked");
        }
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// Up to 3.13 the broker believes an `x-death` that a client sends, and drops what would go round: so whoever forges a
/// death in the parked queue loses the message where it expires before Leveret has read it. Nobody else does.
async fn a_forged_death_can_cost_only_its_own_message(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    scene.leveret.sigterm();
    scene.leveret.expect_exit(0).await;
    let expiring =
        |headers: &[Field]| RawProperties::of_headers(headers).with_text(property::EXPIRATION, "50");
    let began = now_ms();
    scene.send(&expiring(&[deaths(&[death("leveret.parked", "expired")])]), b"forged").await;
    scene.send(&expiring(&[]), b"honest").await;
    let believed = broker.version() < (4, 0);
    let mut bodies = BTreeSet::new();
    for _ in 0..if believed { 1 } else { 2 } {
        bodies.insert(scene.parked().await.body);
    }
    assert!(bodies.contains(b"honest".as_slice()));
    assert_eq!(bodies.contains(b"forged".as_slice()), !believed);
    assert!(now_ms() >= began + 50);
    scene.leveret = Leveret::start(&scene.vhost.uri(), crate::fidelity::scene::LADDER).await;
    scene.nothing_more().await;
}
