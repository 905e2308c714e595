//! When a reader of a session looks whether its journal has grown without an event: another process may work on it.
//!
//! The inbox's wake-up is not used: it wakes one waiting task, which has to be the worker.

use super::boxed::AnyFuture;
use bob_messages::error::AgentError;
use bob_messages::store::Record;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The pause behind a look that found something.
const SHORTEST: Duration = Duration::from_millis(250);

/// The pause where nothing comes, or where events come.
const LONGEST: Duration = Duration::from_secs(1);

/// A look takes at most one part of this many of a reader's time: some stores read the whole journal.
const SHARE: u32 = 20;

/// The pause behind a look that took very long, as one at a database that was away.
const MOST: Duration = Duration::from_secs(5);

pub(super) type Page = Result<Vec<Arc<Record>>, AgentError>;

/// The looks of one reader: one at a time, and none while events come.
#[derive(Debug)]
pub(super) struct Look {
    next: Pin<Box<Sleep>>,
    pause: Duration,
    /// Events came since the pause began.
    is_told: bool,
    read: Option<AnyFuture<Page>>,
    began: Instant,
}

impl Look {
    pub(super) fn new() -> Self {
        let next = Box::pin(sleep(SHORTEST));
        Self { next, pause: SHORTEST, is_told: false, read: None, began: Instant::now() }
    }

    /// An event came: the session works here.
    pub(super) fn told(&mut self) {
        self.is_told = true;
    }

    /// The session has left this process.
    pub(super) fn soon(&mut self) {
        (self.pause, self.is_told) = (SHORTEST, false);
        self.rest(Duration::ZERO);
    }

    /// Gives up the look that is under way: the journal is read in another way.
    pub(super) fn give_up(&mut self) {
        self.read = None;
    }

    /// The records that a look has found. What a look could not read, the next one reads.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        begin: impl Fn() -> AnyFuture<Page>,
    ) -> Poll<Vec<Arc<Record>>> {
        loop {
            if let Some(read) = &mut self.read {
                let page = ready!(read.0.as_mut().poll(context));
                self.read = None;
                let found = page.ok();
                self.pause = match found.as_ref().map(Vec::is_empty) {
                    Some(false) => SHORTEST,
                    Some(true) => (self.pause * 2).min(LONGEST),
                    None => LONGEST,
                };
                self.rest(self.began.elapsed());
                match found {
                    Some(found) if !found.is_empty() => return Poll::Ready(found),
                    _nothing => continue,
                }
            }
            ready!(self.next.as_mut().poll(context));
            if std::mem::take(&mut self.is_told) {
                self.pause = LONGEST;
                self.rest(Duration::ZERO);
                continue;
            }
            (self.read, self.began) = (Some(begin()), Instant::now());
        }
    }

    fn rest(&mut self, took: Duration) {
        let pause = self.pause.max((took * SHARE).min(MOST));
        // Readers that began at once, as after a restart of a database, look at different times.
        let pause = pause.mul_f64(0.8 + 0.2 * fastrand::f64());
        self.next.as_mut().reset(Instant::now() + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::super::boxed::Boxed;
    use super::*;
    use std::future::{poll_fn, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Looks until something is found, or for this long; how often it was looked.
    async fn looked(look: &mut Look, within: Duration, page: fn() -> Page) -> (usize, bool) {
        let looks = AtomicUsize::new(0);
        let begin = || -> AnyFuture<Page> {
            looks.fetch_add(1, Ordering::Relaxed);
            Boxed(Box::pin(ready(page())))
        };
        let found = tokio::time::timeout(within, poll_fn(|context| look.poll(context, begin))).await;
        (looks.load(Ordering::Relaxed), found.is_ok())
    }

    fn nothing() -> Page {
        Ok(Vec::new())
    }

    fn away() -> Page {
        Err(AgentError::Stopped("it is away".into()))
    }

    #[tokio::test(start_paused = true)]
    async fn looks_become_rare_while_nothing_is_found_and_go_on_where_the_store_is_away() {
        // After 0.25, 0.75, 1.75, 2.75 s and so on, each of these pauses shorter by up to a fifth.
        for page in [nothing, away] {
            let (looks, finds) = looked(&mut Look::new(), Duration::from_millis(10_500), page).await;
            assert!((11..=14).contains(&looks) && !finds, "{looks}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_that_began_at_once_do_not_look_at_once() {
        let mut looks: Vec<Look> = (0..20).map(|_| Look::new()).collect();
        for look in &mut looks {
            look.rest(Duration::ZERO);
        }
        let next: std::collections::BTreeSet<Instant> = looks.iter().map(|look| look.next.deadline()).collect();
        assert!(next.len() > 10, "{next:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_look_while_events_come() {
        let mut look = Look::new();
        // Sooner each time than the shortest of the pauses.
        for _event in 0..13 {
            look.told();
            assert_eq!(looked(&mut look, Duration::from_millis(700), nothing).await, (0, false));
        }
        assert!(looked(&mut look, Duration::from_secs(2), nothing).await.0 >= 1, "behind them there is");
        look.told();
        look.soon();
        assert_eq!(looked(&mut look, Duration::from_millis(300), nothing).await, (1, false), "the session has left");
    }
}
