//! What the actor of a tool server, its keeper and its calls share.
//!
//! The keeper lays what the server offers on the [`Desk`] and tells the actor so; the
//! actor or the server itself asks through it for another look at the list. A
//! connection's [`Fate`] reaches every call in flight at once; what a call finds out
//! about its connection goes the other way, as [`Signs`].

use super::port::ServerPort;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};

/// Shared by one actor and its keeper.
#[derive(Default)]
pub(super) struct Desk {
    offer: Mutex<Option<Offer>>,
    /// Somebody wants the list read again.
    pub(super) look_again: Arc<Notify>,
}

/// What a server offers now.
pub(super) struct Offer {
    /// The way to its tools.
    pub(super) port: Arc<ServerPort>,
    /// Name and version, as it tells them.
    pub(super) server: Option<String>,
}

impl Desk {
    /// Lays down an offer; an older one that nobody took is gone.
    pub(super) fn lay(&self, offer: Offer) {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = Some(offer);
    }

    /// Takes the newest offer, once.
    pub(super) fn take(&self) -> Option<Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What is seen of one connection by those who use it.
#[derive(Clone, Default)]
pub(super) struct Signs {
    /// The server may be gone.
    pub(super) suspect: Arc<Notify>,
    /// The server is there and no longer knows the session.
    pub(super) lost: Arc<Notify>,
}

/// How a connection ended, for those who use it.
#[derive(Clone)]
pub(super) enum Word {
    /// The server is gone: this is how, after its name.
    Dead(Arc<str>),
    /// Its session was lost; this is the way over the next one.
    Anew(Arc<ServerPort>),
}

/// Tells the calls of one connection how it ended. Dropping it untold means that the
/// actor has ended, and with it its calls.
pub(super) struct Fate(watch::Sender<Option<Word>>);

/// Hears of it.
#[derive(Clone)]
pub(super) struct FateWatch(watch::Receiver<Option<Word>>);

impl Fate {
    pub(super) fn new() -> (Self, FateWatch) {
        let (tell, told) = watch::channel(None);
        (Self(tell), FateWatch(told))
    }

    /// Says how the connection ended. The first word stands.
    pub(super) fn tell(&self, word: Word) {
        self.0.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(word);
            first
        });
    }
}

impl FateWatch {
    /// Waits for the word. Cancel-safe.
    pub(super) async fn told(&self) -> Word {
        let mut watched = self.0.clone();
        let told = watched.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(word) => word,
            None => std::future::pending().await,
        }
    }

    /// The word, if it was told.
    pub(super) fn now(&self) -> Option<Word> {
        self.0.borrow().clone()
    }
}
