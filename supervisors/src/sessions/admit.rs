//! Admission: which submissions are admitted, queued or refused, and cancellation.
//!
//! A submission is admitted when its session has a slot or gets one and no other submission is queued before it; then
//! it is sent to the session's actor, which accepts it by journaling it. A queued submission is not accepted yet:
//! nothing of it is kept, and its clock does not run. Queueing has no time limit; it ends when the turns before it
//! have ended, and at once when the submission is cancelled or the program ends.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::session_table::{PendingReply, SessionEntry};
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, TenantId, TurnId};
use bob_messages::outcome::{EndReason, TurnOutcome, never_ran};
use bob_messages::reply::{Pulse, Reply};
use bob_messages::turn::TurnMessage;
use bob_messages::turn_config::TurnConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl SessionsState {
    pub(super) fn submit(
        &mut self,
        session: &SessionId,
        pending: PendingReply,
        turn_config: &Arc<TurnConfig>,
        myself: &Myself,
    ) {
        self.metrics().submitted();
        let (pending_replies, queued_count, has_slot) = match self.table.get_mut(session) {
            Some(entry) => {
                // A submission may come twice: from the caller that finishes what was left, and from one that decides
                // about it.
                if let Some(same) = entry.pending.iter_mut().find(|known| known.submission == pending.submission) {
                    if let Err(reply) = same.share_with(pending.reply) {
                        self.metrics().refused();
                        return reply.send(Err(AgentError::busy("too many callers wait for this submission already")));
                    }
                    return self.metrics().repeated();
                }
                (entry.pending.len(), entry.queued_count(), entry.has_slot)
            }
            None => (0, 0, false),
        };
        if self.draining.is_some() {
            let why = refusal_at_the_end(&pending);
            return self.refuse(pending, why);
        }
        if pending_replies > turn_config.max_waiting {
            let waiting = pending_replies - 1;
            let error = format!("the session has {waiting} inputs waiting; try again when it has answered");
            return self.refuse(pending, AgentError::busy(error));
        }
        // A child runs in the place of the turn that waits for it: with a slot of its own it could wait for its parent's.
        let in_place = self.has_its_parents_place(&pending);
        // Submissions of one session are admitted in the order in which they came.
        let tenant = pending.tenant.clone();
        let tenant = tenant.as_ref();
        let is_admitted = queued_count == 0 && (in_place || self.admission.is_open(tenant, has_slot));
        if !is_admitted && self.admission.is_full(tenant) {
            return self.refuse(pending, self.overloaded(tenant));
        }
        let above = self.note_child(session, &pending);
        let entry = self.table.entry(session, turn_config);
        entry.turn_config = Arc::clone(turn_config);
        if let Some(above) = above.filter(|_| entry.actor.is_none()) {
            entry.pulse = Pulse::below(&above);
        }
        // Most sessions have one at a time; the usual growth would make room for four.
        entry.pending.reserve_exact(1);
        entry.pending.push_back(pending);
        self.admission.enqueued(tenant);
        if is_admitted {
            if !has_slot && !in_place {
                entry.slot_of = tenant.cloned();
                self.admission.slot_taken(tenant);
            }
            self.admitted(session, has_slot || !in_place, myself);
        } else if queued_count == 0 && !has_slot {
            self.admission.queue(tenant, session.clone());
        }
    }

    fn refuse(&self, pending: PendingReply, why: AgentError) {
        self.metrics().refused();
        pending.reply.send(Err(why));
    }

    /// The actor has not taken a submission.
    pub(super) fn turn_refused(
        &mut self,
        session: &SessionId,
        submission: &TurnId,
        error: AgentError,
        myself: &Myself,
    ) {
        self.close_later(session, submission);
        let Some(entry) = self.table.get_mut(session) else { return };
        let is_left = entry.stopping.as_ref().is_some_and(|stopping| stopping.reason == EndReason::HandedOver);
        let is_repeated = |pending: &PendingReply| pending.submission == *submission && pending.is_repeated;
        let error = match error {
            // The actor has not read the journal, which may have the submission from before.
            AgentError::Overloaded { .. } if is_left && entry.pending.iter().any(is_repeated) => handed_over(),
            error => error,
        };
        self.settle(session, submission, Err(error), myself);
    }

    /// Admits the first queued submission of a session that has a slot, or the place of its parent.
    fn admitted(&mut self, session: &SessionId, has_slot: bool, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let was_busy = entry.running().is_some();
        entry.has_slot = has_slot;
        let Some(pending) = entry.pending.iter_mut().find(|pending| !pending.admitted) else { return };
        pending.admitted = true;
        self.admission.dequeued(pending.tenant.as_ref());
        self.started.rooms.metrics.admitted(pending.submitted_at.elapsed());
        let request = pending.request.clone();
        if !was_busy {
            entry.since = Instant::now();
        }
        // A request that comes while the actor is being stopped is sent to the next one.
        let is_stopping = entry.stopping.is_some();
        let has_actor = entry.actor.is_some();
        if !is_stopping {
            if !has_actor {
                self.open(session, myself);
            }
            self.send(session, request);
        }
        self.arm_first(session, myself);
    }

    /// Frees the session's slot when no turn of it runs, and admits the submissions that waited longest. Those of
    /// this session wait behind them.
    pub(super) fn free_slot(&mut self, session: &SessionId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        if entry.running().is_some() {
            return;
        }
        if entry.actor.is_none() {
            self.started.rooms.tools.release(session);
        }
        if !entry.has_slot {
            return;
        }
        entry.has_slot = false;
        self.admission.slot_freed(entry.slot_of.take().as_ref());
        if entry.queued_count() > 0 {
            self.admission.queue(entry.queued_for(), session.clone());
        }
        while let Some((next, tenant)) = self.admission.admit_next() {
            if let Some(entry) = self.table.get_mut(&next) {
                entry.slot_of = tenant;
            }
            self.admitted(&next, true, myself);
        }
    }

    /// Cancels the first input of this tenant that waits.
    pub(super) fn cancel_of(&mut self, session: &SessionId, tenant: &TenantId, myself: &Myself) -> bool {
        let pending = self.table.get_mut(session).into_iter().flat_map(|entry| &entry.pending);
        let own = pending.into_iter().find(|pending| pending.tenant.as_ref() == Some(tenant));
        let Some(submission) = own.map(|pending| pending.submission.clone()) else { return false };
        self.cancel(session, Some(&submission), myself)
    }

    pub(super) fn cancel(&mut self, session: &SessionId, turn: Option<&TurnId>, myself: &Myself) -> bool {
        let Some(entry) = self.table.get_mut(session) else { return false };
        // Another process goes on with what there is.
        if entry.stopping.as_ref().is_some_and(|stopping| stopping.reason == EndReason::HandedOver) {
            return false;
        }
        let at = match turn {
            None if entry.recovered.is_some() => None,
            None => (!entry.pending.is_empty()).then_some(0),
            // The turn runs already, even if other callers wait for it.
            Some(turn) if entry.recovered.as_ref().is_some_and(|recovered| recovered.submission == *turn) => None,
            Some(turn) => entry.pending.iter().position(|pending| pending.submission == *turn),
        };
        let Some(at) = at else {
            // Perhaps the turn that an earlier process left is meant: it runs before the inputs that wait.
            let is_meant = |running: &TurnId| turn.is_none_or(|turn| turn == running);
            let runs = entry.recovered.as_ref().is_some_and(|recovered| is_meant(&recovered.submission));
            if runs {
                self.stop(session, EndReason::Cancelled, myself);
            }
            return runs;
        };
        entry.pending[at].cancel_asked.get_or_insert_with(Instant::now);
        match &entry.stopping {
            _ if !entry.pending[at].admitted => self.answer_cancelled(session, at, myself),
            None if at == 0 && entry.recovered.is_none() => self.stop(session, EndReason::Cancelled, myself),
            // Its turn is already being stopped.
            Some(stopping) if stopping.submission.as_ref() == Some(&entry.pending[at].submission) => {}
            None | Some(_) => self.withdraw(session, at),
        }
        true
    }

    /// Withdraws a submission that waits behind the running turn. An actor that is being stopped is not told; the
    /// next one is.
    fn withdraw(&mut self, session: &SessionId, waiting: usize) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let Some(pending) = entry.pending.get_mut(waiting) else { return };
        pending.cancelled = true;
        let submission = pending.submission.clone();
        if entry.stopping.is_none() {
            self.send(session, TurnMessage::Withdrawn { submission });
        }
    }

    /// Answers a queued submission; no actor knows of it.
    fn answer_cancelled(&mut self, session: &SessionId, at: usize, myself: &Myself) {
        let Some(pending) = self.table.get_mut(session).and_then(|entry| entry.pending.remove(at)) else { return };
        self.left_queue(session, pending.tenant.as_ref());
        let outcome = Box::new(unheard(session, &pending.submission, EndReason::Cancelled, Some(&pending)));
        if pending.may_be_journaled() {
            self.end_unsaved(session, pending.submission.clone(), EndReason::Cancelled);
        }
        self.answer(session, pending, Ok(outcome), myself);
        // The session may be idle now.
        self.check_idle(session, myself);
        self.remove_if_gone(session);
    }

    /// Accounts for a queued submission that was taken out of the table.
    pub(super) fn left_queue(&mut self, session: &SessionId, tenant: Option<&TenantId>) {
        self.admission.dequeued(tenant);
        if self.table.get_mut(session).is_some_and(|entry| entry.queued_count() == 0) {
            self.admission.leave_queue(session);
        }
    }

    /// Refuses new and queued submissions; those that were admitted have a grace period.
    pub(super) fn drain(&mut self, grace_ms: u64, reply: Reply<()>, myself: &Myself) {
        self.draining.get_or_insert_default().push(reply);
        self.deadlines.insert(Instant::now() + Duration::from_millis(grace_ms), Due::Drain, myself);
        let live: Vec<_> = self.table.iter().map(|(session, _)| session.clone()).collect();
        for session in live {
            self.send(&session, self.end_of_the_runtime());
        }
        let queued_count =
            |(session, entry): (&SessionId, &SessionEntry)| (entry.queued_count() > 0).then(|| session.clone());
        let waiting: Vec<_> = self.table.iter().filter_map(queued_count).collect();
        for session in waiting {
            while let Some(pending) =
                self.table.get_mut(&session).and_then(|entry| entry.pending.pop_back_if(|pending| !pending.admitted))
            {
                self.admission.dequeued(pending.tenant.as_ref());
                let why = refusal_at_the_end(&pending);
                self.refuse(pending, why);
            }
            self.admission.leave_queue(&session);
            self.remove_if_gone(&session);
        }
        self.check_drained();
    }

    /// What the actors of sessions are told when the runtime ends.
    pub(super) fn end_of_the_runtime(&self) -> TurnMessage {
        if self.hands_over { TurnMessage::HandOver } else { TurnMessage::Draining }
    }

    pub(super) fn stop_all(&mut self, myself: &Myself) {
        self.grace_over = true;
        let busy: Vec<_> =
            self.table.iter().filter(|(_, entry)| entry.running().is_some()).map(|(id, _)| id.clone()).collect();
        self.table.close_none();
        for session in busy {
            let reason = self.reason_behind_the_grace(&session);
            self.stop(&session, reason, myself);
            if reason == EndReason::HandedOver {
                continue;
            }
            let (behind, pending_replies) = self
                .table
                .get_mut(&session)
                .map_or((0, 0), |entry| (usize::from(entry.recovered.is_none()), entry.pending.len()));
            for waiting in behind..pending_replies {
                self.withdraw(&session, waiting);
            }
        }
        self.check_drained();
    }

    /// Why a turn is stopped that runs behind the grace period.
    pub(super) fn reason_behind_the_grace(&mut self, session: &SessionId) -> EndReason {
        let is_left = self.hands_over || self.continues_elsewhere(session);
        if is_left { EndReason::HandedOver } else { EndReason::Shutdown }
    }

    pub(super) fn check_drained(&mut self) {
        // Called at the end of every turn: the table is searched only when a caller waits for it.
        if self.draining.is_some() && !self.table.has_work() {
            for reply in self.draining.iter_mut().flat_map(|waiting| waiting.drain(..)) {
                reply.send(());
            }
        }
    }

    fn overloaded(&self, tenant: Option<&TenantId>) -> AgentError {
        let (running, waiting) = match tenant {
            // What others have is not told.
            Some(_) => self.admission.of(tenant),
            None => (self.admission.running(), self.admission.waiting()),
        };
        let text = match tenant {
            Some(tenant) if self.admission.is_at_limit(Some(tenant)) => format!(
                "the tenant {tenant} has reached its limits, with {running} running turns and {waiting} waiting inputs; this input \
                 was not stored: send it again later"
            ),
            Some(tenant) => format!(
                "the limit of running turns is reached, and the tenant {tenant} has {waiting} inputs waiting, which is its limit; \
                 this input was not stored: send it again later"
            ),
            None => format!(
                "the limits are reached, with {running} running turns and {waiting} waiting inputs; this input was not stored: \
                 send it again later, or raise runtime.max_concurrent_turns"
            ),
        };
        AgentError::overloaded_for(text, self.metrics().last_turn_ms())
    }
}

pub(super) fn closing() -> AgentError {
    AgentError::overloaded("the runtime is shutting down and accepts no new turns; this input was not stored")
}

/// Why a submission is not taken while the runtime ends. One that the journal may have, and one of a call that the next
/// process makes again, have not failed.
fn refusal_at_the_end(pending: &PendingReply) -> AgentError {
    if pending.is_repeated || pending.outlives() { handed_over() } else { closing() }
}

pub(super) fn handed_over() -> AgentError {
    AgentError::Stopped(
        "the runtime was shut down; the turn is left to the next process that owns its session".to_owned(),
    )
}

pub(super) fn unheard(
    session: &SessionId,
    submission: &TurnId,
    reason: EndReason,
    pending: Option<&PendingReply>,
) -> TurnOutcome {
    let limits = match pending.map(|pending| &pending.request) {
        Some(TurnMessage::Start { input, .. }) => Some(&input.limits),
        _ => None,
    };
    let text = match pending.is_some_and(PendingReply::may_be_journaled) {
        true => "Stopped before the turn began; if the session has the input from before, it is closed there.",
        false => "Stopped before the turn began; the input was not kept.",
    };
    never_ran(session.clone(), submission.clone(), reason, limits, text)
}
