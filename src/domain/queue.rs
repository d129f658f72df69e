//! What each of Leveret's queues is for.

use std::fmt;

/// The part that a queue plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueRole {
    /// Bundles wait here for a fixed time.
    Level,
    /// Applications' messages arrive here.
    Ingress,
    /// Bundles whose time in a level is over arrive here.
    Due,
    /// Messages that could not be delivered wait here for a person.
    Parked,
}

impl QueueRole {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Level, Self::Ingress, Self::Due, Self::Parked];

    /// The role as messages and metrics spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::Ingress => "ingress",
            Self::Due => "due",
            Self::Parked => "parked",
        }
    }
}

impl fmt::Display for QueueRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
