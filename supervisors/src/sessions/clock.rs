//! Each turn's time: when its clock runs, stands still, and comes due.
//!
//! The machine counts the same time to know what is left of it (`messages/src/turn/time.rs`): from the beginning of the
//! run, without the time between `Paused` and `Unpaused`. An actor that is started again is told how long its turn has run.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::guests::{Ahead, Clock, Guest, OpenQuestion};
use bob_messages::approvals::{ApprovalQuestion, Decision};
use bob_messages::ids::{ApprovalId, SessionId, TurnId};
use bob_messages::limits::Limits;
use bob_messages::outcome::EndReason;
use bob_messages::turn::TurnMessage;
use std::time::Duration;
use tokio::time::Instant;

impl SessionsState {
    /// The clock of the turn that runs, runs. One that was cancelled while it waited has
    /// a clock, too: its actor was told, and ends it.
    pub(super) fn arm_first(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let Some(turn) = guest.running().cloned() else { return };
        let is_cancelled = guest.ahead.is_none() && guest.owed.front().is_some_and(|first| first.cancelled);
        let Some(clock) = guest.clock_mut().filter(|clock| clock.left_ms.is_none()) else { return };
        if self.grace_over && !is_cancelled {
            return self.stop(session, EndReason::Shutdown, myself);
        }
        if clock.deadline.is_none() {
            let now = Instant::now();
            clock.began.get_or_insert(now);
            let at = now + Duration::from_millis(clock.take_left_ms());
            clock.deadline = Some(self.deadlines.insert(at, Due::Turn(session.clone(), turn), myself));
        }
    }

    /// A turn begins that was not taken up just now, so it may be another than the first
    /// debt's, which then keeps its time. If it was let in here, it is first from now on. If
    /// not, an earlier process left it: it runs by its own clock, ahead of all debts.
    pub(super) fn began(&mut self, session: &SessionId, turn: TurnId, limits: &Limits, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let let_in = guest.owed.iter().position(|owed| owed.let_in && owed.submission == turn);
        if let_in == Some(0) {
            return;
        }
        for key in guest.owed.front_mut().into_iter().flat_map(|first| first.clock.reset()) {
            self.deadlines.remove(key);
        }
        guest.since = Instant::now();
        if !guest.has_place {
            guest.has_place = true;
            self.admission.place_taken();
            // What it has at the door waits for its next place.
            self.admission.leave_queue(session);
        }
        self.drop_ahead(session);
        let Some(guest) = self.book.get_mut(session) else { return };
        match let_in.and_then(|at| guest.owed.remove(at)) {
            Some(owed) => guest.owed.push_front(owed),
            None => guest.ahead = Some(Box::new(Ahead { turn, clock: Clock::new(limits) })),
        }
        self.arm_first(session, myself);
    }

    /// The turn nobody is owed has ended, or its actor has.
    pub(super) fn drop_ahead(&mut self, session: &SessionId) {
        let ahead = self.book.get_mut(session).and_then(|guest| guest.ahead.take());
        for key in ahead.into_iter().flat_map(|mut ahead| ahead.clock.reset()) {
            self.deadlines.remove(key);
        }
    }

    pub(super) fn pause(&mut self, session: &SessionId, turn: &TurnId, question: ApprovalQuestion, myself: &Myself) {
        let Some(clock) = self.book.get_mut(session).and_then(|guest| guest.clock_of(turn)) else { return };
        if let Some(key) = clock.deadline.take() {
            let left = key.0.saturating_duration_since(Instant::now());
            clock.left_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            self.deadlines.remove(key);
        }
        let at = Instant::now() + Duration::from_millis(clock.approval_timeout_ms);
        let approval = question.approval_id.clone();
        let key = self.deadlines.insert(at, Due::Approval(session.clone(), approval.clone()), myself);
        let asking = super::people::ask(&self.started.rooms, question);
        clock.approvals.push(OpenQuestion { approval, key, _asking: asking });
    }

    /// A question is answered: its own clock stops, and nobody is asked any more.
    pub(super) fn close_question(&mut self, session: &SessionId, approval: &ApprovalId) {
        let Some(clock) = self.book.get_mut(session).and_then(Guest::clock_mut) else { return };
        for question in clock.approvals.extract_if(.., |question| question.approval == *approval) {
            self.deadlines.remove(question.key);
        }
    }

    pub(super) fn unpause(&mut self, session: &SessionId, turn: &TurnId, myself: &Myself) {
        let Some(clock) = self.book.get_mut(session).and_then(|guest| guest.clock_of(turn)) else { return };
        for question in clock.approvals.drain(..) {
            self.deadlines.remove(question.key);
        }
        if clock.left_ms.is_some() {
            let at = Instant::now() + Duration::from_millis(clock.take_left_ms());
            clock.deadline = Some(self.deadlines.insert(at, Due::Turn(session.clone(), turn.clone()), myself));
        }
    }

    pub(super) fn due(&mut self, myself: &Myself) {
        let mut let_go = 0;
        for due in self.deadlines.take_due(Instant::now(), myself) {
            match due {
                Due::Turn(session, turn) => {
                    if let Some(clock) = self.book.get_mut(&session).and_then(|guest| guest.clock_of(&turn)) {
                        clock.deadline = None;
                        self.stop(&session, EndReason::TurnTimeout, myself);
                    }
                }
                Due::Kill(session, actor) => {
                    let guest = self.book.get_mut(&session);
                    let same = guest.and_then(|guest| guest.actor.as_ref()).filter(|current| current.get_id() == actor);
                    if let Some(stuck) = same {
                        tracing::warn!(%session, "the session's actor did not stop within its grace and is killed");
                        stuck.kill();
                    }
                }
                Due::Approval(session, approval) => {
                    let decision = Decision::Deny { reason: "nobody decided in time".into() };
                    self.say(&session, TurnMessage::Decided { approval, decision: Box::new(decision), asker: None });
                }
                Due::Idle(session) => let_go += usize::from(self.idle_due(&session, let_go, myself)),
                Due::Drain => self.stop_all(myself),
            }
        }
    }
}
