//! Every type of entry and of target exchange, the target that a message names itself, and what becomes of `x-delay`.

use lapin::ExchangeKind;
use lapin::options::ExchangeBindOptions;
use lapin::types::{AMQPValue, FieldTable};

use super::expected::{assert_delivered, assert_same, sorted};
use super::scene::{ENTRY, INBOX, Scene, text};
use crate::harness::broker::Broker;
use crate::harness::client::{Client, table};
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};

pub(crate) const CASES: &[Case] = cases![
    shared: every_entry_leads_to_every_target, a_message_may_name_its_target, what_leads_back_is_parked,
        the_delivered_delay_is_as_configured
];

/// It is bound to every target, and is what the default exchange makes of [`KEY`].
const QUEUE: &str = "order.paid";
const KEY: &str = "order.paid";
const ENTRIES: [&str; 4] = ["topic", "fanout", "headers", "direct"];
/// The default exchange, one of each type, and one that leads to the queue through another.
const TARGETS: [&str; 6] = ["", "out.direct", "out.topic", "out.fanout", "out.headers", "out.chain"];

async fn every_entry_leads_to_every_target(broker: &Broker) {
    let mut config = String::from("bridges:\n");
    for (entry, target) in pairs() {
        let keys = if entry == "direct" { format!(", keys: [{KEY}, other]") } else { String::new() };
        config += &format!(
            "- {{ name: {name}, entry: {{ exchange: {name}, type: {entry}{keys} }}, target: {{ exchange: '{target}' }} }}\n",
            name = bridge(entry, target)
        );
    }
    let mut scene = Scene::prepared(broker, &config, declare_targets).await;
    let headers = [Field::int("number", 5), Field::text("region", "eu"), Field::int("x-delay", 300)];
    let published = RawProperties::of_headers(&headers);
    let mut expected = Vec::new();
    for (entry, target) in pairs() {
        let body = bridge(entry, target);
        scene.raw.publish(&body, KEY, &published, body.as_bytes()).await;
        expected.push((body, target));
    }
    while !expected.is_empty() {
        let came = scene.receive_from(QUEUE).await.message;
        let at = expected.iter().position(|(body, _)| body.as_bytes() == came.body);
        let (_, target) = expected.swap_remove(at.expect("not published, or twice"));
        assert_eq!((came.exchange.as_str(), came.routing_key.as_str()), (target, KEY));
        assert_delivered(&came.properties, &published);
    }
    assert_eq!(scene.raw.get(QUEUE).await, None);
    assert_eq!(scene.raw.get("leveret.parked").await, None);
    scene.never_reconnected();
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    ENTRIES.into_iter().flat_map(|entry| TARGETS.map(|target| (entry, target)))
}

fn bridge(entry: &str, target: &str) -> String {
    let target = target.strip_prefix("out.").unwrap_or("default");
    format!("{entry}-{target}")
}

async fn declare_targets(app: &Client) {
    app.declare_queue(QUEUE, FieldTable::default()).await;
    let region = || {
        let text = |text: &str| AMQPValue::LongString(text.into());
        table([("x-match", text("all")), ("region", text("eu")), ("number", AMQPValue::LongInt(5))])
    };
    for (exchange, kind, key, arguments) in [
        ("out.direct", ExchangeKind::Direct, KEY, FieldTable::default()),
        ("out.topic", ExchangeKind::Topic, "order.*", FieldTable::default()),
        ("out.fanout", ExchangeKind::Fanout, "", FieldTable::default()),
        ("out.headers", ExchangeKind::Headers, "", region()),
        ("behind", ExchangeKind::Direct, KEY, FieldTable::default()),
    ] {
        app.declare_exchange(exchange, kind).await;
        app.bind(QUEUE, exchange, key, arguments).await;
    }
    app.declare_exchange("out.chain", ExchangeKind::Topic).await;
    let options = ExchangeBindOptions::default();
    app.channel()
        .exchange_bind("behind".into(), "out.chain".into(), "#".into(), options, FieldTable::default())
        .await
        .unwrap();
}

