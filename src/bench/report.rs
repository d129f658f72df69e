//! What one measurement found: as data that `--json` writes, and as a table for people.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::figure::{bytes, grouped, millis, rate, rounded};

/// The `delay` of a scheme that has none.
pub const NO_DELAY: &str = "none";

/// One scheme, measured once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What brought the messages: `direct`, `relay`, `leveret`, `cascade`, `plugin`.
    pub scheme: String,
    /// The broker's product and version: `RabbitMQ 4.3.6`.
    pub broker: String,
    /// The version of Leveret that measured.
    pub leveret: String,
    /// What was asked for.
    pub settings: Settings,
    /// Somebody ended it early: this is what was measured until then.
    pub interrupted: bool,
    /// Messages sent to the broker.
    pub published: u64,
    /// Messages that the broker took responsibility for.
    pub confirmed: u64,
    /// Messages published a second, from the first to the last confirm.
    pub publish_rate: f64,
    /// Messages that came, each counted once.
    pub delivered: u64,
    /// Messages delivered a second, from the first to the last delivery.
    pub delivery_rate: f64,
    /// Messages that were confirmed and did not come.
    pub lost: u64,
    /// Deliveries of messages that had come before.
    pub duplicates: u64,
    /// Deliveries before the message was due.
    pub early: u64,
    /// From the moment when the last message was due to the last delivery, in milliseconds. Absent where nothing came.
    pub drained_ms: Option<f64>,
    /// Delivered minus due, in milliseconds. Absent where nothing came.
    pub lateness_ms: Option<Lateness>,
    /// What it cost.
    pub usage: Usage,
    /// Lateness second by second; a second in which nothing came is left out.
    pub timeline: Vec<Second>,
    /// How many messages were how late, in ascending order.
    pub distribution: Vec<Bucket>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Messages to publish.
    pub messages: u64,
    /// Messages to publish a second; 0 is as fast as possible.
    pub rate: u64,
    /// Bytes in a message's body.
    pub size: usize,
    /// The range of delays, `1s..16s`, or [`NO_DELAY`].
    pub delay: String,
    /// How the delays are spread over that range: `uniform`, `log`, or `burst` (all due in the same second).
    pub spread: String,
    /// Messages that wait already, and go on waiting meanwhile.
    pub pending: u64,
    /// The type of all queues that take part: `quorum` or `classic`.
    pub queue_type: String,
}

/// Delivered minus due over all messages, in milliseconds; what came early counts as 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of the messages were no later.
    pub p50: f64,
    /// 90 % of the messages were no later.
    pub p90: f64,
    /// 99 % of the messages were no later.
    pub p99: f64,
    /// 99.9 % of the messages were no later.
    pub p99_9: f64,
    /// The latest message.
    pub max: f64,
}

/// What each process used. Absent where there is no such process, or nobody named it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The broker.
    pub broker: Option<Process>,
    /// What stands between the exchanges: Leveret, or the relay.
    pub leveret: Option<Process>,
    /// The measuring process itself.
    pub bench: Option<Process>,
    /// Over how many seconds processor time and writes were taken: those in which as many messages came as were
    /// published, where the run was long enough for that; else the whole run.
    pub seconds: f64,
    /// How many messages were delivered in them.
    pub messages: u64,
}

/// What one process used. Its memory is that of the whole run, from before the messages that are only to wait to the last delivery.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
    /// Processor time, in microseconds for each message delivered.
    pub cpu_us_per_message: f64,
    /// Bytes written to disk. Absent where the kernel does not tell.
    pub written_bytes: Option<u64>,
    /// Resident memory before the first publish, also of messages that only wait, in bytes.
    pub rss_bytes_before: u64,
    /// Resident memory after the last delivery, in bytes.
    pub rss_bytes_after: u64,
    /// The most resident memory that the process ever had, in bytes.
    pub rss_bytes_peak: u64,
}

/// The deliveries of one second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the first delivery, rounded down.
    pub second: u32,
    /// Messages that came for the first time.
    pub delivered: u64,
    /// Median of their lateness, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of their lateness, in milliseconds.
    pub p99_ms: f64,
    /// The latest of them, in milliseconds.
    pub max_ms: f64,
}

/// Messages of similar lateness: above the previous bucket's limit, and up to this one's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// The greatest lateness that counts here, in milliseconds.
    pub up_to_ms: f64,
    /// How many messages.
    pub count: u64,
}

