//! Bundles that an application made, published straight into Leveret's own exchanges. What is no bundle is the subject of
//! `fidelity::bundles`.

use std::collections::BTreeSet;
use std::time::Duration;

use leveret::domain::bundle::{self, CONTENT_TYPE};
use leveret::domain::message::Message;
use leveret::domain::time::UnixMillis;

use super::{carried, forge, peak_mib, series, wire};
use crate::fidelity::scene::{INBOX, LONG_LEVEL, SOON, Scene, number, text};
use crate::harness::broker::Broker;
use crate::harness::messages::wait_for_metric;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, property};

pub(crate) const CASES: &[Case] = cases![
    shared: absurd_numbers_are_taken_at_their_word, foreign_bridges_add_no_series,
        a_few_bytes_that_would_fill_the_memory_are_parked, a_bundle_of_very_many, keys_that_lead_back_are_parked
];

const END: UnixMillis = UnixMillis(u64::MAX);
const BEGINNING: UnixMillis = UnixMillis(0);

async fn absurd_numbers_are_taken_at_their_word(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let never = Message {
        due: END,
        left: Duration::from_millis(u64::MAX),
        accepted_at: END,
        refused_since: Some(END),
        hops: u32::MAX - 1,
        ..carried(INBOX, b"never")
    };
    let at_once = [
        Message { due: BEGINNING, accepted_at: BEGINNING, hops: u32::MAX, ..carried(INBOX, b"long ago") },
        // The shorter of what the clock says and what is left counts.
        Message { due: END, left: Duration::ZERO, ..carried(INBOX, b"nothing left") },
        Message { due: BEGINNING, left: Duration::from_millis(u64::MAX), ..carried(INBOX, b"all left") },
        Message { accepted_at: END, refused_since: Some(END), ..carried(INBOX, b"later") },
        Message { id: ulid::Ulid(0), ..carried(INBOX, b"no id") },
        Message { id: ulid::Ulid(u128::MAX), ..carried(INBOX, b"last id") },
    ];
    let parked = Message { hops: u32::MAX, due: BEGINNING, ..carried("nowhere", b"parked") };
    let all = [std::slice::from_ref(&never), at_once.as_slice(), &[parked]].concat();
    for (exchange, key) in [("leveret.due", ""), ("leveret.level", "leveret.level.125ms")] {
        let honest = RawProperties::of_headers(&[Field::int("x-delay", 300)]);
        scene.send(&honest, b"honest").await;
        forge(&mut scene.raw, exchange, key, &all).await;
        let mut come = BTreeSet::new();
        for _ in 0..=at_once.len() {
            come.insert(scene.receive().await.message.body);
        }
        let expected = at_once.iter().map(|message| message.body.to_vec()).chain([b"honest".to_vec()]);
        assert_eq!(come, expected.collect());
        let parked = scene.parked().await;
        assert_eq!(parked.body, b"parked");
        assert_eq!(number(&parked.properties, "x-leveret-hops"), i64::from(u32::MAX));
        let envelope = scene.receive_from(LONG_LEVEL).await.message;
        let [waits] = bundle::decode(envelope.body.into()).unwrap().try_into().unwrap();
        assert_eq!((waits.due, waits.hops, waits.id), (never.due, u32::MAX, never.id));
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

async fn foreign_bridges_add_no_series(broker: &Broker) {
    const COUNT: u32 = 500;
    let mut scene = Scene::start(broker).await;
    forge(&mut scene.raw, "leveret.due", "", &[Message { bridge: "x".into(), ..carried(INBOX, b"") }]).await;
    scene.parked().await;
    let before = series(&scene.leveret);
    let forged: Vec<_> = (0..COUNT)
        .map(|number| {
            let bridge = format!("{number} \"quoted\"\n\\ {}", "é".repeat(number as usize % 100));
            Message { bridge: bridge.as_str().into(), ..carried(&format!("key.{number}"), b"") }
        })
        .collect();
    forge(&mut scene.raw, "leveret.due", "", &forged).await;
    for _ in 0..COUNT {
        let parked = scene.parked().await;
        assert_eq!(text(&parked.properties, "x-leveret-reason"), "unknown-bridge");
    }
    let labels = [("bridge", "(unknown)"), ("reason", "unknown-bridge")];
    wait_for_metric(&scene.leveret, "leveret_messages_parked_total", &labels, f64::from(COUNT + 1)).await;
    assert_eq!(series(&scene.leveret), before);
    scene.nothing_more().await;
    scene.never_reconnected();
}

async fn a_few_bytes_that_would_fill_the_memory_are_parked(broker: &Broker) {
    const COUNT: usize = 8;
    const MIB: usize = 1 << 20;
    let mut scene = Scene::start(broker).await;
    let whole = bundle::encode(&[carried(INBOX, &vec![0; 256 * MIB])]);
    let content = zstd::bulk::compress(&whole[6..whole.len() - 4], 1).unwrap();
    drop(whole);
    // Compressed, by its flags, and in a frame that is right.
    let mut body = [b"LVRT".as_slice(), &[bundle::VERSION, 1], &content].concat();
    body.extend(crc32c::crc32c(&body).to_be_bytes());
    assert!(body.len() < MIB, "{} bytes", body.len());
    let envelope = RawProperties::default().with_text(property::CONTENT_TYPE, CONTENT_TYPE);
    for _ in 0..COUNT {
        scene.raw.publish("leveret.due", "", &envelope, &body).await;
    }
    for _ in 0..COUNT {
        let parked = scene.parked().await;
        assert!(text(&parked.properties, "x-leveret-detail").contains("decompressed"));
        assert!(parked.body == body);
    }
    let peak = peak_mib(&scene.leveret);
    println!("at most {peak} MiB resident");
    assert!(peak < 200, "{peak} MiB");
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// As many messages as no bundle of Leveret's has.
async fn a_bundle_of_very_many(broker: &Broker) {
    const COUNT: usize = 20_000;
    let mut scene = Scene::start(broker).await;
    let messages: Vec<_> = (0..COUNT).map(|number| carried(INBOX, number.to_string().as_bytes())).collect();
    let mut inbox = scene.app.consume(INBOX).await;
    forge(&mut scene.raw, "leveret.due", "", &messages).await;
    let come: BTreeSet<_> =
        inbox.take(COUNT, SOON).await.into_iter().map(|received| received.delivery.data).collect();
    assert_eq!(come.len(), COUNT);
    let peak = peak_mib(&scene.leveret);
    println!("at most {peak} MiB resident");
    assert!(peak < 400, "{peak} MiB");
    scene.never_reconnected();
}

/// Whoever makes bundles can name any key and any copies: none may turn round in Leveret.
async fn keys_that_lead_back_are_parked(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let keys = ["leveret.due", "leveret.level.125ms", "leveret.ingress.default", "leveret.parked"];
    let mut messages: Vec<_> = keys.iter().map(|key| carried(key, b"back")).collect();
    for header in ["CC", "BCC"] {
        messages.extend(keys.map(|key| {
            let copied = RawProperties::of_headers(&[Field::texts(header, &["elsewhere", key])]);
            Message { properties: wire(&copied), ..carried(INBOX, b"back") }
        }));
    }
    let count = messages.len();
    forge(&mut scene.raw, "leveret.due", "", &messages).await;
    for _ in 0..count {
        let parked = scene.parked().await;
        assert_eq!(text(&parked.properties, "x-leveret-reason"), "target-loops");
        assert_eq!(parked.body, b"back");
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}
