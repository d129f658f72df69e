//! What the broker and Leveret hold while something runs: memory, file descriptors, disk.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use leveret::telemetry::process::{self, Whose};

use crate::node::Node;

/// One look. What could not be read is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) broker_bytes: Option<u64>,
    pub(crate) broker_files: Option<u64>,
    pub(crate) leveret_bytes: Option<u64>,
    pub(crate) leveret_files: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
}

/// Looks this often, until the other end of `running` is dropped.
pub(crate) fn watch(
    node: &Node,
    (broker_pid, leveret_pid): (u32, u32),
    every: Duration,
    running: &Receiver<()>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    while running.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let [broker, leveret] = [broker_pid, leveret_pid].map(|pid| process::usage(Whose::Of(pid)));
        samples.push(Sample {
            broker_bytes: broker.resident_bytes,
            broker_files: broker.open_fds,
            leveret_bytes: leveret.resident_bytes,
            leveret_files: leveret.open_fds,
            disk_bytes: node.disk_bytes().ok(),
        });
    }
    samples
}
