//! A timer of the kernel's, which the runtime waits for as it does for a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Timer {
    timer: AsyncFd<OwnedFd>,
    set: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        #[allow(
            deprecated,
            reason = "an owned descriptor is what its replacement, which is unsafe to call, asks for"
        )]
        let timer = AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Self { timer, set: None })
    }

    /// Waits until that moment. Cancel-safe.
    pub(super) async fn ring(&mut self, at: Instant) -> io::Result<()> {
        if self.set != Some(at) {
            // To set it forgets that it rang before.
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once_after(at))?;
            self.set = Some(at);
        }
        loop {
            let mut ready = self.timer.readable().await?;
            let mut times = [0; 8];
            // It would block where what is ready is what it rang before it was set anew.
            if let Ok(read) = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut times)?)) {
                self.set = None;
                return read.map(|_| ());
            }
        }
    }
}

fn once_after(at: Instant) -> Itimerspec {
    let left = at.saturating_duration_since(Instant::now());
    let it_value = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        // Zero would mean never.
        tv_nsec: i64::from(left.subsec_nanos()).max(1),
    };
    Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value }
}
