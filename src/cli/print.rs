//! `leveret print`: what a configuration comes to.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::ConfigArgs;
use super::exit::{Exit, Outcome, Stop};
use super::output::{print, print_json, table};
use crate::amqp::permissions::{Permissions, TopicPermission};
use crate::amqp::topology::{Names, Topology};
use crate::config::{Config, json_schema};
use crate::domain::duration::compact;
use crate::domain::ladder::Ladder;
use crate::domain::plan::hop_count;

pub(super) const EXAMPLES: &str = "\
Examples:
  leveret print config                           the default configuration: a file to start from
  leveret print config --config leveret.yaml     with the environment's overrides; passwords are ***
  leveret print topology > topology.yaml         what `run` would declare in the broker
  leveret print permissions                      the least that Leveret's user needs, as commands
  leveret print ladder                           levels, and how many hops usual delays take
  leveret print schema > leveret.schema.json     for editors";

/// Delays that people really use.
pub(super) const USUAL_DELAYS: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(3_600),
    Duration::from_secs(86_400),
    Duration::from_secs(7 * 86_400),
];

#[derive(Debug, Args)]
pub(super) struct PrintArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The configuration in effect, every key with its value, as YAML; passwords are masked
    Config(ConfigArgs),
    /// The exchanges, queues and bindings that `run` declares, as YAML
    Topology(ConfigArgs),
    /// The permissions that Leveret's user needs in the virtual host, and no more, as commands of rabbitmqctl
    Permissions(ConfigArgs),
    /// The levels as a table, and the hops that usual delays take
    Ladder(ConfigArgs),
    /// The JSON Schema of the configuration file
    Schema,
}

pub(super) fn run(args: &PrintArgs) -> Outcome {
    match &args.what {
        What::Config(args) => print(&args.load()?.to_yaml().map_err(not_yaml)?)?,
        What::Topology(args) => {
            let (config, ladder) = load(args)?;
            let topology = Topology::new(&config, &ladder);
            print(&serde_yaml::to_string(&topology).map_err(not_yaml)?)?;
        }
        What::Permissions(args) => print(&permissions(&args.load()?))?,
        What::Ladder(args) => {
            let (config, ladder) = load(args)?;
            print(&describe(&ladder, &Names::new(&config.namespace)))?;
        }
        What::Schema => print_json(&json_schema())?,
    }
    Ok(Exit::Success)
}

/// Every value is a shell's word, so that the whole can be run as it is, with another user and virtual host.
fn permissions(config: &Config) -> String {
    let permissions = Permissions::least(config);
    let mut text = permissions.to_string();
    if !permissions.topics.is_empty() {
        text.push_str("\n# Only where topic permissions are in use:\n");
        text.extend(permissions.topics.iter().map(TopicPermission::command));
    }
    text
}

fn load(args: &ConfigArgs) -> Result<(Config, Ladder), Stop> {
    let config = args.load()?;
    let ladder = Ladder::new(&config.ladder.levels)?;
    Ok((config, ladder))
}

// By value, as `map_err` hands it over.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_yaml(error: serde_yaml::Error) -> Stop {
    Stop::failure(format!("cannot write YAML: {error}"))
}

fn describe(ladder: &Ladder, names: &Names) -> String {
    let levels: Vec<_> = (1..)
        .zip(ladder.levels())
        .map(|(number, level): (u32, _)| {
            [number.to_string(), compact(level.ttl), linger(level.linger), names.level(&level.label)]
        })
        .collect();
    let hops: Vec<_> = USUAL_DELAYS.iter().map(|delay| [compact(*delay), hops(ladder, *delay)]).collect();
    format!("{}\n{}", table(["LEVEL", "TTL", "LINGER", "QUEUE"], &levels), table(["DELAY", "HOPS"], &hops))
}

fn hops(ladder: &Ladder, delay: Duration) -> String {
    hop_count(ladder, delay).to_string()
}

/// Lingers are fractions of a TTL: more than three digits of them tell nothing.
fn linger(linger: Duration) -> String {
    compact(Duration::from_micros(u64::try_from(linger.as_micros()).unwrap_or(u64::MAX) / 100 * 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_two_tables() {
        let ladder = Ladder::new(&[Duration::from_secs(1), Duration::from_secs(64)]).unwrap();
        let text = describe(&ladder, &Names::new("leveret"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "LEVEL  TTL   LINGER  QUEUE");
        assert_eq!(lines[1], "1      1s    125ms   leveret.level.1s");
        assert_eq!(lines[2], "2      1m4s  1s      leveret.level.1m4s");
        assert_eq!(lines[4], "DELAY  HOPS");
        assert_eq!(lines[5], "1s     0");
        assert_eq!(lines.len(), 5 + USUAL_DELAYS.len());
    }

    #[test]
    fn the_topology_is_yaml_with_arguments_as_a_map() {
        let config = Config::default();
        let topology = Topology::new(&config, &Ladder::new(&config.ladder.levels).unwrap());
        let yaml: serde_yaml::Value =
            serde_yaml::from_str(&serde_yaml::to_string(&topology).unwrap()).unwrap();
        let levels = yaml["queues"].as_sequence().unwrap();
        let level = levels.iter().find(|queue| queue["name"] == "leveret.level.1s").unwrap();
        assert_eq!(level["arguments"]["x-message-ttl"], 1000);
        assert_eq!(level["arguments"]["x-queue-type"], "quorum");
    }
}
