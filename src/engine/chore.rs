//! Work that one worker does for all of them.

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Such work. Workers do it one after another, and none where another has done it meanwhile.
#[derive(Debug, Default)]
pub(super) struct Chore {
    done: Mutex<Option<Instant>>,
}

impl Chore {
    /// Does `work`, unless a worker has done it since `since`. What fails is not done.
    pub(super) async fn unless_done_since<E>(
        &self,
        since: Instant,
        work: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let mut done = self.done.lock().await;
        if done.is_none_or(|at| at < since) {
            work.await?;
            *done = Some(Instant::now());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, sleep};

    use super::*;

    /// Takes some time, and counts.
    async fn work(count: &std::cell::Cell<u32>, result: Result<(), ()>) -> Result<(), ()> {
        sleep(Duration::from_secs(1)).await;
        count.set(count.get() + 1);
        result
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_those_that_begin_together_does_it() {
        let (chore, count, since) = (Chore::default(), std::cell::Cell::new(0), Instant::now());
        let one = || chore.unless_done_since(since, work(&count, Ok(())));
        assert_eq!(tokio::join!(one(), one(), one()), (Ok(()), Ok(()), Ok(())));
        assert_eq!(count.get(), 1);
        advance(Duration::from_secs(1)).await;
        let later = chore.unless_done_since(Instant::now(), work(&count, Ok(())));
        assert_eq!((later.await, count.get()), (Ok(()), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_done_by_the_next() {
        let (chore, count, since) = (Chore::default(), std::cell::Cell::new(0), Instant::now());
        let failing = chore.unless_done_since(since, work(&count, Err(())));
        let next = chore.unless_done_since(since, work(&count, Ok(())));
        assert_eq!(tokio::join!(failing, next), (Err(()), Ok(())));
        assert_eq!(count.get(), 2);
    }
}
