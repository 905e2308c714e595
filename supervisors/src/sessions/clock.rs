//! The time limit of each turn: when its clock runs, pauses, and comes due.
//!
//! The machine counts the same time (`messages/src/turn/time.rs`): from the beginning of the run, without the time
//! between `Paused` and `Unpaused`. An actor that is started again receives how long its turn has run.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::session_table::{ApprovalTask, Clock, OpenQuestion, RecoveredTurn, SessionEntry};
use bob_messages::approvals::{Decision, LimitQuestion};
use bob_messages::chat::GuardReason;
use bob_messages::ids::{ApprovalId, SessionId, TenantId, TurnId};
use bob_messages::limits::Limits;
use bob_messages::outcome::EndReason;
use bob_messages::turn::TurnMessage;
use std::time::Duration;
use tokio::time::Instant;

impl SessionsState {
    /// Arms the running turn's deadline. A turn that was cancelled while it waited has one too: its actor ends it.
    pub(super) fn arm_first(&mut self, session: &SessionId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let Some(turn) = entry.running().cloned() else { return };
        let is_cancelled = entry.recovered.is_none() && entry.pending.front().is_some_and(|first| first.cancelled);
        let signs = entry.pulse.signs();
        let Some(clock) = entry.clock_mut().filter(|clock| clock.left_ms.is_none()) else { return };
        if self.grace_over && !is_cancelled {
            let reason = self.reason_behind_the_grace(session);
            return self.stop(session, reason, myself);
        }
        if clock.deadline.is_none() {
            let now = Instant::now();
            clock.began.get_or_insert(now);
            let at = clock.run(now, signs);
            clock.deadline = Some(self.deadlines.insert(at, Due::Turn(session.clone(), turn), myself));
        }
    }

