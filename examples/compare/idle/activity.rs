//! What the threads of a process have done so far, finer than the hundredths of a second that the kernel tells of the
//! whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// One reading.
#[derive(Debug)]
pub(super) struct Activity(BTreeMap<u32, Thread>);

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    on_cpu: Duration,
    waits: u64,
}

impl Activity {
    /// Of the process with this id.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let folder = format!("/proc/{pid}/task");
        let tasks = fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
        let threads: BTreeMap<_, _> = tasks.filter_map(|task| thread(&task.ok()?.path())).collect();
        // Some kernels do not tell, and that must not pass for idleness.
        (!threads.is_empty()).then_some(Self(threads)).with_context(|| format!("{folder} tells no times"))
    }

    /// Time on a processor, and how often a thread began to wait, since an earlier reading of the same process. What
    /// threads did that have ended meanwhile is not told.
    pub(super) fn since(&self, before: &Self) -> (Duration, u64) {
        let done = self.0.iter().map(|(id, after)| {
            let before = before.0.get(id).copied().unwrap_or_default();
            (after.on_cpu.saturating_sub(before.on_cpu), after.waits.saturating_sub(before.waits))
        });
        done.fold((Duration::ZERO, 0), |(on_cpu, waits), one| (on_cpu + one.0, waits + one.1))
    }
}

/// A thread that ends meanwhile is none.
fn thread(task: &Path) -> Option<(u32, Thread)> {
    let read = |file: &str| fs::read_to_string(task.join(file)).ok();
    let id = task.file_name()?.to_str()?.parse().ok()?;
    Some((id, Thread { on_cpu: on_cpu(&read("schedstat")?)?, waits: waits(&read("status")?)? }))
}

fn on_cpu(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().next()?.parse().ok()?))
}

fn waits(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_figure_is_the_time_and_only_voluntary_switches_count() {
        assert_eq!(on_cpu("1500000000 99 7\n"), Some(Duration::from_millis(1_500)));
        assert_eq!(on_cpu(""), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t99\n";
        assert_eq!(waits(status), Some(12));
    }

    #[test]
    fn threads_come_and_go() {
        let activity = |threads: &[(u32, u64, u64)]| {
            let thread = |&(id, millis, waits): &(u32, u64, u64)| {
                (id, Thread { on_cpu: Duration::from_millis(millis), waits })
            };
            Activity(threads.iter().map(thread).collect())
        };
        let before = activity(&[(1, 100, 5), (2, 900, 80)]);
        let after = activity(&[(1, 130, 7), (3, 10, 1)]);
        assert_eq!(after.since(&before), (Duration::from_millis(40), 3));
    }

    #[test]
    fn this_process_is_active() {
        let before = Activity::of(std::process::id()).unwrap();
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(50) {}
        let (on_cpu, _) = Activity::of(std::process::id()).unwrap().since(&before);
        assert!(on_cpu > Duration::ZERO);
    }
}
