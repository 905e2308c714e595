//! Admission: how many turns run at once, and which sessions wait for a slot.
//!
//! Counts slots and keeps the queues of sessions; it knows no replies, no actors and no clock. A free slot goes to the
//! tenant with the fewest slots among those that wait and have not reached their own limit, and of those with equally many
//! to the one that waits longest. Of one tenant the session that waits longest is next. A session is in a queue at most
//! once, and goes to its end after each turn, so one with many submissions delays the others by no more than a turn.
//! Sessions without a tenant count as those of one more tenant.

use crate::ids::{SessionId, TenantId};
use crate::tenants::TenantRules;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The default limit of queued submissions of all sessions together.
pub const MOST_WAITING: usize = 1_000;

/// The default limit of running turns.
pub const MOST_RUNNING: usize = 1_024;

/// Slots for running turns and the queues for them. Owned by the sessions supervisor.
#[derive(Debug)]
pub struct Admission {
    most_running: usize,
    most_waiting: usize,
    rules: Arc<TenantRules>,
    running: usize,
    waiting: usize,
    /// Those that have a slot, or something that waits.
    tenants: BTreeMap<Option<TenantId>, Share>,
    /// Counts what orders the tenants that wait.
    turns: u64,
}

/// What a tenant has of the slots and the queue.
#[derive(Debug, Default)]
struct Share {
    running: usize,
    /// Submissions that are queued.
    waiting: usize,
    /// Sessions without a slot that have something to do, the longest wait first.
    queue: VecDeque<SessionId>,
    /// When it began to wait, or had its last slot.
    since: u64,
}

impl Admission {
    /// At least one turn may run; otherwise no submission would ever be answered.
    pub fn new(most_running: usize, most_waiting: usize, rules: Arc<TenantRules>) -> Self {
        let most_running = most_running.max(1);
        Self { most_running, most_waiting, rules, running: 0, waiting: 0, tenants: BTreeMap::new(), turns: 0 }
    }

    /// Whether a session of a tenant is admitted without waiting. One with a slot needs no other, but does not overtake
    /// those that wait for one.
    pub fn is_open(&self, tenant: Option<&TenantId>, has_slot: bool) -> bool {
        let own = self.share(tenant);
        let is_first = own.is_none_or(|own| own.queue.is_empty()) && self.next_tenant().is_none();
        let has_room = self.running < self.most_running && self.is_below_limit(tenant, own);
        is_first && (has_slot || has_room)
    }

    /// Whether no further submission of a tenant may be queued: all places are taken, or, among tenants, it has as many as
    /// there are left. So one tenant never fills the queue of the others.
    pub fn is_full(&self, tenant: Option<&TenantId>) -> bool {
        let left = self.most_waiting.saturating_sub(self.waiting);
        let are_tenants = tenant.is_some() || self.tenants.keys().any(Option::is_some);
        let own = self.share(tenant).map_or(0, |own| own.waiting);
        left == 0 || are_tenants && own >= left
    }

    /// Counts a submission that is queued.
    pub fn enqueued(&mut self, tenant: Option<&TenantId>) {
        self.waiting += 1;
        self.share_mut(tenant).waiting += 1;
    }

    /// Counts a submission that was admitted or refused.
    pub fn dequeued(&mut self, tenant: Option<&TenantId>) {
        self.waiting = self.waiting.saturating_sub(1);
        let own = self.share_mut(tenant);
        own.waiting = own.waiting.saturating_sub(1);
        self.tidy(tenant);
    }

    /// Appends a session that is not in a queue.
    pub fn queue(&mut self, tenant: Option<&TenantId>, session: SessionId) {
        self.turns += 1;
        let turns = self.turns;
        let own = self.share_mut(tenant);
        if own.queue.is_empty() {
            own.since = turns;
        }
        own.queue.push_back(session);
    }

    /// Removes a session. The queues are short, and this is rare.
    pub fn leave_queue(&mut self, session: &SessionId) {
        for own in self.tenants.values_mut() {
            own.queue.retain(|waiting| waiting != session);
        }
        self.tenants.retain(|_, own| !own.is_empty());
    }

    /// Takes a slot for the session that is next, if there is one, and returns both it and the tenant whose slot it is.
    pub fn admit_next(&mut self) -> Option<(SessionId, Option<TenantId>)> {
        if self.running >= self.most_running {
            return None;
        }
        let tenant = self.next_tenant()?.clone();
        self.turns += 1;
        let turns = self.turns;
        let own = self.share_mut(tenant.as_ref());
        own.since = turns;
        let next = own.queue.pop_front()?;
        if own.queue.is_empty() {
            // Give memory back after a burst.
            own.queue.shrink_to_fit();
        }
        self.slot_taken(tenant.as_ref());
        Some((next, tenant))
    }

    /// Counts a slot that was taken. A turn of an earlier process that continues takes one even beyond the limits.
    pub fn slot_taken(&mut self, tenant: Option<&TenantId>) {
        self.running += 1;
        self.share_mut(tenant).running += 1;
    }

    /// Counts a slot that was freed.
    pub fn slot_freed(&mut self, tenant: Option<&TenantId>) {
        self.running = self.running.saturating_sub(1);
        let own = self.share_mut(tenant);
        own.running = own.running.saturating_sub(1);
        self.tidy(tenant);
    }

    /// How many turns run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// How many submissions are queued.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many turns of a tenant run, and how many of its submissions are queued.
    pub fn of(&self, tenant: Option<&TenantId>) -> (usize, usize) {
        self.share(tenant).map_or((0, 0), |own| (own.running, own.waiting))
    }

    /// Whether a tenant may not have another slot because of its own limit.
    pub fn is_at_limit(&self, tenant: Option<&TenantId>) -> bool {
        !self.is_below_limit(tenant, self.share(tenant))
    }

    /// The tenant that is to have the next slot.
    fn next_tenant(&self) -> Option<&Option<TenantId>> {
        let waits = self
            .tenants
            .iter()
            .filter(|(tenant, own)| !own.queue.is_empty() && self.is_below_limit(tenant.as_ref(), Some(own)));
        waits.min_by_key(|(_, own)| (own.running, own.since)).map(|(tenant, _)| tenant)
    }

    fn is_below_limit(&self, tenant: Option<&TenantId>, own: Option<&Share>) -> bool {
        match self.rules.of(tenant).max_concurrent_turns {
            0 => true,
            most => own.map_or(0, |own| own.running) < most,
        }
    }

    fn share(&self, tenant: Option<&TenantId>) -> Option<&Share> {
        self.tenants.get(&tenant.cloned())
    }

    fn share_mut(&mut self, tenant: Option<&TenantId>) -> &mut Share {
        self.tenants.entry(tenant.cloned()).or_default()
    }

    fn tidy(&mut self, tenant: Option<&TenantId>) {
        if self.share(tenant).is_some_and(Share::is_empty) {
            self.tenants.remove(&tenant.cloned());
        }
    }
}

impl Share {
    fn is_empty(&self) -> bool {
        self.running == 0 && self.waiting == 0 && self.queue.is_empty()
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
