//! Whether this process does its work, as the engine last said. Knows no broker and no HTTP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared state of health. Clones share it; reading it never waits for anything slow.
#[derive(Debug, Clone)]
pub struct Health {
    draining: Arc<AtomicBool>,
    workers: Arc<[WorkerHealth]>,
}

/// One worker's part of it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct WorkerHealth(Arc<State>);

#[derive(Debug, Default)]
struct State {
    connected: AtomicBool,
    declared: AtomicBool,
    consuming: AtomicBool,
    note: Mutex<Option<String>>,
}

/// What must hold for a worker to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Both connections to the broker are open.
    Connected,
    /// Exchanges, queues and bindings are declared and audited.
    Declared,
    /// Every consumer is subscribed.
    Consuming,
}

impl Condition {
    /// Each needs the one before it: the first that fails is the reason, the others follow from it.
    const ALL: [Self; 3] = [Self::Connected, Self::Declared, Self::Consuming];

    const fn missing(self) -> &'static str {
        match self {
            Self::Connected => "not connected to the broker",
            Self::Declared => "exchanges and queues are not declared and audited yet",
            Self::Consuming => "not consuming",
        }
    }
}

impl Health {
    /// Of so many workers, of which nothing holds yet.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { draining: Arc::default(), workers: (0..workers).map(|_| WorkerHealth::default()).collect() }
    }

    /// Each worker's part.
    #[must_use]
    pub fn workers(&self) -> &[WorkerHealth] {
        &self.workers
    }

    /// The process is stopping. There is no way back.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the process does its work: every worker its own.
    ///
    /// # Errors
    /// Each reason why it does not, for a person, one line each.
    pub fn ready(&self) -> Result<(), Vec<String>> {
        let mut reasons = Vec::new();
        if self.draining.load(Ordering::Relaxed) {
            reasons.push("draining: this process is stopping".to_owned());
        }
        let missing: Vec<_> = self.workers.iter().map(WorkerHealth::missing).collect();
        for condition in Condition::ALL {
            match missing.iter().filter(|missing| **missing == Some(condition)).count() {
                0 => {}
                count if count == missing.len() => reasons.push(condition.missing().to_owned()),
                count => {
                    reasons.push(format!("{} ({count} of {} workers)", condition.missing(), missing.len()))
                }
            }
        }
        if reasons.is_empty() {
            return Ok(());
        }
        for note in self.workers.iter().filter_map(WorkerHealth::noted) {
            if !reasons.contains(&note) {
                reasons.push(note);
            }
        }
        Err(reasons)
    }
}

impl WorkerHealth {
    /// Says whether `condition` holds now.
    pub fn set(&self, condition: Condition, holds: bool) {
        self.latch(condition).store(holds, Ordering::Relaxed);
    }

    /// The connection is gone: nothing holds until the worker says so again.
    pub fn disconnected(&self) {
        Condition::ALL.into_iter().for_each(|condition| self.set(condition, false));
    }

    /// Adds a text to the reasons why the process is not ready, such as the last error; `None` removes it. It is
    /// shown to whoever can reach the admin listener, so it must not hold a secret.
    pub fn note(&self, note: Option<String>) {
        *self.0.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    fn noted(&self) -> Option<String> {
        let note = self.0.note.lock().unwrap_or_else(PoisonError::into_inner);
        note.as_ref().map(|note| note.replace(['\n', '\r'], " "))
    }

    /// The first condition that does not hold.
    fn missing(&self) -> Option<Condition> {
        Condition::ALL.into_iter().find(|condition| !self.latch(*condition).load(Ordering::Relaxed))
    }

    fn latch(&self, condition: Condition) -> &AtomicBool {
        match condition {
            Condition::Connected => &self.0.connected,
            Condition::Declared => &self.0.declared,
            Condition::Consuming => &self.0.consuming,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working(workers: usize) -> Health {
        let health = Health::new(workers);
        health.workers().iter().for_each(works);
        health
    }

    fn works(worker: &WorkerHealth) {
        Condition::ALL.into_iter().for_each(|condition| worker.set(condition, true));
    }

    #[test]
    fn starts_unready_and_becomes_ready_step_by_step() {
        let health = Health::new(1);
        let worker = &health.workers()[0];
        assert_eq!(health.ready().unwrap_err(), ["not connected to the broker"]);
        worker.set(Condition::Connected, true);
        assert!(health.ready().unwrap_err()[0].contains("not declared"));
        worker.set(Condition::Declared, true);
        assert_eq!(health.ready().unwrap_err(), ["not consuming"]);
        worker.set(Condition::Consuming, true);
        assert_eq!(health.ready(), Ok(()));
    }

    #[test]
    fn ready_when_every_worker_is() {
        let health = Health::new(3);
        works(&health.workers()[0]);
        works(&health.workers()[2]);
        assert_eq!(health.ready().unwrap_err(), ["not connected to the broker (1 of 3 workers)"]);
        works(&health.workers()[1]);
        assert_eq!(health.ready(), Ok(()));
    }

    #[test]
    fn each_reason_of_several_workers_is_told_once() {
        let health = working(4);
        for (worker, condition) in health.workers().iter().zip([Condition::Connected, Condition::Consuming]) {
            worker.set(condition, false);
            worker.note(Some("connection refused".to_owned()));
        }
        assert_eq!(
            health.ready().unwrap_err(),
            [
                "not connected to the broker (1 of 4 workers)",
                "not consuming (1 of 4 workers)",
                "connection refused"
            ]
        );
    }

    #[test]
    fn a_lost_connection_takes_everything_with_it() {
        let health = working(1);
        let worker = &health.workers()[0];
        worker.disconnected();
        worker.set(Condition::Connected, true);
        assert!(health.ready().unwrap_err()[0].contains("not declared"));
    }

    #[test]
    fn a_clone_shares_the_state() {
        let health = working(1);
        health.clone().drain();
        assert_eq!(health.ready().unwrap_err(), ["draining: this process is stopping"]);
    }

    #[test]
    fn a_note_explains_only_while_unready_and_stays_on_one_line() {
        let health = working(1);
        let worker = &health.workers()[0];
        worker.note(Some("connection refused\nby localhost:5672".to_owned()));
        assert_eq!(health.ready(), Ok(()));
        worker.set(Condition::Connected, false);
        let reasons = health.ready().unwrap_err();
        assert_eq!(reasons, ["not connected to the broker", "connection refused by localhost:5672"]);
        worker.note(None);
        assert_eq!(health.ready().unwrap_err().len(), 1);
    }
}
