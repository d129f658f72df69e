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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::properties;

    /// The deepest table or array that fits the bytes; `level` is what a level writes before its length.
    fn nested(bytes: usize, level: &[u8]) -> Vec<u8> {
        let size = level.len() + 4;
        (0..bytes / size)
            .rev()
            .flat_map(|below| {
                let length = u32::try_from(below * size).unwrap().to_be_bytes();
                [level, &length].concat()
            })
            .collect()
    }

    #[test]
    fn there_is_room_for_the_deepest_nesting_of_a_frame() {
        const FRAME: usize = 131_072;
        const HEADERS: [u8; 2] = (1_u16 << 13).to_be_bytes();
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_be_bytes();
        let tables = nested(FRAME, &[0, b'F']);
        let arrays = [&[0], nested(FRAME, b"A").as_slice()].concat();
        for fields in [tables, arrays] {
            let raw = [&HEADERS, length(&fields).as_slice(), &fields].concat();
            let work = move || {
                let props = properties::decode(&raw).expect("the test's properties are wrong");
                let copy = props.clone();
                drop(props);
                assert_eq!(properties::encode(&copy), raw);
            };
            let room = ROOM.parse().unwrap();
            thread::Builder::new().stack_size(room).spawn(work).unwrap().join().unwrap();
        }
    }
}
