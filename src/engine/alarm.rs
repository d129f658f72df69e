//! Wakes at a moment, to the tenth of a millisecond. The runtime's own timers are a millisecond late on average, and at every
//! delivery that would be a millisecond of lateness.

#[cfg(target_os = "linux")]
mod linux;

use std::time::Instant;

use tokio::time::sleep_until;

#[cfg(target_os = "linux")]
use self::linux::Timer;

/// One alarm.
#[derive(Debug)]
pub(super) struct Alarm {
    /// None where the kernel has none to give: then the runtime's timers do.
    #[cfg(target_os = "linux")]
    timer: Option<Timer>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            timer: Timer::new().ok(),
        }
    }

    /// Waits until that moment; for ever without one. Cancel-safe.
    pub(super) async fn wait(&mut self, at: Option<Instant>) {
        let Some(at) = at else { return std::future::pending().await };
        if at <= Instant::now() {
            return;
        }
        #[cfg(target_os = "linux")]
        if let Some(timer) = &mut self.timer {
            if timer.ring(at).await.is_ok() {
                return;
            }
            self.timer = None;
        }
        sleep_until(at.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn rings_at_its_moment_and_not_before_however_often_it_is_set() {
        let mut alarm = Alarm::new();
        let far = Instant::now() + Duration::from_secs(3_600);
        assert!(timeout(Duration::from_millis(5), alarm.wait(Some(far))).await.is_err());
        for millis in [20, 1, 7] {
            let at = Instant::now() + Duration::from_millis(millis);
            // Given up once, as a loop does that something else wakes.
            let _ = timeout(Duration::from_micros(300), alarm.wait(Some(at))).await;
            timeout(Duration::from_secs(60), alarm.wait(Some(at))).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test]
    async fn what_is_past_does_not_wait_and_what_is_not_set_does_not_end() {
        let mut alarm = Alarm::new();
        alarm.wait(Some(Instant::now())).await;
        assert!(timeout(Duration::from_millis(5), alarm.wait(None)).await.is_err());
    }
}
