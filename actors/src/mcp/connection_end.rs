//! Broadcasts how a connection to a tool server ended to all calls in flight; and signals of calls about their
//! connection, in the other direction.
//!
//! `P` is the port to the server's tools over one connection.

use std::sync::Arc;
use tokio::sync::{Notify, watch};

#[derive(Clone, Default)]
pub(super) struct HealthSignals {
    /// The server may be gone.
    pub(super) suspect: Arc<Notify>,
    /// The server responds but no longer knows the session.
    pub(super) lost: Arc<Notify>,
}

/// How a connection ended, for the calls over it.
pub(super) enum ConnectionEnd<P> {
    /// The server ended; the text follows its name.
    Died(Arc<str>),
    /// Its session was lost; this is the way over the next one.
    Reconnected(Arc<P>),
}

/// Sends the end of one connection to its calls. If it is dropped unused, the actor has ended, and with it its calls.
pub(super) struct EndSender<P>(watch::Sender<Option<ConnectionEnd<P>>>);

pub(super) struct EndReceiver<P>(watch::Receiver<Option<ConnectionEnd<P>>>);

impl<P> EndSender<P> {
    pub(super) fn new() -> (Self, EndReceiver<P>) {
        let (tell, told) = watch::channel(None);
        (Self(tell), EndReceiver(told))
    }

    /// Sends the end. Only the first call has an effect.
    pub(super) fn tell(&self, end: ConnectionEnd<P>) {
        self.0.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(end);
            first
        });
    }
}

impl<P> EndReceiver<P> {
    /// Waits for the end. Cancel-safe.
    pub(super) async fn told(&self) -> ConnectionEnd<P> {
        let mut watched = self.0.clone();
        let told = watched.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }

    pub(super) fn now(&self) -> Option<ConnectionEnd<P>> {
        self.0.borrow().clone()
    }
}

// Clones share the way; a way itself need not be cloned.
impl<P> Clone for ConnectionEnd<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Died(how) => Self::Died(Arc::clone(how)),
            Self::Reconnected(way) => Self::Reconnected(Arc::clone(way)),
        }
    }
}

impl<P> Clone for EndReceiver<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
