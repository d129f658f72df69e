//! Under which conditions was measured: figures mean nothing without.

use std::fs;
use std::thread::available_parallelism;

use leveret::bench::figure::bytes;

/// What whoever started this knows better.
#[derive(Debug, clap::Args)]
pub(crate) struct Given {
    /// The version of Erlang that the broker runs on
    #[arg(long, default_value = "(unknown)")]
    erlang: String,
    /// How to measure the same again
    #[arg(long = "command", value_name = "TEXT", default_value = "cargo run --release --example compare")]
    command: String,
}

/// One line for below a table. `rounds` where there are rounds.
pub(crate) fn describe(given: &Given, broker: &str, rounds: Option<usize>) -> String {
    let Given { erlang, command } = given;
    let cores = available_parallelism().map_or(0, usize::from);
    let date = today();
    let version = env!("CARGO_PKG_VERSION");
    let machine = machine(
        &fs::read_to_string("/proc/cpuinfo").unwrap_or_default(),
        &fs::read_to_string("/proc/meminfo").unwrap_or_default(),
    );
    let rounds = rounds.map_or_else(
        || "Measured once.".to_owned(),
        |rounds| {
            format!(
                "Rounds: {rounds}; medians, and from the least to the greatest. A ratio is that of one round, then the \
                 median of these."
            )
        },
    );
    format!(
        "<sub>{date}, `{command}`: {broker} on Erlang {erlang}, Leveret {version}, all on one machine with {cores} cores \
         ({machine}). {rounds}</sub>"
    )
}

/// One line for below a table of what was computed with these parameters.
pub(crate) fn computed(given: &Given, parameters: &str) -> String {
    let (date, version, command) = (today(), env!("CARGO_PKG_VERSION"), &given.command);
    format!("<sub>{date}, `{command}`: Leveret {version}, computed, not measured; {parameters}.</sub>")
}

fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

fn machine(cpuinfo: &str, meminfo: &str) -> String {
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let cpu = field(cpuinfo, "model name").unwrap_or_else(|| "CPU unknown".to_owned());
    let kib = field(meminfo, "MemTotal").and_then(|memory| memory.strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or_else(|| cpu.clone(), |kib| format!("{cpu}, {} of memory", bytes(kib << 10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_what_the_kernel_tells() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some   CPU @ 3GHz\nprocessor\t: 1\n";
        assert_eq!(machine(cpuinfo, "MemTotal:        4194304 kB\n"), "Some CPU @ 3GHz, 4 GiB of memory");
        assert_eq!(machine("", ""), "CPU unknown");
    }
}
