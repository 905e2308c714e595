//! What the actor of a tool server and its keeper share.
//!
//! The keeper lays what the server offers on the [`Desk`] and tells the actor so; the
//! actor, a call or the server itself asks through it for another look at the list.
//! A connection's [`Death`] reaches every call in flight at once.

use super::port::ServerPort;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};

/// Shared by one actor and its keeper.
#[derive(Default)]
pub(super) struct Desk {
    offer: Mutex<Option<Offer>>,
    /// Somebody wants the list read again.
    pub(super) look_again: Arc<Notify>,
    /// A call found that nothing can be sent any more.
    pub(super) broken: Arc<Notify>,
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

/// Tells the calls of one connection that it is dead. Dropping it untold means that
/// the actor has ended, and with it its calls.
pub(super) struct Death(watch::Sender<Option<Arc<str>>>);

/// Hears of it.
#[derive(Clone)]
pub(super) struct DeathWatch(watch::Receiver<Option<Arc<str>>>);

impl Death {
    pub(super) fn new() -> (Self, DeathWatch) {
        let (tell, told) = watch::channel(None);
        (Self(tell), DeathWatch(told))
    }

    /// Says how the server ended. The first word stands.
    pub(super) fn tell(&self, why: &str) {
        self.0.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert_with(|| why.into());
            first
        });
    }
}

impl DeathWatch {
    /// Waits for the death to be told. Cancel-safe.
    pub(super) async fn told(&self) -> Arc<str> {
        let mut watched = self.0.clone();
        let told = watched.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// How it died, if that was told.
    pub(super) fn now(&self) -> Option<Arc<str>> {
        self.0.borrow().clone()
    }
}
