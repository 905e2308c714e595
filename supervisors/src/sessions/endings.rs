//! Every way a turn can end, and its clock: what is owed is paid here, once.

use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::guests::Owed;
use bob_actors::clock;
use bob_messages::error::AgentError;
use bob_messages::event::AgentEvent;
use bob_messages::ids::{ApprovalId, SessionId, TurnId};
use bob_messages::sessions::{EndReason, TurnOutcome};
use bob_messages::turn::{Recover, TurnMessage};
use ractor::ActorId;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often an actor is started again in one turn.
const MOST_RESTARTS: u32 = 3;

impl SessionsState {
    /// Pays one debt and lets the next one's clock run. A second payment finds
    /// nothing to pay.
    pub(super) fn settle(
        &mut self,
        session: &SessionId,
        submission: &TurnId,
        result: Result<Box<TurnOutcome>, AgentError>,
        myself: &Myself,
    ) {
        let was_first = self.book.get_mut(session).is_some_and(|guest| guest.is_first(submission));
        let Some(owed) = self.book.get_mut(session).and_then(|guest| guest.take(submission)) else {
            return self.announce_unowed(session, &result);
        };
        self.forget_deadlines(&owed);
        if let Ok(outcome) = &result
            && !owed.repeats(outcome)
        {
            self.announce(session, outcome);
        }
        owed.reply.send(result);
        if let Some(guest) = self.book.get_mut(session).filter(|_| was_first) {
            guest.crashes = 0;
        }
        self.arm_first(session, myself);
        self.tell_drained();
    }

    /// A turn that an earlier process accepted, or an outcome told twice: nobody here is
    /// owed it, and whoever saw the turn begin sees its one end all the same.
    fn announce_unowed(&self, session: &SessionId, result: &Result<Box<TurnOutcome>, AgentError>) {
        if let Ok(outcome) = result
            && self.started.feed.open_turn(session).as_ref() == Some(&outcome.turn_id)
        {
            self.announce(session, outcome);
        }
    }

    fn announce(&self, session: &SessionId, outcome: &TurnOutcome) {
        if let Some(guard) = outcome.guard_reason {
            tracing::warn!(target: "bob::guard", %session, turn = %outcome.turn_id, ?guard, "a guard ended the turn");
        }
        let feed = &self.started.feed;
        if feed.is_watched() {
            let event = AgentEvent::TurnFinished { outcome: Box::new(outcome.clone()) };
            feed.emit(session, &outcome.turn_id, clock::now(), event);
        }
    }

    pub(super) fn settle_all(&mut self, session: &SessionId, why: &str) {
        while let Some(owed) = self.book.get_mut(session).and_then(|guest| guest.owed.pop_front()) {
            self.forget_deadlines(&owed);
            let error = AgentError::Internal(why.to_owned());
            let outcome = Box::new(TurnOutcome::failed(session.clone(), owed.submission.clone(), error));
            self.announce(session, &outcome);
            owed.reply.send(Ok(outcome));
        }
        self.book.remove(session);
        self.tell_drained();
    }

    /// An actor ended. Politely: it says the rest itself. In any other way: it is
    /// started again from the journal, to close its turn or to go on with it.
    pub(super) fn actor_ended(&mut self, actor: ActorId, polite: bool, reason: &str, myself: &Myself) {
        let Some(session) = self.book.moved_out(actor) else { return };
        let Some(guest) = self.book.get_mut(&session) else { return };
        match &mut guest.leaving {
            Some(leaving) if polite => {
                leaving.ended = true;
                self.close_when_said(&session, myself);
            }
            Some(leaving) => {
                let recover = Recover::Close(leaving.reason);
                guest.leaving = None;
                self.reopen(&session, recover, myself);
            }
            None => self.crashed(&session, reason, myself),
        }
    }

    fn crashed(&mut self, session: &SessionId, reason: &str, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        guest.crashes += 1;
        let crashes = guest.crashes;
        tracing::warn!(%session, crashes, reason, "the session's actor crashed");
        if let Some(submission) = guest.owed.front().map(|first| first.submission.clone()) {
            // Whoever is started now says again what it asks a person; until then time passes.
            self.unpause(session, &submission, myself);
            let event = AgentEvent::ActorRestarted {
                actor: format!("turn {session}"),
                restarts: crashes,
                reason: reason.to_owned(),
            };
            // A turn that was resumed, or that an earlier process began, has another name.
            let feed = &self.started.feed;
            let turn = feed.open_turn(session).unwrap_or(submission);
            feed.emit(session, &turn, clock::now(), event);
        }
        match crashes {
            ..=MOST_RESTARTS => self.reopen(session, Recover::Continue, myself),
            crashes if crashes == MOST_RESTARTS + 1 => self.reopen(session, Recover::GiveUp, myself),
            _ => self.settle_all(session, "the session's actor crashed too often; what it did is in the session"),
        }
    }

