//! Which sessions this process holds, and for how long: asked before a side effect starts.

use crate::store::{NodeFigures, StoreLease};
use bob_messages::ids::SessionId;
use bob_messages::share::Share;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Shared {
    /// 0 while there is none.
    number: AtomicI32,
    lease: Mutex<Lease>,
    figures: Figures,
}

type Figures = Mutex<Option<Counted>>;

struct Counted(Arc<dyn Fn() -> NodeFigures + Send + Sync>);

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Lease {
    /// Its end, from when the last renewal was sent.
    until: Option<Instant>,
    /// The sessions that were claimed here: the number of the row that owns each, and the epoch.
    claimed: HashMap<SessionId, (i32, u64)>,
    /// Which of the living processes this one is, as of the last renewal.
    share: Share,
}

impl Shared {
    pub(super) fn number(&self) -> Option<i32> {
        Some(self.number.load(Ordering::Acquire)).filter(|number| *number != 0)
    }

    /// Our row has this number from now on.
    pub(super) fn enter(&self, number: i32) {
        self.number.store(number, Ordering::Release);
    }

    pub(super) fn tell_figures(&self, figures: Arc<dyn Fn() -> NodeFigures + Send + Sync>) {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = Some(Counted(figures));
    }

    pub(super) fn figures(&self) -> Option<String> {
        let told = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted(figures) = told.as_ref()?;
        let figures = Arc::clone(figures);
        drop(told);
        serde_json::to_string(&figures()).ok()
    }

    pub(super) fn share(&self) -> Share {
        self.held().share
    }

    pub(super) fn shares(&self, share: Share) {
        self.held().share = share;
    }

    pub(super) fn is_renewed(&self, now: Instant) -> bool {
        StoreLease::Until(self.held().until).is_held(now)
    }

    /// How long a session of this process is its own. One that was claimed under a row that is dead is not, unless the row
    /// of now has taken it along.
    pub(super) fn lease(&self, session: &SessionId) -> StoreLease {
        let (ours, lease) = (self.number(), self.held());
        let is_ours = lease.claimed.get(session).is_some_and(|(number, _)| Some(*number) == ours);
        StoreLease::Until(lease.until.filter(|_| is_ours))
    }

    pub(super) fn claimed(&self, session: &SessionId, number: i32, epoch: u64) {
        self.held().claimed.insert(session.clone(), (number, epoch));
    }

    /// A session is not this process's any more, as far as this epoch goes.
    pub(super) fn released(&self, session: &SessionId, epoch: u64) {
        let mut lease = self.held();
        if lease.claimed.get(session).is_some_and(|(_, claimed)| *claimed <= epoch) {
            lease.claimed.remove(session);
        }
    }

    /// The row of now has taken along a session of an earlier one.
    pub(super) fn taken_along(&self, session: &SessionId, number: i32, epoch: u64) {
        if let Some((owner, claimed)) = self.held().claimed.get_mut(session)
            && *claimed == epoch
        {
            *owner = number;
        }
    }

    pub(super) fn hold(&self, until: Instant) {
        self.held().until = Some(until);
    }

    /// The lease ends at this moment, if it was to last longer.
    pub(super) fn hold_no_longer_than(&self, until: Instant) {
        let mut lease = self.held();
        lease.until = lease.until.map(|held| held.min(until));
    }

    fn held(&self) -> MutexGuard<'_, Lease> {
        // Plain values are not left half changed by a panic.
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
