//! What the actor of a tool server and its keeper share.
//!
//! The keeper puts what the server offers into [`Shared`] and tells the actor so; the
//! actor or the server itself asks through it for another look at the list.

use super::port::ServerPort;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Shared by one actor and its keeper.
#[derive(Default)]
pub(super) struct Shared {
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

impl Shared {
    /// Puts an offer in; an older one that nobody took is gone.
    pub(super) fn lay(&self, offer: Offer) {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = Some(offer);
    }

    /// Takes the newest offer, once.
    pub(super) fn take(&self) -> Option<Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
