use proptest::collection::vec;
use proptest::prelude::*;
use ulid::Ulid;

use super::*;

fn message(id: u128, body: usize) -> Message {
    Message { id: Ulid(id), body: vec![0; body].into(), ..Message::sample() }
}

fn level(seconds: u64) -> Stay {
    Stay { linger: Duration::from_millis(seconds * 10), ttl: Duration::from_secs(seconds) }
}

fn packer(max_messages: usize, max_bytes: usize) -> Packer<u128> {
    Packer::new(Limits { max_messages, max_bytes }, Stay::DUE, vec![level(1), level(2), level(4)])
}

#[test]
fn linger_runs_from_the_first_message() {
    let start = Instant::now();
    let mut packer = packer(10, 1 << 20);
    let mut closed = Vec::new();
    packer.add(Destination::Level(1), message(1, 0), Duration::from_secs(3), 1, start, &mut closed);
    let later = start + Duration::from_millis(15);
    packer.add(Destination::Level(1), message(2, 0), Duration::from_secs(3), 2, later, &mut closed);
    assert_eq!(packer.next_close(), Some(start + Duration::from_millis(20)));
    packer.close_due(start + Duration::from_millis(19), &mut closed);
    assert!(closed.is_empty());
    let end = start + Duration::from_millis(20);
    packer.close_due(end, &mut closed);
    let [bundle] = closed.as_slice() else { panic!("one bundle, not {closed:?}") };
    assert_eq!(bundle.tokens, [1, 2]);
    let left: Vec<_> = bundle.messages.iter().map(|message| message.left).collect();
    let after_hop = |millis| plan::left_after_hop(Duration::from_millis(millis), Duration::from_secs(2));
    assert_eq!(left, [after_hop(2_980), after_hop(2_995)]);
    assert!(bundle.messages.iter().all(|message| message.hops == 1));
    assert!(packer.is_empty());
}

#[test]
fn the_shortest_wait_decides_how_long_a_bundle_to_the_due_queue_stays_open() {
    let start = Instant::now();
    let mut packer = packer(10, 1 << 20);
    let mut closed = Vec::new();
    for (left, closes) in [(2_000, 50), (320, 20), (400, 20), (0, 2)] {
        let left = Duration::from_millis(left);
        packer.add(Destination::Due, message(1, 0), left, 1, start, &mut closed);
        assert_eq!(packer.next_close(), Some(start + Duration::from_millis(closes)));
    }
    assert!(closed.is_empty());
}

#[test]
fn a_message_over_the_limit_travels_alone() {
    let now = Instant::now();
    let mut packer = packer(10, 1_000);
    let mut closed = Vec::new();
    packer.add(Destination::Due, message(1, 10), Duration::ZERO, 1, now, &mut closed);
    packer.add(Destination::Due, message(2, 5_000), Duration::ZERO, 2, now, &mut closed);
    let tokens: Vec<_> = closed.iter().map(|bundle| bundle.tokens.clone()).collect();
    assert_eq!(tokens, [vec![1], vec![2]]);
    assert!(closed.iter().flat_map(|bundle| &bundle.messages).all(|message| message.hops == 0));
}

#[test]
fn relief_closes_the_fullest_first() {
    let now = Instant::now();
    let mut packer = packer(10, 1 << 20);
    let mut closed = Vec::new();
    for (id, level) in [(1, 0), (2, 1), (3, 1), (4, 2)] {
        packer.add(Destination::Level(level), message(id, 0), Duration::ZERO, id, now, &mut closed);
    }
    let most = |messages, bytes| OpenLimits { messages, bytes };
    packer.relieve(most(4, usize::MAX), now, &mut closed);
    assert!(closed.is_empty());
    packer.relieve(most(3, usize::MAX), now, &mut closed);
    assert_eq!(closed.iter().map(|bundle| bundle.tokens.clone()).collect::<Vec<_>>(), [[2, 3]]);
    assert_eq!(packer.len(), 2);
    packer.relieve(most(4, 2 * message(0, 0).size() - 1), now, &mut closed);
    assert_eq!(packer.len(), 1);
    packer.relieve(most(0, usize::MAX), now, &mut closed);
    assert!(packer.is_empty());
}

proptest! {
    /// Whatever comes, every message leaves exactly once, in order within its destination, within the limits.
    #[test]
    fn nothing_is_lost_or_doubled(
        steps in vec((0..4usize, 0..600usize, 0..30u64), 1..200),
        max_messages in 1..8usize,
        max_bytes in 100..2000usize,
    ) {
        let mut now = Instant::now();
        let mut packer = packer(max_messages, max_bytes);
        let mut closed = Vec::new();
        for (id, (slot, body, pause)) in steps.iter().enumerate() {
            now += Duration::from_millis(*pause);
            packer.close_due(now, &mut closed);
            let to = if *slot == 0 { Destination::Due } else { Destination::Level(slot - 1) };
            let id = id as u128;
            packer.add(to, message(id, *body), Duration::from_secs(9), id, now, &mut closed);
            prop_assert!(packer.next_close().is_none_or(|at| at > now));
        }
        packer.close_all(now, &mut closed);
        prop_assert!(packer.is_empty());

        for bundle in &closed {
            prop_assert_eq!(bundle.messages.iter().map(|m| m.id.0).collect::<Vec<_>>(), bundle.tokens.clone());
            prop_assert!(bundle.messages.len() <= max_messages);
            let bytes = bundle::OVERHEAD + bundle.messages.iter().map(bundle::encoded_len).sum::<usize>();
            prop_assert!(bytes <= max_bytes || bundle.messages.len() == 1);
        }
        for slot in 0..4 {
            let to = if slot == 0 { Destination::Due } else { Destination::Level(slot - 1) };
            let sent: Vec<_> =
                steps.iter().enumerate().filter(|(_, step)| step.0 == slot).map(|(id, _)| id as u128).collect();
            let came: Vec<_> =
                closed.iter().filter(|b| b.destination == to).flat_map(|b| b.tokens.clone()).collect();
            prop_assert_eq!(sent, came);
        }
    }
}