async fn a_message_may_name_its_target(broker: &Broker) {
    let config = "bridges: [{ name: b, entry: { exchange: delay }, target: { exchange: '', allow: ['out.*', special] } }]";
    let mut scene = Scene::prepared(broker, config, async |app| {
        for exchange in ["out.a", "special", "hidden"] {
            app.declare_exchange(exchange, ExchangeKind::Direct).await;
            app.bind(INBOX, exchange, INBOX, FieldTable::default()).await;
        }
    })
    .await;
    for (named, refusal) in [
        (Field::text("x-delay-exchange", "out.a"), None),
        (Field::text("x-delay-exchange", "special"), None),
        (Field::text("x-delay-exchange", ""), None),
        (Field::text("x-delay-exchange", "hidden"), Some("exchange-not-allowed")),
        (Field::text("x-delay-exchange", "special2"), Some("exchange-not-allowed")),
        (Field::int("x-delay-exchange", 5), Some("exchange-not-allowed")),
        (Field::text("x-delay-exchange", "out.gone"), Some("exchange-missing")),
    ] {
        let published = RawProperties::of_headers(&[Field::int("x-delay", 200), named.clone()]);
        scene.send(&published, b"").await;
        match refusal {
            None => {
                let came = scene.receive().await.message;
                assert_eq!(Some(came.exchange.as_str()), named.as_text());
                assert_delivered(&came.properties, &published);
            }
            Some(reason) => {
                let parked = scene.parked().await.properties;
                assert_eq!(text(&parked, "x-leveret-reason"), reason, "{named:?}");
                let detail = text(&parked, "x-leveret-detail");
                assert!(detail.contains(named.as_text().unwrap_or("not text")), "{named:?}: {detail}");
                assert_eq!(parked.header("x-delay-exchange"), Some(named));
            }
        }
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// A pattern that fits an entry exchange is refused at start; these fit only what Leveret itself declares.
async fn what_leads_back_is_parked(broker: &Broker) {
    let config =
        "bridges: [{ name: b, entry: { exchange: delay }, target: { exchange: '', allow: ['lev*'] } }]";
    let mut scene = Scene::with(broker, config).await;
    for (exchange, key) in [
        ("leveret.due", INBOX),
        ("leveret.level", "leveret.level.1s"),
        ("leveret.parked", INBOX),
        ("", "leveret.ingress.b"),
        ("", "leveret.due"),
    ] {
        let headers = [Field::int("x-delay", 200), Field::text("x-delay-exchange", exchange)];
        scene.raw.publish(ENTRY, key, &RawProperties::of_headers(&headers), b"").await;
        let parked = scene.parked().await.properties;
        assert_eq!(text(&parked, "x-leveret-reason"), "target-loops", "{exchange:?}, {key:?}");
        let detail = text(&parked, "x-leveret-detail");
        assert!(detail.contains(exchange) && detail.contains(key), "{detail}");
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// How `x-delay` comes out, and that nothing else changes.
async fn the_delivered_delay_is_as_configured(broker: &Broker) {
    let bridge = |name: &str, rest: &str| {
        format!("- {{ name: {name}, entry: {{ exchange: {name} }}, target: {{ exchange: '' }}{rest} }}\n")
    };
    let config = [
        "annotate: false\nbridges:\n".to_owned(),
        bridge("negate", ""),
        bridge("keep", ", delivered_header: keep"),
        bridge("remove", ", delivered_header: remove"),
        bridge("named", ", annotate: true"),
    ];
    let mut scene = Scene::with(broker, &config.concat()).await;
    let long = |number: i64| Field::new("x-delay", b'l', &number.to_be_bytes());
    let at_once = Field::new("x-deliver-at", b'T', &1_u64.to_be_bytes());
    let waiting = [
        (long(300), Field::int("x-delay", -300)),
        (Field::new("x-delay", b'b', &[100]), Field::int("x-delay", -100)),
        (Field::new("x-delay", b'i', &300_u32.to_be_bytes()), Field::int("x-delay", -300)),
        (Field::text("x-delay", "300"), Field::int("x-delay", -300)),
        (Field::text("x-delay", "300ms"), Field::int("x-delay", -300)),
        (Field::new("x-delay", b'd', &299.5_f64.to_be_bytes()), Field::int("x-delay", -300)),
        (Field::int("x-delay", 0), Field::int("x-delay", 0)),
        (long(-300), long(-300)),
        (Field::text("x-delay", "-1s"), Field::text("x-delay", "-1s")),
    ];
    // Due at once by another header, so that a long delay can be seen: int32 as long as it fits.
    let never_decides = [
        (long(2_147_483_648), Field::int("x-delay", i32::MIN)),
        (long(2_147_483_649), long(-2_147_483_649)),
        (Field::text("x-delay", "abc"), Field::text("x-delay", "abc")),
    ];
    let rows = waiting.map(|row| (row, None)).into_iter();
    let rows = rows.chain(never_decides.map(|row| (row, Some(at_once.clone()))));
    for ((delay, negated), decides) in rows {
        let mut others = vec![Field::text("tenant", "a"), Field::int("x-opt-delivery-delay", 250)];
        others.extend(decides);
        let with =
            |field: Option<&Field>| RawProperties::of_headers(&sorted(others.iter().chain(field).cloned()));
        let published = with(Some(&delay));
        for (bridge, expected) in [("negate", Some(&negated)), ("keep", Some(&delay)), ("remove", None)] {
            scene.raw.publish(bridge, INBOX, &published, b"").await;
            assert_same(&scene.receive().await.message.properties, &with(expected));
        }
        scene.raw.publish("named", INBOX, &published, b"").await;
        let named = scene.receive().await.message.properties;
        let id = Field::text("x-leveret-id", &text(&named, "x-leveret-id"));
        let headers = with(Some(&negated)).headers().into_iter().chain([id]);
        assert_same(&named, &RawProperties::of_headers(&sorted(headers)));
    }
    scene.never_reconnected();
}
