//! Very many headers, very long names, very large bodies. Single sizes at the edge of a frame are the subject of
//! `fidelity::limits`.

use super::peak_mib;
use crate::fidelity::expected::assert_delivered;
use crate::fidelity::scene::{INBOX, SOON, Scene};
use crate::harness::broker::Broker;
use crate::harness::client::now_ms;
use crate::harness::runner::{Case, cases};
use crate::harness::table::{Field, RawProperties};

pub(crate) const CASES: &[Case] =
    cases![shared: headers_of_any_number_and_length, many_of_the_largest_bodies_are_held_in_parts];

const MIB: usize = 1 << 20;

async fn headers_of_any_number_and_length(broker: &Broker) {
    const ROOM: usize = 128_000;
    let mut scene = Scene::start(broker).await;
    // Name, type and value take 11 bytes of the table.
    let many: Vec<_> = (0..ROOM / 11).map(|number| Field::int(&format!("{number:05}"), i32::MIN)).collect();
    let long_names: Vec<_> = (0..ROOM / 257)
        .map(|number| Field::new(&format!("{number:03}{}", "é".repeat(126)), b'V', &[]))
        .collect();
    let empty: Vec<_> = vec![Field::new("", b'V', &[]), Field::text(" ", "")];
    for headers in [many, long_names, empty] {
        for delay in [0, 300, 1_500] {
            let properties = [headers.as_slice(), &[Field::int("x-delay", delay)]].concat();
            let properties = RawProperties::of_headers(&properties);
            let before = scene.send(&properties, b"").await;
            let came = scene.receive().await;
            assert!(came.at_ms >= before + i64::from(delay));
            assert_delivered(&came.message.properties, &properties);
        }
    }
    scene.nothing_more().await;
    scene.never_reconnected();
}

/// Each is almost as large as the largest message that RabbitMQ 4 takes, and there is room for its bundle.
async fn many_of_the_largest_bodies_are_held_in_parts(broker: &Broker) {
    const COUNT: u8 = 12;
    const DELAY_MS: i32 = 1_200;
    // All of them together are 192 MiB; of what is taken, each may be in memory three times.
    const MOST_MIB: u64 = 400;
    let mut scene = Scene::start(broker).await;
    let mut inbox = scene.app.consume(INBOX).await;
    let properties = RawProperties::of_headers(&[Field::int("x-delay", DELAY_MS)]);
    let began = now_ms();
    for number in 0..COUNT {
        scene.send(&properties, &vec![number; 16 * MIB - 4_096]).await;
    }
    let mut come: Vec<_> = inbox.take(COUNT.into(), SOON).await;
    come.sort_by_key(|received| received.delivery.data[0]);
    for (number, received) in (0..COUNT).zip(come) {
        let body = &received.delivery.data;
        assert!(received.at_ms >= began + i64::from(DELAY_MS));
        assert!(
            body.len() == 16 * MIB - 4_096 && body.iter().all(|byte| *byte == number),
            "{number} changed"
        );
    }
    let peak = peak_mib(&scene.leveret);
    println!("at most {peak} MiB resident");
    assert!(peak < MOST_MIB, "{peak} MiB");
    assert!(inbox.drain().is_empty());
    scene.never_reconnected();
}
