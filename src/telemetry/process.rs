//! What a process uses, read from `/proc`. Knows no metric's name; elsewhere than on Linux it knows nothing.

use std::fs;
use std::time::Duration;

/// The unit of CPU times in `/proc`, which Linux fixes at a hundredth of a second on every platform that Rust's
/// standard library and this program run on.
const TICKS_PER_SECOND: u64 = 100;

/// One reading. A field that could not be read is absent, never zero.
#[derive(Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Option<Duration>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// The most that it ever was, in bytes.
    pub resident_peak_bytes: Option<u64>,
    /// Bytes that it had written to disks; of another user's process they are not told.
    pub written_bytes: Option<u64>,
    /// Virtual memory, in bytes.
    pub virtual_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// How many file descriptors may be open.
    pub max_fds: Option<u64>,
    /// When the process started, since the Unix epoch.
    pub started: Option<Duration>,
}

/// Whose usage to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This process's.
    Own,
    /// That of the process with this id.
    Of(u32),
}

/// Reads a process's usage. Takes well under a millisecond and touches no disk.
pub fn usage(whose: Whose) -> Usage {
    let folder = match whose {
        Whose::Own => "/proc/self".to_owned(),
        Whose::Of(pid) => format!("/proc/{pid}"),
    };
    let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
    let (stat, status) = (read("stat"), read("status"));
    Usage {
        cpu: cpu(&stat),
        resident_bytes: status_field(&status, "VmRSS:").map(kibibytes),
        resident_peak_bytes: status_field(&status, "VmHWM:").map(kibibytes),
        written_bytes: status_field(&read("io"), "write_bytes:"),
        virtual_bytes: status_field(&status, "VmSize:").map(kibibytes),
        threads: status_field(&status, "Threads:"),
        open_fds: open_fds(&folder, whose),
        max_fds: max_fds(&read("limits")),
        started: fs::read_to_string("/proc/stat").ok().and_then(|system| started(&stat, &system)),
    }
}

/// Field `number` of `/proc/PID/stat`, counted from 1 as `proc(5)` does. The second field is the command in
/// parentheses, which may itself hold spaces and parentheses: count from behind it.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, behind_command) = stat.rsplit_once(')')?;
    behind_command.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count.saturating_mul(1000 / TICKS_PER_SECOND))
}

fn cpu(stat: &str) -> Option<Duration> {
    Some(ticks(stat_field(stat, 14)?.saturating_add(stat_field(stat, 15)?)))
}

fn started(stat: &str, system: &str) -> Option<Duration> {
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Duration::from_secs(boot).checked_add(ticks(stat_field(stat, 22)?))
}

fn status_field(status: &str, label: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(label))?;
    value.split_whitespace().next()?.parse().ok()
}

fn kibibytes(count: u64) -> u64 {
    count.saturating_mul(1024)
}

fn open_fds(folder: &str, whose: Whose) -> Option<u64> {
    let listed = fs::read_dir(format!("{folder}/fd")).ok()?.count();
    // The listing of the own ones holds one descriptor open itself.
    u64::try_from(listed).ok()?.checked_sub(u64::from(whose == Whose::Own))
}

fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 7 0 1234 1000 25 18446744073709551615";

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        assert_eq!(cpu(STAT), Some(Duration::from_secs(2)));
        assert_eq!(started(STAT, "cpu 1 2 3\nbtime 1000\n"), Some(Duration::from_millis(1_012_340)));
    }

    #[test]
    fn limits_and_status_are_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096  files\n";
        assert_eq!(max_fds(limits), Some(1024));
        assert_eq!(max_fds("Max open files  unlimited  unlimited  files"), None);
        assert_eq!(status_field("VmSize:\t  80 kB\nThreads:\t3\n", "Threads:"), Some(3));
    }

    #[test]
    fn nonsense_is_absent_and_not_zero() {
        assert_eq!(cpu(""), None);
        assert_eq!(started(STAT, ""), None);
        assert_eq!(status_field("VmRSS: lots", "VmRSS:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_a_usage() {
        let usage = usage(Whose::Own);
        assert!(usage.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{usage:?}");
        assert!(usage.threads.is_some_and(|threads| threads >= 1), "{usage:?}");
        assert!(usage.open_fds.is_some_and(|fds| fds >= 3), "{usage:?}");
        assert!(usage.started.is_some_and(|at| at > Duration::from_secs(1_500_000_000)), "{usage:?}");
        assert!(usage.cpu.is_some(), "{usage:?}");
    }
}
