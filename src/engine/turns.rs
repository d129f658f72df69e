//! Whose turn it is to be delivered. Where very many messages of one bridge are due at once, only some of them are given to
//! the dispatcher at a time: enough to keep it busy. The rest wait here, as they came, which takes less memory than a
//! delivery that is ready to go; and what is due for another bridge passes by.

use std::collections::{HashMap, VecDeque};

use super::flow::Part;
use crate::domain::message::Text;

/// Deliveries of one bridge that may be under way: some to be confirmed, as many to follow at once.
const MOST_UNDER_WAY: usize = 1_024;

#[derive(Debug, Default)]
struct Turn {
    under_way: usize,
    waiting: VecDeque<Part>,
}

/// The turns of all bridges.
#[derive(Debug, Default)]
pub(super) struct Turns {
    bridges: HashMap<Text, Turn>,
    waiting: usize,
}

impl Turns {
    /// Gives the message back where it may be delivered at once; otherwise keeps it until its turn.
    pub(super) fn admit(&mut self, part: Part) -> Option<Part> {
        let turn = self.bridges.entry(part.message.bridge.clone()).or_default();
        if turn.under_way < MOST_UNDER_WAY && turn.waiting.is_empty() {
            turn.under_way += 1;
            return Some(part);
        }
        turn.waiting.push_back(part);
        self.waiting += 1;
        None
    }

    /// A delivery of that bridge is no longer under way. Returns the one whose turn that makes it: it is under way now.
    pub(super) fn over(&mut self, bridge: &Text) -> Option<Part> {
        let turn = self.bridges.get_mut(bridge)?;
        turn.under_way = turn.under_way.saturating_sub(1);
        if turn.under_way >= MOST_UNDER_WAY {
            return None;
        }
        let next = turn.waiting.pop_front()?;
        turn.under_way += 1;
        self.waiting -= 1;
        Some(next)
    }

    /// Messages under way or waiting for their turn.
    pub(super) fn len(&self) -> usize {
        self.waiting + self.bridges.values().map(|turn| turn.under_way).sum::<usize>()
    }

    /// Whether no message waits for its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::domain::message::Message;
    use crate::engine::receipt::Receipt;

    fn part(bridge: &str) -> Part {
        let message = Message { bridge: bridge.into(), ..Message::sample() };
        Part {
            message,
            receipt: Receipt::whole(1, mpsc::unbounded_channel().0),
            from_ingress: false,
            attempts: 0,
        }
    }

    #[test]
    fn a_crowd_of_one_bridge_waits_and_another_bridge_passes() {
        let mut turns = Turns::default();
        let admitted = (0..3 * MOST_UNDER_WAY).filter_map(|_| turns.admit(part("crowd"))).count();
        assert_eq!(admitted, MOST_UNDER_WAY);
        assert!(turns.admit(part("other")).is_some());
        assert!(!turns.is_empty());
        let mut came = 0;
        while turns.over(&"crowd".into()).is_some() {
            came += 1;
        }
        assert_eq!(came, 2 * MOST_UNDER_WAY);
        assert!(turns.is_empty());
    }

    #[test]
    fn who_waits_keeps_the_order_and_who_comes_later_does_not_pass() {
        let mut turns = Turns::default();
        let key = |part: Part| part.message.routing_key.to_string();
        let keyed = |number: usize| {
            let mut part = part("b");
            part.message.routing_key = number.to_string().as_str().into();
            part
        };
        for number in 0..MOST_UNDER_WAY + 2 {
            let _ = turns.admit(keyed(number));
        }
        assert_eq!(turns.over(&"b".into()).map(key), Some(MOST_UNDER_WAY.to_string()));
        assert!(turns.admit(keyed(9_999)).is_none());
        assert_eq!(turns.over(&"b".into()).map(key), Some((MOST_UNDER_WAY + 1).to_string()));
        assert_eq!(turns.over(&"b".into()).map(key), Some("9999".to_owned()));
    }
}
