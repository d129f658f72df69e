//! `leveret validate`: says what is wrong with a configuration, and what is valid but deserves a warning.

use std::time::Duration;

use super::exit::{Exit, Outcome};
use super::output::{counted, note, print};
use super::{ConfigArgs, print::USUAL_DELAYS};
use crate::amqp::connection;
use crate::config::{Config, QueueType};
use crate::domain::duration::compact;
use crate::domain::ladder::Ladder;
use crate::domain::plan::hop_count;
use crate::engine::keys;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret validate --config leveret.yaml
  LEVERET_AMQP__URI=amqp://rabbit leveret validate

Every error is told with its place in the file, and the exit code is then 78. Warnings go to standard \
error and leave the exit code at 0. Environment variables (LEVERET_…) count as they do for `run`.";

/// A delay that needs more hops than this costs the broker more than it should.
const MANY_HOPS: usize = 100;

pub(super) fn run(args: &ConfigArgs) -> Outcome {
    let config = args.load()?;
    let ladder = Ladder::new(&config.ladder.levels)?;
    for warning in warnings(&config, &ladder) {
        note(&format_args!("warning: {warning}"));
    }
    let bridges = counted(config.bridges.len() as u64, "bridge");
    let levels = counted(ladder.levels().len() as u64, "level");
    print(&format!("{} is valid: {bridges}, {levels}\n", args.name()))?;
    Ok(Exit::Success)
}

fn warnings(config: &Config, ladder: &Ladder) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(many_hops(config.max_delay, ladder));
    if config.queue_type == QueueType::Classic {
        warnings.push(
            "queue_type classic is not replicated, and the broker moves bundles out of a level at most once: a \
             broker that stops at that moment loses them; quorum loses none"
                .to_owned(),
        );
    }
    if let Err(error) = keys::codec(&config.bundle) {
        warnings.push(format!("{error}; `run` reads it at each connect"));
    }
    if let Err(error) = connection::endpoints(&config.amqp) {
        warnings.push(format!("{error}; `run` reads it at each connect"));
    }
    warnings
}

/// The shortest usual delay that takes many hops: a gap in the ladder, or a top that is too low.
fn many_hops(max_delay: Duration, ladder: &Ladder) -> Option<String> {
    let delays = USUAL_DELAYS.into_iter().filter(|delay| *delay <= max_delay);
    let (delay, hops) =
        delays.map(|delay| (delay, hop_count(ladder, delay))).find(|(_, hops)| *hops > MANY_HOPS)?;
    let below = ladder.levels().iter().rfind(|level| level.room() <= delay)?;
    Some(format!(
        "a delay of {} takes {hops} hops on this ladder, and each costs the broker a pass through a queue: add \
         levels between {} and {}",
        compact(delay),
        below.label,
        compact(delay),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(yaml: &str) -> Vec<String> {
        let config = Config::from_yaml(yaml).unwrap();
        let ladder = Ladder::new(&config.ladder.levels).unwrap();
        warnings(&config, &ladder)
    }

    #[test]
    fn the_presets_deserve_no_warning() {
        for ladder in ["default", "rocketmq"] {
            assert_eq!(warned(&format!("ladder: {ladder}")), Vec::<String>::new());
        }
    }

    #[test]
    fn a_gap_in_the_ladder_does() {
        let gap = warned("ladder: [10ms, 1d]");
        assert!(gap[0].starts_with("a delay of 1m takes 1428 hops"), "{gap:?}");
        assert!(gap[0].ends_with("add levels between 10ms and 1m"), "{gap:?}");
        assert!(warned("{ladder: [10ms], max_delay: 1s}").is_empty());
    }

    #[test]
    fn so_do_classic_queues_and_secrets_that_are_not_there() {
        assert!(warned("queue_type: classic")[0].contains("at most once"));
        assert!(warned("amqp: {uri_file: /nonexistent}")[0].contains("/nonexistent"));
        let missing_ca = "amqp: {uri: \"amqps://h\", tls: {ca_file: /nonexistent}}";
        assert!(warned(missing_ca)[0].starts_with("cannot read how to connect: cannot read /nonexistent: "));
    }
}
