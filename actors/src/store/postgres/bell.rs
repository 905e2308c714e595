//! Who in this process waits for what other processes change, and what this one has to tell them.
//!
//! A notification names sessions by their marks. Of those who wait, it wakes the ones of these sessions, and the worker, which
//! waits for any.

use bob_messages::ids::SessionId;
use futures_util::future::{BoxFuture, FutureExt};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The letters of a mark.
const LETTERS: usize = 8;

/// The most sessions that a notification names: its text has less than 8,000 bytes. One that names none stands for all.
const MOST: usize = 900;

/// A short name of a session, the same in each process. Two sessions may have one: a notification is a hint.
fn mark(session: &SessionId) -> String {
    blake3::hash(session.as_str().as_bytes()).to_hex()[..LETTERS].to_owned()
}

#[derive(Debug, Default)]
pub(super) struct Bell {
    /// Notified of each change.
    pub(super) changed: Notify,
    /// Those who wait for changes of one session, and how many they are.
    waiting: Mutex<Waiting>,
}

type Waiting = HashMap<String, (usize, Arc<Notify>)>;

impl Bell {
    /// Ready when it rings for this session from now on.
    pub(super) fn of(self: &Arc<Self>, session: &SessionId) -> BoxFuture<'static, ()> {
        let mark = mark(session);
        let mut waiting = self.waiting();
        let (count, notify) = waiting.entry(mark.clone()).or_default();
        *count += 1;
        // Made here: it hears what comes before it is awaited.
        let told = Arc::clone(notify).notified_owned();
        drop(waiting);
        let waiter = Waiter { bell: Arc::clone(self), mark };
        async move {
            let _waits = waiter;
            told.await;
        }
        .boxed()
    }

    /// Rings for the sessions that a notification names.
    pub(super) fn ring(&self, named: &str) {
        // Also what a program sent that names none, and what cannot be read.
        if named.is_empty() || !named.len().is_multiple_of(LETTERS) || !named.is_ascii() {
            return self.ring_all();
        }
        self.changed.notify_one();
        let waiting = self.waiting();
        let marks = (0..named.len()).step_by(LETTERS).map(|at| &named[at..at + LETTERS]);
        marks.filter_map(|mark| waiting.get(mark)).for_each(|(_, told)| told.notify_waiters());
    }

    /// Rings for all sessions.
    pub(super) fn ring_all(&self) {
        self.changed.notify_one();
        self.waiting().values().for_each(|(_, told)| told.notify_waiters());
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // An entry that a panic left is told in vain.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts as one who waits until it is dropped.
struct Waiter {
    bell: Arc<Bell>,
    mark: String,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.bell.waiting();
        if let Some((count, _)) = waiting.get_mut(&self.mark) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.mark);
            }
        }
    }
}

/// The sessions of which other processes were not told yet that something changed.
#[derive(Debug, Default)]
pub(super) struct Untold {
    marks: RefCell<BTreeSet<String>>,
    is_there: Notify,
}

impl Untold {
    pub(super) fn tell(&self, session: &SessionId) {
        self.marks.borrow_mut().insert(mark(session));
        self.is_there.notify_one();
    }

    /// Waits until there is something to tell, and answers the text of a notification of all of it.
    pub(super) async fn named(&self) -> String {
        loop {
            self.is_there.notified().await;
            let marks = self.marks.take();
            match marks.len() {
                // They were told of with the wake-up before: a text without one is about all sessions.
                0 => {}
                1..=MOST => return marks.into_iter().collect(),
                _too_many => return String::new(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> SessionId {
        SessionId::parse(id).unwrap()
    }

    /// Whether it is told by now.
    fn is_told(told: BoxFuture<'static, ()>) -> bool {
        told.now_or_never().is_some()
    }

    async fn named(sessions: impl IntoIterator<Item = String>) -> String {
        let untold = Untold::default();
        sessions.into_iter().for_each(|id| untold.tell(&session(&id)));
        untold.named().await
    }

    #[tokio::test]
    async fn those_who_wait_for_a_session_are_told_of_it_and_of_no_other() {
        let bell = Arc::<Bell>::default();
        let (one, again, other) = (bell.of(&session("one")), bell.of(&session("one")), bell.of(&session("other")));
        bell.ring(&named(["x".to_owned(), "one".to_owned()]).await);
        assert_eq!([one, again, other].map(is_told), [true, true, false]);
        assert!(bell.changed.notified().now_or_never().is_some(), "a worker looks at each");
        assert!(bell.waiting().is_empty(), "who went away is forgotten");
    }

    #[tokio::test]
    async fn a_notification_that_names_no_session_is_for_all() {
        let many = named((0..=MOST).map(|number| number.to_string())).await;
        for text in ["", "abc", &many] {
            let bell = Arc::<Bell>::default();
            let one = bell.of(&session("one"));
            bell.ring(text);
            assert!(is_told(one), "{text:?}");
        }
        let most = named((0..MOST).map(|number| number.to_string())).await;
        assert!((1..8_000).contains(&most.len()), "{}", most.len());
    }

    #[tokio::test]
    async fn one_that_goes_leaves_the_others_of_its_session() {
        let bell = Arc::<Bell>::default();
        let (one, again) = (bell.of(&session("one")), bell.of(&session("one")));
        drop(one);
        bell.ring(&named(["one".to_owned()]).await);
        assert!(is_told(again));
    }
}
