//! State shared by the actor of a tool server and its keeper.
//!
//! The keeper puts the server's tools into [`Shared`] and notifies the actor; the actor or the server requests a
//! refresh of the list through it.

use super::port::ServerPort;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Shared {
    offer: Mutex<Option<Offer>>,
    pub(super) look_again: Arc<Notify>,
}

pub(super) struct Offer {
    pub(super) port: Arc<ServerPort>,
    pub(super) server: Option<String>,
    pub(super) protocol: Option<String>,
}

impl Shared {
    pub(super) fn lay(&self, offer: Offer) {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = Some(offer);
    }

    pub(super) fn take(&self) -> Option<Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
