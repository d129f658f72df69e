//! Whether this process does its work, as the engine last said. Knows no broker and no HTTP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared state of health. Clones share it; reading it never waits for anything slow.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    connected: AtomicBool,
    declared: AtomicBool,
    consuming: AtomicBool,
    draining: AtomicBool,
    note: Mutex<Option<String>>,
}

/// What must hold for the process to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Both connections to the broker are open.
    Connected,
    /// Exchanges, queues and bindings are declared and audited.
    Declared,
    /// Every consumer is subscribed.
    Consuming,
}

impl Health {
    /// Nothing holds yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether `condition` holds now.
    pub fn set(&self, condition: Condition, holds: bool) {
        self.latch(condition).store(holds, Ordering::Relaxed);
    }

    /// The connection is gone: nothing holds until the engine says so again.
    pub fn disconnected(&self) {
        for condition in [Condition::Connected, Condition::Declared, Condition::Consuming] {
            self.set(condition, false);
        }
    }

    /// The process is stopping. There is no way back.
    pub fn drain(&self) {
        self.state.draining.store(true, Ordering::Relaxed);
    }

    /// Adds a text to the reasons why the process is not ready, such as the last error; `None` removes it. It is
    /// shown to whoever can reach the admin listener, so it must not hold a secret.
    pub fn note(&self, note: Option<String>) {
        *self.state.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    /// Whether the process does its work.
    ///
    /// # Errors
    /// Each reason why it does not, for a person, one line each.
    pub fn ready(&self) -> Result<(), Vec<String>> {
        let mut reasons = Vec::new();
        if self.state.draining.load(Ordering::Relaxed) {
            reasons.push("draining: this process is stopping".to_owned());
        }
        // Each needs the one before it: the first that fails is the reason, the others follow from it.
        let missing = [
            (Condition::Connected, "not connected to the broker"),
            (Condition::Declared, "exchanges and queues are not declared and audited yet"),
            (Condition::Consuming, "not consuming"),
        ];
        if let Some((_, reason)) =
            missing.iter().find(|(condition, _)| !self.latch(*condition).load(Ordering::Relaxed))
        {
            reasons.push((*reason).to_owned());
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let note = self.state.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reasons.extend(note.map(|note| note.replace(['\n', '\r'], " ")));
        Err(reasons)
    }

    fn latch(&self, condition: Condition) -> &AtomicBool {
        match condition {
            Condition::Connected => &self.state.connected,
            Condition::Declared => &self.state.declared,
            Condition::Consuming => &self.state.consuming,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working() -> Health {
        let health = Health::new();
        for condition in [Condition::Connected, Condition::Declared, Condition::Consuming] {
            health.set(condition, true);
        }
        health
    }

    #[test]
    fn starts_unready_and_becomes_ready_step_by_step() {
        let health = Health::new();
        assert_eq!(health.ready().unwrap_err(), ["not connected to the broker"]);
        health.set(Condition::Connected, true);
        assert!(health.ready().unwrap_err()[0].contains("not declared"));
        health.set(Condition::Declared, true);
        assert_eq!(health.ready().unwrap_err(), ["not consuming"]);
        health.set(Condition::Consuming, true);
        assert_eq!(health.ready(), Ok(()));
    }

    #[test]
    fn a_lost_connection_takes_everything_with_it() {
        let health = working();
        health.disconnected();
        health.set(Condition::Connected, true);
        assert!(health.ready().unwrap_err()[0].contains("not declared"));
    }

    #[test]
    fn a_clone_shares_the_state() {
        let health = working();
        health.clone().drain();
        assert_eq!(health.ready().unwrap_err(), ["draining: this process is stopping"]);
    }

    #[test]
    fn a_note_explains_only_while_unready_and_stays_on_one_line() {
        let health = working();
        health.note(Some("connection refused\nby localhost:5672".to_owned()));
        assert_eq!(health.ready(), Ok(()));
        health.set(Condition::Connected, false);
        let reasons = health.ready().unwrap_err();
        assert_eq!(reasons, ["not connected to the broker", "connection refused by localhost:5672"]);
        health.note(None);
        assert_eq!(health.ready().unwrap_err().len(), 1);
    }
}
