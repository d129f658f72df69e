//! What is known of targets from what became of earlier publishes. All of it is a hint: forgetting costs a detour, not a
//! message.

use std::collections::HashSet;
use std::hash::Hash;

use super::dispatch::{Address, Fate};

/// Most targets of one sort that are remembered.
const MOST: usize = 10_000;

/// What is known of exchanges and of their routing keys.
#[derive(Debug, Default)]
pub(super) struct Reputation {
    // From these, confirms did not come: no batch waits for them again until one message has been answered.
    suspects: HashSet<Address>,
    // These are there: to others, the first message goes alone, since a missing exchange closes the channel, and the
    // client may then lose the connection over what else is being written on it.
    proven: HashSet<String>,
    // Here the broker refuses some messages of an exchange and not others: those go alone, since what shares their
    // channel may come twice.
    forbidden: HashSet<Address>,
}

impl Reputation {
    /// Whether confirms did not come from there the last time.
    pub(super) fn is_suspect(&self, address: impl FnOnce() -> Address) -> bool {
        !self.suspects.is_empty() && self.suspects.contains(&address())
    }

    /// Whether a message to that exchange and key has to go alone.
    pub(super) fn goes_alone(&self, exchange: &str, address: impl FnOnce() -> Address) -> bool {
        !self.proven.contains(exchange) || !self.forbidden.is_empty() && self.forbidden.contains(&address())
    }

    /// Confirms do not come from there.
    pub(super) fn suspect(&mut self, address: Address) {
        remember(&mut self.suspects, address);
    }

    /// The exchange is missing, or forbidden as a whole.
    pub(super) fn condemn(&mut self, exchange: &str) {
        self.proven.remove(exchange);
    }

    /// Takes in what became of a publish. Costs next to nothing where all is well.
    pub(super) fn learn(&mut self, exchange: &str, address: impl Fn() -> Address, fate: &Fate) {
        if !matches!(fate, Fate::Unconfirmed) && !self.suspects.is_empty() {
            self.suspects.remove(&address());
        }
        match fate {
            Fate::Refused(failure) if failure.concerns_routing_key() => {
                remember(&mut self.forbidden, address());
            }
            Fate::Confirmed | Fate::Returned(_) | Fate::Nacked => {
                if !self.forbidden.is_empty() {
                    self.forbidden.remove(&address());
                }
                if !self.proven.contains(exchange) {
                    remember(&mut self.proven, exchange.to_owned());
                }
            }
            Fate::Refused(_) | Fate::Unconfirmed => {}
        }
    }
}

fn remember<K: Hash + Eq>(set: &mut HashSet<K>, key: K) {
    if set.len() >= MOST {
        set.clear();
    }
    set.insert(key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::failure::Failure;

    fn address(key: &str) -> Address {
        ("orders".to_owned(), key.to_owned())
    }

    fn learn(known: &mut Reputation, key: &str, fate: &Fate) {
        known.learn("orders", || address(key), fate);
    }

    fn goes_alone(known: &Reputation, key: &str) -> bool {
        known.goes_alone("orders", || address(key))
    }

    #[test]
    fn an_exchange_is_proven_by_any_answer_until_it_is_condemned() {
        let mut known = Reputation::default();
        assert!(goes_alone(&known, "a"));
        learn(&mut known, "a", &Fate::Returned("312".to_owned()));
        assert!(!goes_alone(&known, "b"));
        known.condemn("orders");
        assert!(goes_alone(&known, "b"));
    }

    #[test]
    fn a_forbidden_key_goes_alone_and_its_neighbours_do_not() {
        let mut known = Reputation::default();
        learn(&mut known, "a", &Fate::Confirmed);
        let text = "ACCESS_REFUSED - write access to topic 'b' in exchange 'orders' refused".to_owned();
        learn(&mut known, "b", &Fate::Refused(Failure::Channel { code: 403, text }));
        assert!(goes_alone(&known, "b") && !goes_alone(&known, "a"));
        learn(&mut known, "b", &Fate::Confirmed);
        assert!(!goes_alone(&known, "b"));
    }

    #[test]
    fn a_suspect_is_cleared_by_an_answer_and_not_by_more_silence() {
        let mut known = Reputation::default();
        known.suspect(address("a"));
        learn(&mut known, "a", &Fate::Unconfirmed);
        assert!(known.is_suspect(|| address("a")));
        assert!(!known.is_suspect(|| address("b")));
        learn(&mut known, "a", &Fate::Nacked);
        assert!(!known.is_suspect(|| address("a")));
    }

    #[test]
    fn memory_is_bounded() {
        let mut known = Reputation::default();
        (0..2 * MOST).for_each(|key| known.suspect(address(&key.to_string())));
        assert!(known.suspects.len() <= MOST);
    }
}
