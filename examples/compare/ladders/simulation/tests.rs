use std::sync::LazyLock;

use leveret::domain::ladder::Ladder;

use super::*;
use crate::ladders::settings::{ladders, others};
use crate::ladders::shortening::shortened;
use crate::ladders::workload::Workload;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const ALL: Range<Duration> = Duration::ZERO..Duration::from_secs(10_000);

/// The defaults with these levels.
fn settings(ttls: &[u64]) -> Settings {
    let ttls: Vec<_> = ttls.iter().copied().map(ms).collect();
    Settings { ladder: Ladder::new(&ttls).unwrap(), ..Settings::defaults().unwrap() }
}

/// Messages with a delay in milliseconds, one every `gap` milliseconds.
fn publications(count: u64, gap: u64, delay: u64) -> Vec<Publication> {
    static WORKLOAD: LazyLock<Workload> = LazyLock::new(|| Workload::log(ms(1_000), ms(1_000)).unwrap());
    let with_moment =
        |(number, publication)| Publication { at: ms(number * gap), delay: ms(delay), ..publication };
    (0..count).zip(WORKLOAD.publications(1)).map(with_moment).collect()
}

/// What all of it comes to.
fn counted(settings: &Settings, publications: Vec<Publication>) -> Counts {
    let count = publications.len() as u64;
    let counts = run(settings, &shortened(&settings.ladder), publications, ALL);
    assert_eq!((counts.delivered, counts.early), (count, 0));
    counts
}

#[test]
fn one_message_takes_one_level_and_waits_for_the_rest_in_memory() {
    let publication = publications(1, 0, 2_000);
    let message = publication[0].message.clone();
    let counts = counted(&settings(&[1_000]), publication);
    let envelope = properties::encode(&envelope::properties(std::slice::from_ref(&message), EPOCH)).len();
    let bytes = (envelope + Codec::default().encode(std::slice::from_ref(&message)).unwrap().len()) as u64;
    let expected = Counts {
        levels: Sent { bundles: 1, messages: 1, bytes },
        delivered: 1,
        hops: 1,
        body_bytes: message.body.len() as u64,
        property_bytes: message.properties.len() as u64,
        most_in_memory: 1,
        most_unsettled: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn what_is_shorter_than_the_shortest_level_goes_straight_to_the_due_queue() {
    let counts = counted(&settings(&[1_000]), publications(1, 0, 1_000));
    assert_eq!((counts.straight.bundles, counts.levels.bundles, counts.hops), (1, 0, 0));
    assert_eq!(counts.latest, Duration::ZERO);
}

#[test]
fn a_longer_wait_takes_a_level_after_another() {
    let counts = counted(&settings(&[1_000, 10_000]), publications(1, 0, 13_000));
    assert_eq!((counts.levels.bundles, counts.hops, counts.latest), (2, 2, Duration::ZERO));
    // 11 s of the level's 100 s are simulated; so it comes early, but so is it wanted.
    let counts = counted(&settings(&[1_000, 100_000]), publications(1, 0, 103_000));
    assert_eq!((counts.levels.bundles, counts.hops, counts.latest), (2, 2, Duration::ZERO));
}

#[test]
fn bundles_are_as_full_as_the_linger_lets_them_be() {
    // Four within the 125 ms that a level of a second lingers.
    let counts = counted(&settings(&[1_000]), publications(20, 40, 2_100));
    assert_eq!(counts.levels.bundles, 5);
    assert_eq!((counts.bundles_a_message(), counts.messages_a_bundle()), (0.25, 4.0));
    // The last of them is back before the first is due.
    assert_eq!(counts.most_in_memory, 20);
}

#[test]
fn bundles_that_are_full_do_not_linger() {
    let mut settings = settings(&[1_000]);
    settings.limits.max_messages = 10;
    let counts = counted(&settings, publications(100, 1, 2_000));
    assert_eq!((counts.levels.bundles, counts.messages_a_bundle()), (10, 10.0));
    assert_eq!(counts.most_unsettled, 10);
}

#[test]
fn no_more_than_allowed_is_in_open_bundles() {
    let mut settings = settings(&[1_000]);
    settings.open.messages = 3;
    let counts = counted(&settings, publications(100, 1, 2_000));
    assert_eq!((counts.levels.bundles, counts.messages_a_bundle()), (25, 4.0));
}

#[test]
fn only_what_happens_in_the_window_is_counted() {
    let settings = settings(&[1_000]);
    let stays = shortened(&settings.ladder);
    let counts = run(&settings, &stays, publications(100, 10, 2_000), ms(500)..ms(2_500));
    // Of a hundred messages, 39 are sent before, in bundles of 13, and those of the second half are delivered after.
    assert_eq!((counts.delivered, counts.levels.messages), (50, 61));
}

#[test]
fn nothing_is_early_and_nothing_lost_and_linger_makes_nothing_late() {
    let workload = Workload::log(ms(1_000), ms(300_000)).unwrap();
    for settings in [ladders().unwrap(), others().unwrap()].concat() {
        let counts = counted(&settings, workload.publications(100).take(3_000).collect());
        // Times are whole milliseconds. Without lead, a hop that takes longer than its TTL comes late.
        let most = if settings.name == "no lead" { TRANSIT + ms(2) } else { ms(1) };
        assert!(counts.latest <= most, "{}: {:?}", settings.name, counts.latest);
    }
}

#[test]
fn what_is_compressed_takes_fewer_bytes() {
    let plain = settings(&[1_000]);
    let compressed = Settings { compress: true, ..plain.clone() };
    let [plain, compressed] = [plain, compressed].map(|one| counted(&one, publications(100, 1, 2_000)));
    assert!(compressed.levels.bytes * 2 < plain.levels.bytes);
    assert_eq!(compressed.written(0).ingress, plain.written(0).ingress);
}
