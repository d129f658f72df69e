//! A wall clock of a sidecar's own, set by the test. libfaketime stands between the process and the system's clock; the
//! monotonic clock stays what it is, as it does where a real clock is set.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A clock that is wrong by so many milliseconds, until it is set anew.
pub(crate) struct Clock {
    directory: TempDir,
}

impl Clock {
    /// A clock that is ahead by so much, or behind.
    pub(crate) fn off_by(ms: i64) -> Self {
        let clock = Self { directory: tempfile::Builder::new().prefix("leveret-clock-").tempdir().unwrap() };
        clock.set_off_by(ms);
        clock
    }

    /// Sets it at once, for the process that runs by it.
    pub(crate) fn set_off_by(&self, ms: i64) {
        // Renamed, so that nobody reads half of it.
        let draft = self.directory.path().join("draft");
        std::fs::write(
            &draft,
            format!("{}{}.{:03}\n", if ms < 0 { '-' } else { '+' }, ms.abs() / 1_000, ms.abs() % 1_000),
        )
        .unwrap();
        std::fs::rename(draft, self.file()).unwrap();
    }

    /// What a process that is to run by it needs in its environment.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        let path = |path: PathBuf| path.into_os_string().into_string().unwrap();
        [
            ("LD_PRELOAD", path(library())),
            ("FAKETIME_TIMESTAMP_FILE", path(self.file())),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("offset")
    }
}

/// Removes what libfaketime leaves in shared memory where its process is killed.
pub(super) fn sweep(pid: u32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// Where the distribution puts the one for processes of several threads: in a directory of the architecture's.
fn library() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").unwrap().filter_map(Result::ok);
    let mut candidates = directories.map(|directory| directory.path().join("faketime/libfaketimeMT.so.1"));
    candidates.find(|library| library.exists()).expect("no libfaketime here: run scripts/setup-test-tools")
}
