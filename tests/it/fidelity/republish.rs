//! Applications that publish again what they received: nothing stacks, nothing that they claim to be Leveret's counts.

use std::collections::BTreeSet;

use lapin::types::AMQPValue;

use super::expected::assert_delivered;
use super::scene::{ENTRY, INBOX, Scene, number, quorum, text};
use crate::harness::broker::Broker;
use crate::harness::client::now_ms;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, property};

pub(crate) const CASES: &[Case] = cases![
    shared: six_rounds_through_a_queue_that_dead_letters, forged_headers_are_replaced
];

/// A retry loop: what expires in `work` comes to the inbox, and is published again with all that it carries.
async fn six_rounds_through_a_queue_that_dead_letters(broker: &Broker) {
    let mut scene = Scene::prepared(broker, "", async |app| {
        let mut arguments = quorum();
        arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(100));
        for (name, value) in [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", INBOX)] {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        app.declare_queue("work", arguments).await;
    })
    .await;
    let delay = |properties: &RawProperties, ms: i32| {
        let others = properties.headers().into_iter().filter(|field| field.name != "x-delay");
        properties.with_headers(&others.chain([Field::int("x-delay", ms)]).collect::<Vec<_>>())
    };
    let first = RawProperties::of_headers(&[Field::text("tenant", "a")])
        .with(property::DELIVERY_MODE, Some(vec![2]))
        .with(property::PRIORITY, Some(vec![3]))
        .with_text(property::CORRELATION_ID, "c")
        .with_text(property::MESSAGE_ID, "m");
    let mut properties = delay(&first, 200);
    let mut ids = BTreeSet::new();
    let mut names = Vec::new();
    for round in 1..=6_i32 {
        // At once in the third round, through a level in the sixth.
        let ms = [200, 300, 0, 150, 400, 1_300][usize::try_from(round - 1).unwrap()];
        properties = delay(&properties, ms);
        let before = now_ms();
        scene.raw.publish(ENTRY, "work", &properties, b"job").await;
        let came = scene.receive().await;
        assert!(came.at_ms >= before + i64::from(ms) + 100, "round {round} is early");
        let message = came.message;
        assert_eq!(message.body, b"job");
        assert!(ids.insert(text(&message.properties, "x-leveret-id")), "round {round} has the id of another");
        assert_eq!(message.properties.header("x-delay"), Some(Field::int("x-delay", -ms)));
        let came_names: Vec<_> = message.properties.headers().into_iter().map(|field| field.name).collect();
        if round == 1 {
            names.clone_from(&came_names);
            assert!(names.iter().any(|name| name == "x-death"), "{names:?}");
        }
        assert_eq!(came_names, names, "headers of round {round}");
        for flag in
            [property::DELIVERY_MODE, property::PRIORITY, property::CORRELATION_ID, property::MESSAGE_ID]
        {
            assert_eq!(message.properties.get(flag), first.get(flag));
        }
        properties = message.properties;
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

async fn forged_headers_are_replaced(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let own = [
        "id",
        "user-id",
        "reason",
        "detail",
        "bridge",
        "exchange",
        "entry-exchange",
        "routing-key",
        "expiration",
        "whatever",
    ];
    let mut forged: Vec<_> =
        own.iter().map(|name| Field::text(&format!("x-leveret-{name}"), "forged")).collect();
    forged.extend(
        ["due", "accepted-at", "hops", "parked-at", "delivery-mode"]
            .map(|name| Field::new(&format!("x-leveret-{name}"), b'l', &1_i64.to_be_bytes())),
    );
    for ms in [0, 300] {
        let honest = [Field::text("tenant", "a"), Field::int("x-delay", ms)];
        let published = RawProperties::of_headers(&[forged.as_slice(), &honest].concat());
        let before = scene.send(&published, b"").await;
        let came = scene.receive().await;
        assert!(came.at_ms >= before + i64::from(ms));
        assert_delivered(&came.message.properties, &RawProperties::of_headers(&honest));

        scene.raw.publish(ENTRY, "nowhere", &published, b"").await;
        let parked = scene.parked().await.properties;
        for name in ["id", "reason", "detail", "bridge", "exchange", "entry-exchange", "routing-key"] {
            assert_ne!(text(&parked, &format!("x-leveret-{name}")), "forged");
        }
        for name in ["user-id", "expiration", "whatever"] {
            assert_eq!(parked.header(&format!("x-leveret-{name}")), None);
        }
        for name in ["due", "accepted-at", "parked-at"] {
            assert!(number(&parked, &format!("x-leveret-{name}")) >= before);
        }
        // There was no delivery mode.
        assert_eq!(parked.header("x-leveret-delivery-mode"), Some(Field::int("x-leveret-delivery-mode", -1)));
    }
    scene.nothing_more().await;
}
