//! Room on the stack for headers that are nested as deeply as a frame allows, some ten thousand tables in each other.
//!
//! The AMQP client reads, copies and drops them by recursion, also on a thread that it starts itself and whose stack
//! cannot be configured: one such message would end the process, and again after every restart. The only way to that
//! thread's stack is the variable `RUST_MIN_STACK`, which the standard library reads once. So the program starts itself
//! anew with it, in the same process: its id, and with it a supervisor's view, stay the same.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use crate::config;

/// Bytes of each thread's stack: 512 MiB. A frame of 128 KiB holds 26,000 levels, and an unoptimised build takes 13 kB for
/// each. Memory is taken only for what is used of it.
const ROOM: &str = "536870912";

/// Runs `work` on a thread with room. Where that cannot be had, it runs all the same: only such a message needs it.
pub(super) fn with_room<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if !config::has_thread_stack() {
        start_anew();
    }
    // The first thread's stack is the operating system's: smaller, and not to be changed.
    match thread::spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Returns only where it fails.
fn start_anew() {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from("leveret"));
    if let Ok(program) = std::env::current_exe() {
        // What it returns is why it failed.
        let _ = Command::new(program).arg0(name).args(arguments).env(config::THREAD_STACK, ROOM).exec();
    }
}
