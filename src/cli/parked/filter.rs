//! Which parked messages are meant.

use std::collections::HashSet;

use clap::Args;
use clap::builder::PossibleValuesParser;
use ulid::Ulid;

use crate::domain::park::Reason;
use crate::engine::parked::{DEAD_LETTERED, Parked, UNKNOWN};

/// Messages to act on.
#[derive(Debug, Args)]
pub(super) struct Selection {
    #[command(flatten)]
    which: Which,
    /// With --reason or --all: only those of this bridge
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    bridge: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The message with this id, as `leveret parked list` shows it; can be repeated
    #[arg(long, value_name = "ID", value_parser = id)]
    id: Vec<Ulid>,
    /// Every message with this reason
    #[arg(long, value_name = "REASON", value_parser = reasons())]
    reason: Option<String>,
    /// Every message
    #[arg(long)]
    all: bool,
}

fn id(text: &str) -> Result<Ulid, String> {
    Ulid::from_string(text)
        .map_err(|_| "an id has 26 letters and digits, as in `leveret parked list`".to_owned())
}

/// The reasons that there are.
pub(super) fn reasons() -> PossibleValuesParser {
    let own = Reason::ALL.into_iter().map(Reason::as_str);
    PossibleValuesParser::new(own.chain([DEAD_LETTERED, UNKNOWN]))
}

impl Selection {
    /// Whether each message is named.
    pub(super) fn is_by_id(&self) -> bool {
        !self.which.id.is_empty()
    }
}

impl From<Selection> for Filter {
    fn from(selection: Selection) -> Self {
        let Selection { which: Which { id, reason, all: _ }, bridge } = selection;
        let ids = id.iter().map(Ulid::to_string).collect();
        Self { missing: (!id.is_empty()).then_some(ids), reason, bridge }
    }
}

/// Tells the messages that are meant from the others.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// The ids that have not been met yet, where messages are meant by id.
    missing: Option<HashSet<String>>,
    reason: Option<String>,
    bridge: Option<String>,
}

impl Filter {
    pub(super) fn listing(reason: Option<String>, bridge: Option<String>) -> Self {
        Self { missing: None, reason, bridge }
    }

    /// Whether the message is meant.
    pub(super) fn matches(&self, parked: &Parked) -> bool {
        let asked = |ids: &HashSet<String>| parked.id.as_ref().is_some_and(|id| ids.contains(id));
        self.missing.as_ref().is_none_or(asked)
            && self.reason.as_ref().is_none_or(|reason| *reason == parked.reason)
            && self.bridge.as_ref().is_none_or(|bridge| *bridge == parked.bridge)
    }

    /// Notes that a message has been met: each id is meant once, should there be a duplicate.
    pub(super) fn met(&mut self, parked: &Parked) {
        if let (Some(missing), Some(id)) = (&mut self.missing, &parked.id) {
            missing.remove(id);
        }
    }

    /// Whether no other message can match.
    pub(super) fn is_exhausted(&self) -> bool {
        self.missing.as_ref().is_some_and(HashSet::is_empty)
    }

    /// The ids that were not met.
    pub(super) fn missing(&self) -> Vec<&str> {
        let mut missing: Vec<_> = self.missing.iter().flatten().map(String::as_str).collect();
        missing.sort_unstable();
        missing
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        selection: Selection,
    }

    fn filter(line: &str) -> Result<Filter, clap::Error> {
        let words = ["retry"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.selection.into())
    }

    fn parked(id: u128, reason: &str, bridge: &str) -> Parked {
        Parked {
            id: Some(Ulid(id).to_string()),
            reason: reason.to_owned(),
            detail: String::new(),
            bridge: bridge.to_owned(),
            target: None,
            routing_key: String::new(),
            due: None,
            parked_at: None,
            body_bytes: 0,
        }
    }

    #[test]
    fn exactly_one_way_of_selecting_is_needed() {
        let id = Ulid(1).to_string();
        for line in ["", "--bridge b", "--id 5", "--reason nonsense", "--all --reason unroutable"] {
            assert!(filter(line).is_err(), "{line}");
        }
        assert!(filter(&format!("--id {id} --all")).is_err());
        assert!(filter(&format!("--id {id} --bridge b")).is_err());
        assert!(filter("--reason dead-lettered --bridge b").is_ok());
    }

    #[test]
    fn each_id_is_met_once() {
        let (one, two) = (Ulid(1).to_string(), Ulid(2).to_string());
        let mut filter = filter(&format!("--id {one} --id {}", two.to_lowercase())).unwrap();
        let message = parked(2, "unroutable", "b");
        assert!(filter.matches(&message) && !filter.matches(&parked(3, "unroutable", "b")));
        filter.met(&message);
        assert!(!filter.matches(&message) && !filter.is_exhausted());
        assert_eq!(filter.missing(), [one]);
        filter.met(&parked(1, "unroutable", "b"));
        assert!(filter.is_exhausted());
    }

    #[test]
    fn reason_and_bridge_must_both_fit() {
        let filter = filter("--reason unroutable --bridge b").unwrap();
        assert!(filter.matches(&parked(1, "unroutable", "b")));
        assert!(!filter.matches(&parked(1, "unroutable", "c")));
        assert!(!filter.matches(&parked(1, "refused", "b")));
        assert!(!filter.is_exhausted() && filter.missing().is_empty());
    }
}