    /// Starts the actor again and says to it what is still owed. Nothing is owed:
    /// then the next submission starts it.
    fn reopen(&mut self, session: &SessionId, recover: Recover, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        if guest.owed.is_empty() {
            self.book.remove(session);
            return;
        }
        let brief = Arc::clone(&guest.brief);
        let requests: Vec<_> = guest.owed.iter().map(|owed| owed.request.clone()).collect();
        let cancelled: Vec<_> =
            guest.owed.iter().filter(|owed| owed.cancelled).map(|owed| owed.submission.clone()).collect();
        self.open(session, myself);
        self.say(session, TurnMessage::Wake { brief, recover });
        for request in requests {
            self.say(session, request);
        }
        for submission in cancelled {
            self.say(session, TurnMessage::Withdrawn { submission });
        }
        self.arm_first(session, myself);
    }

    /// A stopping actor has said all it had to say.
    pub(super) fn said_all(&mut self, session: &SessionId, myself: &Myself) {
        if let Some(leaving) = self.book.get_mut(session).and_then(|guest| guest.leaving.as_mut()) {
            leaving.said_all = true;
            self.close_when_said(session, myself);
        }
    }

    fn close_when_said(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let Some(leaving) = guest.leaving.take_if(|leaving| leaving.ended && leaving.said_all) else { return };
        // A turn the actor had not heard of yet is ended here.
        if let Some(submission) = leaving.submission {
            let outcome = Box::new(unheard(session, &submission, leaving.reason));
            self.settle(session, &submission, Ok(outcome), myself);
        }
        self.reopen(session, Recover::Continue, myself);
    }

    /// The clock of the first debt runs. One that was cancelled while it waited has
    /// a clock, too: its actor was told, and ends it.
    pub(super) fn arm_first(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let is_asking = guest.owed.front().is_some_and(|owed| owed.left_ms.is_some());
        let Some(first) = guest.owed.front_mut().filter(|_| !is_asking) else { return };
        if self.grace_over && !first.cancelled {
            return self.stop(session, EndReason::Shutdown, myself);
        }
        if first.deadline.is_none() {
            let at = Instant::now() + Duration::from_millis(first.timeout_ms);
            let due = Due::Turn(session.clone(), first.submission.clone());
            first.deadline = Some(self.deadlines.insert(at, due, myself));
        }
    }

    pub(super) fn pause(&mut self, session: &SessionId, submission: &TurnId, approval: ApprovalId, myself: &Myself) {
        let Some(first) = self.book.get_mut(session).and_then(|guest| guest.owed.front_mut()) else { return };
        if first.submission != *submission {
            return;
        }
        if let Some(key) = first.deadline.take() {
            let left = key.0.saturating_duration_since(Instant::now());
            first.left_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            self.deadlines.remove(key);
        }
        let at = Instant::now() + Duration::from_millis(first.approval_timeout_ms);
        first.approvals.push(self.deadlines.insert(at, Due::Approval(session.clone(), approval), myself));
    }

    pub(super) fn unpause(&mut self, session: &SessionId, submission: &TurnId, myself: &Myself) {
        let Some(first) = self.book.get_mut(session).and_then(|guest| guest.owed.front_mut()) else { return };
        if first.submission != *submission {
            return;
        }
        for key in first.approvals.drain(..) {
            self.deadlines.remove(key);
        }
        if let Some(left_ms) = first.left_ms.take() {
            let due = Due::Turn(session.clone(), submission.clone());
            let at = Instant::now() + Duration::from_millis(left_ms);
            first.deadline = Some(self.deadlines.insert(at, due, myself));
        }
    }

    fn forget_deadlines(&mut self, owed: &Owed) {
        for key in owed.deadline.iter().chain(&owed.approvals) {
            self.deadlines.remove(*key);
        }
    }
}

fn unheard(session: &SessionId, submission: &TurnId, reason: EndReason) -> TurnOutcome {
    let (finish_reason, guard_reason) = reason.finishes();
    let content = "Stopped before the turn began; the input was not kept.";
    TurnOutcome { guard_reason, ..TurnOutcome::bare(session.clone(), submission.clone(), finish_reason, content) }
}