    /// Handles the beginning of a turn that had to wait. It need not be that of the first pending reply, whose clock
    /// is then reset. A turn that was admitted here becomes the first; one that an earlier process left runs by its
    /// own clock, before all pending replies.
    pub(super) fn began(
        &mut self,
        session: &SessionId,
        (submission, turn, tenant): (TurnId, TurnId, Option<TenantId>),
        (limits, asks): (&Limits, bool),
        myself: &Myself,
    ) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let admitted = entry.pending.iter().position(|pending| pending.admitted && pending.submission == submission);
        if let Some(pending) = admitted.and_then(|at| entry.pending.get_mut(at)) {
            pending.turn = turn.clone();
        }
        if admitted == Some(0) {
            if let Some(first) = entry.pending.front_mut() {
                first.clock.asks = asks;
            }
            return;
        }
        for key in entry.pending.front_mut().into_iter().flat_map(|first| first.clock.reset()) {
            self.deadlines.remove(key);
        }
        entry.since = Instant::now();
        if !entry.has_slot {
            entry.has_slot = true;
            entry.slot_of = admitted.and_then(|at| entry.pending[at].tenant.clone()).or(tenant);
            self.admission.slot_taken(entry.slot_of.as_ref());
            // Its queued submissions wait for its next slot.
            self.admission.leave_queue(session);
        }
        self.drop_recovered(session);
        let Some(entry) = self.table.get_mut(session) else { return };
        match admitted.and_then(|at| entry.pending.remove(at)) {
            Some(pending) => entry.pending.push_front(pending),
            None => {
                let clock = Clock::new(limits, asks);
                entry.recovered = Some(Box::new(RecoveredTurn { submission, turn, clock }));
            }
        }
        self.arm_first(session, myself);
    }

    /// Forgets the turn that an earlier process left: it has ended, or its actor has.
    pub(super) fn drop_recovered(&mut self, session: &SessionId) {
        let recovered = self.table.get_mut(session).and_then(|entry| entry.recovered.take());
        for key in recovered.into_iter().flat_map(|mut recovered| recovered.clock.reset()) {
            self.deadlines.remove(key);
        }
    }

    /// Pauses the clock while a person is asked.
    pub(super) fn pause(
        &mut self,
        session: &SessionId,
        turn: &TurnId,
        approval: ApprovalId,
        asking: Option<ApprovalTask>,
        myself: &Myself,
    ) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let signs = entry.pulse.signs();
        let Some(clock) = entry.clock_of(turn) else { return };
        if let Some(key) = clock.pause(Instant::now(), signs) {
            self.deadlines.remove(key);
        }
        let at = Instant::now() + Duration::from_millis(clock.approval_timeout_ms);
        let key = self.deadlines.insert(at, Due::Approval(session.clone(), approval.clone()), myself);
        clock.approvals.push(OpenQuestion { approval, key, quiet_at: None, _task: asking });
        self.pause_above(session);
    }

    /// Asks a person whether a turn goes on beyond a limit; its clock pauses meanwhile.
    pub(super) fn at_limit(&mut self, session: &SessionId, turn: &TurnId, question: LimitQuestion, myself: &Myself) {
        let (approval, is_quiet) = (question.approval_id.clone(), question.guard == GuardReason::NoProgress);
        let asking = super::decisions::ask_beyond(&self.started.rooms, question);
        self.pause(session, turn, approval.clone(), asking, myself);
        let Some(entry) = self.table.get_mut(session).filter(|_| is_quiet) else { return };
        let signs = entry.pulse.signs();
        let open = entry.clock_of(turn).and_then(|clock| clock.approvals.last_mut());
        if let Some(open) = open.filter(|open| open.approval == approval) {
            open.quiet_at = Some(signs);
        }
    }

    /// A person ended a turn in which something is in flight.
    pub(super) fn given_up(&mut self, session: &SessionId, turn: &TurnId, reason: EndReason, myself: &Myself) {
        if self.table.get_mut(session).is_some_and(|entry| entry.running() == Some(turn)) {
            self.stop(session, reason, myself);
        }
    }

    /// Whether a turn without progress has made some since a person was asked about it.
    fn has_progressed(&mut self, session: &SessionId, approval: &ApprovalId) -> bool {
        let Some(entry) = self.table.get_mut(session) else { return false };
        let signs = entry.pulse.signs();
        let open = entry.clock_mut().and_then(|clock| clock.approvals.iter().find(|open| open.approval == *approval));
        open.and_then(|open| open.quiet_at).is_some_and(|before| before != signs)
    }

    /// Removes the deadline of an answered question and withdraws it from the approval port.
    pub(super) fn close_question(&mut self, session: &SessionId, approval: &ApprovalId) {
        let Some(clock) = self.table.get_mut(session).and_then(SessionEntry::clock_mut) else { return };
        for question in clock.approvals.extract_if(.., |question| question.approval == *approval) {
            self.deadlines.remove(question.key);
        }
    }

    pub(super) fn unpause(&mut self, session: &SessionId, turn: &TurnId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let (signs, waits_below) = (entry.pulse.signs(), entry.asking_below > 0);
        let Some(clock) = entry.clock_of(turn) else { return };
        for question in clock.approvals.drain(..) {
            self.deadlines.remove(question.key);
        }
        if clock.left_ms.is_some() && !waits_below {
            let at = clock.run(Instant::now(), signs);
            clock.deadline = Some(self.deadlines.insert(at, Due::Turn(session.clone(), turn.clone()), myself));
        }
        let above = self.above(session);
        self.go_on_above(session, above, myself);
    }

    /// Looks at a running turn: it ends, or is looked at again.
    fn turn_due(&mut self, session: SessionId, turn: TurnId, now: Instant, myself: &Myself) {
        let Some(entry) = self.table.get_mut(&session) else { return };
        let signs = entry.pulse.signs();
        let Some(clock) = entry.clock_of(&turn) else { return };
        match clock.look(now, signs) {
            Ok(None) => {}
            Ok(Some(at)) => clock.deadline = Some(self.deadlines.insert(at, Due::Turn(session, turn), myself)),
            Err(EndReason::NoProgress) if let Some(at) = clock.warn_once(now) => {
                clock.deadline = Some(self.deadlines.insert(at, Due::Turn(session.clone(), turn), myself));
                self.send(&session, TurnMessage::Quiet);
            }
            Err(reason) => self.stop(&session, reason, myself),
        }
    }

    pub(super) fn due(&mut self, myself: &Myself) {
        let (mut let_go, now) = (0, Instant::now());
        for due in self.deadlines.take_due(now, myself) {
            match due {
                Due::Turn(session, turn) => self.turn_due(session, turn, now, myself),
                Due::Kill(session, actor) => {
                    let entry = self.table.get_mut(&session);
                    let same = entry.and_then(|entry| entry.actor.as_ref()).filter(|current| current.get_id() == actor);
                    if let Some(stuck) = same {
                        tracing::warn!(%session, "the session's actor did not stop within its grace and is killed");
                        stuck.kill();
                    }
                }
                Due::Approval(session, approval) => {
                    let decision = match self.has_progressed(&session, &approval) {
                        true => Decision::AllowOnce,
                        false => Decision::Deny { reason: "the approval timed out".into() },
                    };
                    self.send(&session, TurnMessage::Decided { approval, decision: Box::new(decision), asker: None });
                }
                Due::Idle(session) => let_go += usize::from(self.idle_due(&session, let_go, myself)),
                Due::Drain => self.stop_all(myself),
            }
        }
    }
}
