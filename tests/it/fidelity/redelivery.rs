//! What a quorum queue adds to a message that it delivers again is not the application's, and stays inside.

use super::expected::assert_delivered;
use super::scene::{LADDER, SOON, Scene};
use crate::harness::broker::Broker;
use crate::harness::eventually;
use crate::harness::leveret::Leveret;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};

pub(crate) const CASES: &[Case] = cases![
    shared: a_message_that_ingress_delivers_twice_comes_out_as_it_was, an_applications_own_count_is_kept
];

async fn a_message_that_ingress_delivers_twice_comes_out_as_it_was(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let mut published = vec![RawProperties::default()];
    published.extend(
        [0, 300, 1_500].map(|delay| {
            RawProperties::of_headers(&[Field::text("tenant", "a"), Field::int("x-delay", delay)])
        }),
    );
    // Frozen, it receives and settles nothing.
    scene.leveret.sigstop();
    let mut sent = Vec::new();
    for properties in &published {
        let body = sent.len().to_string().into_bytes();
        scene.send(properties, &body).await;
        sent.push((body, properties));
    }
    eventually("all are delivered to the sidecar", SOON, async || {
        let stats = scene.vhost.queue_stats("leveret.ingress.default")?;
        (stats.unacknowledged == 4).then_some(())
    })
    .await;
    scene.leveret.sigkill();
    scene.leveret.wait().await;
    scene.leveret = Leveret::start(&scene.vhost.uri(), LADDER).await;
    for _ in 0..4 {
        let came = scene.receive().await.message;
        let at = sent.iter().position(|(body, _)| *body == came.body).expect("not published, or twice");
        let (_, properties) = sent.swap_remove(at);
        assert_delivered(&came.properties, properties);
    }
    scene.nothing_more().await;
}

async fn an_applications_own_count_is_kept(broker: &Broker) {
    let mut scene = Scene::start(broker).await;
    let headers =
        [Field::int("x-acquired-count", 5), Field::int("x-delay", 300), Field::int("x-delivery-count", 6)];
    let published = RawProperties::of_headers(&headers);
    scene.send(&published, b"").await;
    assert_delivered(&scene.receive().await.message.properties, &published);
}