impl Report {
    /// All that was measured, for people to read on a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        let interrupted = if self.interrupted { " (interrupted)" } else { "" };
        let mut out = format!(
            "{} on {}, measured by Leveret {}{interrupted}\n{}\n\n",
            self.scheme,
            self.broker,
            self.leveret,
            self.settings.describe()
        );
        for line in self.counts().into_iter().chain(self.lateness()) {
            out.push_str(&line);
        }
        out.push('\n');
        out.push_str(&aligned(&self.costs()));
        out
    }

    fn counts(&self) -> [String; 6] {
        let at = |per_second: f64| format!("messages, {}", rate(per_second));
        let line = |name: &str, count: u64, what: &str| line(name, &format!("{} {what}", grouped(count)));
        [
            line("published", self.published, &at(self.publish_rate)),
            line("confirmed", self.confirmed, "messages"),
            line("delivered", self.delivered, &at(self.delivery_rate)),
            line("lost", self.lost, "messages"),
            line("doubled", self.duplicates, "messages"),
            line("early", self.early, "messages"),
        ]
    }

    fn lateness(&self) -> Vec<String> {
        let Some(Lateness { mean, p50, p90, p99, p99_9, max }) = self.lateness_ms else {
            return vec![line("late", "- nothing came")];
        };
        let late = [("mean", mean), ("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p99_9), ("max", max)];
        let mut lines: Vec<_> =
            late.iter().map(|(name, ms)| line(&format!("late, {name}"), &millis(*ms))).collect();
        let drained = self.drained_ms.map(|ms| format!("{} after the last was due", millis(ms)));
        lines.extend(drained.map(|text| line("drained", &text)));
        lines
    }

    fn costs(&self) -> Vec<Vec<String>> {
        let Usage { broker, leveret, bench, seconds, .. } = self.usage;
        let cpu = format!("CPU in {} s", rounded(seconds));
        let head = ["process", &cpu, "CPU per message", "written", "memory before", "after", "peak"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.push(cost("broker", broker, "not measured (--broker-pid)"));
        match self.scheme.as_str() {
            "leveret" => rows.push(cost("leveret", leveret, "not measured (--leveret-pid)")),
            // Other schemes may have nothing there.
            scheme => rows.extend(leveret.map(|process| cost(scheme, Some(process), ""))),
        }
        rows.push(cost("bench", bench, "not measured"));
        rows
    }
}

/// One figure and its unit, the figure aligned to the right.
fn line(name: &str, figure: &str) -> String {
    let (number, unit) = figure.split_once(' ').unwrap_or((figure, ""));
    format!("{name:11}  {number:>11} {unit}\n")
}

fn cost(name: &str, process: Option<Process>, absent: &str) -> Vec<String> {
    let Some(process) = process else { return vec![name.to_owned(), absent.to_owned()] };
    vec![
        name.to_owned(),
        format!("{} s", rounded(process.cpu_seconds)),
        format!("{} µs", rounded(process.cpu_us_per_message)),
        process.written_bytes.map_or_else(|| "unknown".to_owned(), bytes),
        bytes(process.rss_bytes_before),
        bytes(process.rss_bytes_after),
        bytes(process.rss_bytes_peak),
    ]
}

impl Settings {
    /// All of it in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!(
            "{} messages of {}, {}, {}",
            grouped(self.messages),
            bytes(self.size as u64),
            self.pace(),
            self.delays()
        );
        if self.pending > 0 {
            let _ = write!(text, ", while {} wait", grouped(self.pending));
        }
        let _ = write!(text, ", {} queues", self.queue_type);
        text
    }

    /// How fast.
    #[must_use]
    pub fn pace(&self) -> String {
        match self.rate {
            0 => "as fast as possible".to_owned(),
            rate => format!("{} msg/s", grouped(rate)),
        }
    }

    /// How long.
    #[must_use]
    pub fn delays(&self) -> String {
        if self.delay == NO_DELAY {
            "no delay".to_owned()
        } else {
            format!("delay {} ({})", self.delay, self.spread)
        }
    }
}

/// Columns as wide as their widest cell; names to the left, figures to the right. What is too long in a row's last cell
/// widens nothing.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let full = rows.iter().filter(|row| column == 0 || row.len() == columns);
        full.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match column {
                0 => write!(line, "{cell:width$}"),
                _ if row.len() < columns => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
