//! The property `user_id`, which the broker lets only its own user publish, or one with the tag `impersonator`.

use super::expected::assert_delivered;
use super::scene::{ENTRY, INBOX, LADDER, Scene};
use crate::harness::broker::{Address, Broker};
use crate::harness::client::Client;
use crate::harness::leveret::Leveret;
use crate::harness::raw::RawClient;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties, property};

pub(crate) const CASES: &[Case] = cases![
    shared: without_the_tag_a_foreign_user_id_is_moved_to_a_header, with_the_tag_every_user_id_is_restored
];

const EVERYTHING: [&str; 3] = [".*"; 3];

async fn without_the_tag_a_foreign_user_id_is_moved_to_a_header(broker: &Broker) {
    check(broker, "", |app, published| {
        let moved = Field::text("x-leveret-user-id", app);
        published.with(property::USER_ID, None).with_headers(&[published.headers(), vec![moved]].concat())
    })
    .await;
}

async fn with_the_tag_every_user_id_is_restored(broker: &Broker) {
    check(broker, "impersonator", |_, published| published.clone()).await;
}

/// Publishes in the names of the sidecar's own user, of another, and of nobody; what the other's must look like when
/// they come is told by `foreign`.
async fn check(broker: &Broker, tags: &str, foreign: impl Fn(&str, &RawProperties) -> RawProperties) {
    let vhost = broker.create_vhost();
    let own = vhost.add_user("leveret", tags, EVERYTHING);
    let other = vhost.add_user("app", "", EVERYTHING);
    let app = Client::connect(&vhost.uri()).await;
    app.declare_queue(INBOX, lapin::types::FieldTable::default()).await;
    let leveret = Leveret::start(&own.uri(vhost.name()), LADDER).await;
    let raw = RawClient::connect(vhost.address(), vhost.name()).await;
    let mut scene = Scene { leveret, app, raw, vhost };

    let mut own_client = RawClient::connect(&own, scene.vhost.name()).await;
    let mut other_client = RawClient::connect(&other, scene.vhost.name()).await;
    let mut expected = Vec::new();
    for delay in [0, 300, 0, 300] {
        let headers = RawProperties::of_headers(&[Field::text("tenant", "a"), Field::int("x-delay", delay)]);
        let signed = |user: &Address| headers.with_text(property::USER_ID, &user.user);
        own_client.publish(ENTRY, INBOX, &signed(&own), b"own").await;
        expected.push((b"own".as_slice(), delay, signed(&own)));
        other_client.publish(ENTRY, INBOX, &signed(&other), b"other").await;
        expected.push((b"other".as_slice(), delay, foreign(&other.user, &signed(&other))));
        scene.send(&headers, b"nobody").await;
        expected.push((b"nobody".as_slice(), delay, headers));
    }
    while !expected.is_empty() {
        let came = scene.receive().await.message;
        let delay = came.properties.header("x-delay").expect("no x-delay");
        let at = expected
            .iter()
            .position(|(body, ms, _)| *body == came.body.as_slice() && Field::int("x-delay", -ms) == delay);
        let (_, _, published) = expected.swap_remove(at.expect("not published, or twice"));
        assert_delivered(&came.properties, &published);
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}
