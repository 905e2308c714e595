//! The claim of a turn's actor: the session under an epoch of the store, released when the
//! actor has ended, however it ends.
//!
//! A claim is noted where its answer arrives, before the actor hears of it, so that none is
//! lost on the way. Giving back twice, or an epoch that is over, changes nothing.

use crate::address::{Address, Again};
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::StoreMessage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a release is sent again, and how long it waits for the store each time: longer than a question, since
/// no caller waits for it, and no other process gets the session before it.
const RELEASES: Again = Again { times: 8, within: Duration::from_secs(60) };

/// Where claims of one actor are noted. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Lease(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Address<StoreMessage>,
    session: SessionId,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    epoch: Option<u64>,
    /// The actor has ended: what is claimed now is given back at once.
    is_over: bool,
}

impl Lease {
    pub(super) fn new(store: Address<StoreMessage>, session: SessionId) -> Self {
        Self(Arc::new(Shared { store, session, held: Mutex::default() }))
    }

    /// The session was claimed for the actor.
    pub(super) fn claimed(&self, epoch: u64) {
        let is_over = {
            let mut held = self.held();
            held.epoch = Some(epoch).filter(|_| !held.is_over);
            held.is_over
        };
        if is_over {
            self.give_back(epoch);
        }
    }

    /// The actor gives the session back.
    pub(super) fn release(&self, epoch: u64) {
        self.held().epoch.take_if(|held| *held <= epoch);
        self.give_back(epoch);
    }

    pub(super) fn end(&self) {
        let left = {
            let mut held = self.held();
            held.is_over = true;
            held.epoch.take()
        };
        if let Some(epoch) = left {
            self.give_back(epoch);
        }
    }

    fn give_back(&self, epoch: u64) {
        release(&self.0.store, self.0.session.clone(), epoch);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Two plain values are not left half changed by a panic.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the lease when the actor's state is dropped, also after a kill. Not a tenant as in `TenantId`.
#[derive(Debug)]
pub(super) struct Tenant(pub(super) Lease);

impl Drop for Tenant {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Gives the session back, again when the store ended before it was done.
fn release(store: &Address<StoreMessage>, session: SessionId, epoch: u64) {
    store.ask(RELEASES, Reply::to(drop), move |reply, asked| {
        let name = session.clone();
        let reply = match asked < RELEASES.times {
            true => reply,
            false => Reply::to(move |done: Option<()>| {
                if done.is_none() {
                    tracing::warn!(session = %name, "the session was not given back; other processes find it in use");
                }
            }),
        };
        StoreMessage::Release { session, epoch, reply }
    });
}
