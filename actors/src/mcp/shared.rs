//! State shared by the actor of a tool server and its keeper.
//!
//! The keeper puts the server's tools into [`Shared`] and notifies the actor; the actor or the server requests a
//! refresh of the list through it.

use super::port::ServerPort;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Shared by one actor and its keeper.
#[derive(Default)]
pub(super) struct Shared {
    offer: Mutex<Option<Offer>>,
    /// Requests a refresh of the list.
    pub(super) look_again: Arc<Notify>,
}

/// The current tools of a server.
pub(super) struct Offer {
    /// The way to its tools.
    pub(super) port: Arc<ServerPort>,
    /// Name and version, as reported by the server.
    pub(super) server: Option<String>,
    /// The version of the protocol that it speaks.
    pub(super) protocol: Option<String>,
}

impl Shared {
    /// Replaces the offer.
    pub(super) fn lay(&self, offer: Offer) {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = Some(offer);
    }

    /// Takes the newest offer, once.
    pub(super) fn take(&self) -> Option<Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
