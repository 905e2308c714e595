//! How a connection to a tool server ended, told to every call in flight at once; and what calls
//! find out about their connection, which goes the other way.
//!
//! `P` is the way to the server's tools over one connection.

use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// What is seen of one connection by those who use it.
#[derive(Clone, Default)]
pub(super) struct Signs {
    /// The server may be gone.
    pub(super) suspect: Arc<Notify>,
    /// The server is there and no longer knows the session.
    pub(super) lost: Arc<Notify>,
}

/// How a connection ended, for those who use it.
pub(super) enum Word<P> {
    /// The server is gone: this is how, after its name.
    Dead(Arc<str>),
    /// Its session was lost; this is the way over the next one.
    Anew(Arc<P>),
}

/// Tells the calls of one connection how it ended. Dropping it untold means that the
/// actor has ended, and with it its calls.
pub(super) struct Fate<P>(watch::Sender<Option<Word<P>>>);

/// Hears of it.
pub(super) struct FateWatch<P>(watch::Receiver<Option<Word<P>>>);

impl<P> Fate<P> {
    pub(super) fn new() -> (Self, FateWatch<P>) {
        let (tell, told) = watch::channel(None);
        (Self(tell), FateWatch(told))
    }

    /// Says how the connection ended. The first word stands.
    pub(super) fn tell(&self, word: Word<P>) {
        self.0.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(word);
            first
        });
    }
}

impl<P> FateWatch<P> {
    /// Waits for the word. Cancel-safe.
    pub(super) async fn told(&self) -> Word<P> {
        let mut watched = self.0.clone();
        let told = watched.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(word) => word,
            None => std::future::pending().await,
        }
    }

    /// The word, if it was told.
    pub(super) fn now(&self) -> Option<Word<P>> {
        self.0.borrow().clone()
    }
}

// Clones share the way; a way itself need not be cloned.
impl<P> Clone for Word<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Dead(how) => Self::Dead(Arc::clone(how)),
            Self::Anew(way) => Self::Anew(Arc::clone(way)),
        }
    }
}

impl<P> Clone for FateWatch<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
