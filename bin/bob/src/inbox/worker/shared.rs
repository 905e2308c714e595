//! What the work on all sessions has in common.

use crate::Runtime;
use bob_actors::store::{Inbox, SessionStore};
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::outcome::TurnOutcome;
use bob_messages::store::Pools;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// What became of a message, or of a turn that another process left open.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Worked {
    /// The session.
    pub session: SessionId,
    /// The name of the message, or of the input of a turn that was left open; `None` for one without a name.
    pub request: Option<RequestId>,
    /// The outcome, which is in the journal; or why the message was refused, which its sender is told.
    pub result: Result<Box<TurnOutcome>, AgentError>,
}

impl Worked {
    /// What became of the message or the input of this name.
    pub fn new(session: SessionId, request: Option<RequestId>, result: Result<Box<TurnOutcome>, AgentError>) -> Self {
        Self { session, request, result }
    }
}

pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) inbox: Arc<dyn Inbox>,
    /// The pools of machines in which this process is.
    pub(super) pools: Pools,
    pub(super) told: Box<dyn Fn(&Worked) + Send + Sync>,
    /// Nothing is begun any more.
    pub(super) until: CancellationToken,
    /// Whether all places are taken, so that sessions may wait for one.
    pub(super) full: AtomicBool,
}

impl Shared {
    pub(super) fn new(runtime: Runtime, store: Arc<dyn SessionStore>, inbox: Arc<dyn Inbox>) -> Self {
        let (until, full) = (CancellationToken::new(), AtomicBool::new(false));
        let pools = store.pools();
        Self { runtime, store, inbox, pools, told: Box::new(|_worked| ()), until, full }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }
}
