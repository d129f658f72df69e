//! Many messages of every shape at once: each comes once, not early, and as it was published.

use std::time::Duration;

use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use lapin::{BasicProperties, ExchangeKind};

use crate::harness::broker::Broker;
use crate::harness::client::{Client, table};
use crate::harness::ledger::{Draft, Ledger, Load, declare_target};
use crate::harness::leveret::Setup;
use crate::harness::runner::{Case, cases};

pub(crate) const CASES: &[Case] = cases![shared: ten_thousand_messages_on_three_bridges];

const BRIDGES: &str = "
bridges:
  - { name: tasks, entry: { exchange: tasks.delayed, type: fanout }, target: { exchange: '' } }
  - { name: orders, entry: { exchange: orders.delayed, type: headers }, target: { exchange: orders } }
  - name: mail
    entry: { exchange: mail.delayed, type: direct, keys: [mail.eu, mail.us] }
    target: { exchange: mail }
";

async fn ten_thousand_messages_on_three_bridges(broker: &Broker) {
    const COUNT: usize = 10_000;
    let vhost = broker.create_vhost();
    let client = Client::connect(&vhost.uri()).await;
    client.declare_exchange("orders", ExchangeKind::Topic).await;
    client.declare_exchange("mail", ExchangeKind::Direct).await;
    for queue in ["task", "orders", "mail"] {
        declare_target(&vhost.uri(), queue).await;
    }
    client.bind("orders", "orders", "order.#", FieldTable::default()).await;
    for key in ["mail.eu", "mail.us"] {
        client.bind("mail", "mail", key, FieldTable::default()).await;
    }
    let leveret = Setup::new(&vhost.uri()).config(BRIDGES).impersonator().start().await;

    let ledger = Ledger::open();
    let _collecting = ["task", "orders", "mail"].map(|queue| ledger.collect(&vhost.uri(), queue));
    let drafts = std::iter::repeat_with(random_draft).take(COUNT);
    Load::start(ledger, &vhost.uri(), 2_000, drafts).finish().await;
    let report = ledger.close(Duration::from_secs(40)).await.exactly_once("10,000 messages");
    assert_eq!(report.confirmed, COUNT);

    let metrics = leveret.metrics();
    assert_eq!(metrics.sum("leveret_messages_delivered_total", &[]), 10_000.0);
    assert_eq!(metrics.sum("leveret_messages_parked_total", &[]), 0.0);
    let per_bundle =
        metrics.sum("leveret_bundle_messages_sum", &[]) / metrics.sum("leveret_bundle_messages_count", &[]);
    println!("{per_bundle:.1} messages per bundle");
}

fn random_draft() -> Draft {
    let number = fastrand::u32(..);
    let (exchange, routing_key) = match number % 3 {
        0 => ("tasks.delayed", "task".to_owned()),
        1 => ("orders.delayed", format!("order.{}", "x.".repeat(fastrand::usize(0..100)))),
        _ => ("mail.delayed", if fastrand::bool() { "mail.eu" } else { "mail.us" }.to_owned()),
    };
    let size = match fastrand::u32(0..1_000) {
        0 => 300_000,
        1..100 => fastrand::usize(1_000..20_000),
        _ => fastrand::usize(0..1_000),
    };
    Draft {
        exchange: exchange.to_owned(),
        routing_key,
        delay_ms: fastrand::i64(0..=20_000),
        properties: random_properties(),
        body: std::iter::repeat_with(|| fastrand::u8(..)).take(size).collect(),
    }
}

/// Each property is there or not, whatever the others.
fn random_properties() -> BasicProperties {
    let text = || (0..fastrand::usize(0..40)).map(|_| fastrand::alphanumeric()).collect::<String>();
    let mut properties = BasicProperties::default();
    macro_rules! perhaps {
        ($($set:ident($value:expr)),* $(,)?) => {
            $(if fastrand::bool() { properties = properties.$set($value); })*
        };
    }
    perhaps!(
        with_content_type(text().into()),
        with_content_encoding(text().into()),
        with_headers(random_headers()),
        with_delivery_mode(fastrand::u8(1..=2)),
        with_priority(fastrand::u8(..)),
        with_correlation_id(text().into()),
        with_reply_to(text().into()),
        with_expiration("3600000".into()),
        with_message_id(text().into()),
        with_timestamp(fastrand::u64(0..4_000_000_000)),
        with_type(text().into()),
        with_user_id("guest".into()),
        with_app_id(text().into()),
        with_cluster_id(text().into()),
    );
    properties
}

fn random_headers() -> FieldTable {
    let inner = table([("deep", AMQPValue::Void), ("n", AMQPValue::LongLongInt(fastrand::i64(..)))]);
    let array = FieldArray::from(vec![AMQPValue::ShortShortInt(-1), AMQPValue::FieldTable(inner.clone())]);
    let all = [
        ("bool", AMQPValue::Boolean(fastrand::bool())),
        ("byte", AMQPValue::ShortShortInt(fastrand::i8(..))),
        ("short", AMQPValue::ShortInt(fastrand::i16(..))),
        ("int", AMQPValue::LongInt(fastrand::i32(..))),
        ("unsigned", AMQPValue::LongUInt(fastrand::u32(..))),
        ("long", AMQPValue::LongLongInt(fastrand::i64(..))),
        ("float", AMQPValue::Float(fastrand::f32())),
        ("double", AMQPValue::Double(fastrand::f64())),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: fastrand::u32(..) })),
        ("text", AMQPValue::LongString("naïve ☃".repeat(fastrand::usize(0..50)).into())),
        ("timestamp", AMQPValue::Timestamp(fastrand::u64(0..4_000_000_000))),
        ("table", AMQPValue::FieldTable(inner)),
        ("array", AMQPValue::FieldArray(array)),
        ("void", AMQPValue::Void),
        ("x-death", AMQPValue::LongString("the application's".into())),
    ];
    let mut headers = FieldTable::default();
    for (name, value) in all {
        if fastrand::bool() {
            headers.insert(name.into(), value);
        }
    }
    headers
}
