//! Admission: who is let in, who waits, who is refused, and who leaves before their turn.
//!
//! A submission is let in when a turn of its session may run or runs already and nobody
//! waits; then it is said to the session's actor, which journals it and thereby accepts
//! it. One that waits at the door is not accepted yet: nothing of it is kept, and its
//! clock does not run. Its wait has no limit of its own; it ends when those before it
//! have had their time, and at once when it is cancelled or the program ends.

use super::endings::unheard;
use super::{Myself, SessionsState};
use crate::deadlines::Due;
use crate::guests::{Guest, Owed};
use bob_messages::brief::Brief;
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::outcome::EndReason;
use bob_messages::reply::Reply;
use bob_messages::turn::TurnMessage;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl SessionsState {
    pub(super) fn submit(&mut self, session: &SessionId, owed: Owed, brief: &Arc<Brief>, myself: &Myself) {
        self.metrics().submitted();
        if self.draining.is_some() {
            return self.turn_away(owed, closing());
        }
        let known = self.book.get_mut(session);
        let mut owed_already = known.into_iter().flat_map(|guest| guest.owed.iter_mut());
        // Two may say the same again: one who finishes what was left, and one who decides about it. Its end is told once.
        if let Some(same) = owed_already.find(|known| known.submission == owed.submission) {
            same.also_to(owed.reply);
            return self.metrics().repeated();
        }
        let known = self.book.get_mut(session);
        let (debts, at_door, has_place) =
            known.map_or((0, 0, false), |guest| (guest.owed.len(), guest.at_door(), guest.has_place));
        if debts > brief.max_waiting {
            let waiting = debts - 1;
            let error = format!("the session has {waiting} inputs waiting; try again when it has answered");
            return self.turn_away(owed, AgentError::Busy(error));
        }
        // In the order they came: nobody passes what waits of the same session.
        let comes_in = at_door == 0 && self.admission.is_open(has_place);
        if !comes_in && self.admission.is_full() {
            return self.turn_away(owed, self.overloaded());
        }
        let guest = self.book.entry(session, brief);
        guest.brief = Arc::clone(brief);
        guest.owed.push_back(owed);
        self.admission.came();
        if comes_in {
            if !has_place {
                self.admission.place_taken();
            }
            self.let_in(session, myself);
        } else if at_door == 0 && !has_place {
            self.admission.queue(session.clone());
        }
    }

    /// Nothing was done for it and nothing will be.
    fn turn_away(&self, owed: Owed, why: AgentError) {
        self.metrics().refused();
        owed.reply.send(Err(why));
    }

    /// The first that waits at the door comes in: its session has a place.
    fn let_in(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let was_busy = guest.running().is_some();
        guest.has_place = true;
        let Some(owed) = guest.owed.iter_mut().find(|owed| !owed.let_in) else { return };
        owed.let_in = true;
        self.started.rooms.metrics.let_in(owed.came.elapsed());
        let request = owed.request.clone();
        if !was_busy {
            guest.since = Instant::now();
        }
        // What comes while an actor leaves is said to the next one.
        let is_leaving = guest.leaving.is_some();
        let has_actor = guest.actor.is_some();
        self.admission.went(1);
        if !is_leaving {
            if !has_actor {
                self.open(session, myself);
            }
            self.say(session, request);
        }
        self.arm_first(session, myself);
    }

    /// Gives the session's place back when no turn of it runs any more, and lets in
    /// whoever waits longest. What the session has at the door waits behind them.
    pub(super) fn free_place(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        if !guest.has_place || guest.running().is_some() {
            return;
        }
        guest.has_place = false;
        self.admission.place_freed();
        if guest.at_door() > 0 {
            self.admission.queue(session.clone());
        }
        while let Some(next) = self.admission.next() {
            self.let_in(&next, myself);
        }
    }

    pub(super) fn cancel(&mut self, session: &SessionId, turn: Option<&TurnId>, myself: &Myself) -> bool {
        let Some(guest) = self.book.get_mut(session) else { return false };
        let at = match turn {
            None => (!guest.owed.is_empty()).then_some(0),
            // It runs, whoever else waits for it.
            Some(turn) if guest.ahead.as_ref().is_some_and(|ahead| ahead.turn == *turn) => None,
            Some(turn) => guest.owed.iter().position(|owed| owed.submission == *turn),
        };
        let Some(at) = at else {
            // It runs ahead of what is owed here.
            let is_meant = |running: &TurnId| turn.is_none_or(|turn| turn == running);
            let runs = guest.ahead.as_ref().is_some_and(|ahead| is_meant(&ahead.turn));
            if runs {
                self.stop(session, EndReason::Cancelled, myself);
            }
            return runs;
        };
        guest.owed[at].cancel_asked.get_or_insert_with(Instant::now);
        match &guest.leaving {
            _ if !guest.owed[at].let_in => self.turn_away_cancelled(session, at, myself),
            None if at == 0 && guest.ahead.is_none() => self.stop(session, EndReason::Cancelled, myself),
            // It is being stopped already.
            Some(leaving) if leaving.submission.as_ref() == Some(&guest.owed[at].submission) => {}
            None | Some(_) => self.withdraw(session, at),
        }
        true
    }

    /// Takes back what waits behind the running turn. An actor that leaves is not
    /// told any more; its successor is.
    fn withdraw(&mut self, session: &SessionId, waiting: usize) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let Some(owed) = guest.owed.get_mut(waiting) else { return };
        owed.cancelled = true;
        let submission = owed.submission.clone();
        if guest.leaving.is_none() {
            self.say(session, TurnMessage::Withdrawn { submission });
        }
    }

    /// What waits at the door is answered here and at once: no actor knows of it.
    fn turn_away_cancelled(&mut self, session: &SessionId, at: usize, myself: &Myself) {
        let Some(owed) = self.book.get_mut(session).and_then(|guest| guest.owed.remove(at)) else { return };
        self.left_door(session);
        let outcome = Box::new(unheard(session, &owed.submission, EndReason::Cancelled, None));
        self.pay(session, owed, Ok(outcome));
        // It may have been all the session had to do.
        self.rest(session, myself);
        self.forget(session);
    }

    /// One that was taken out of the book waits at the door no longer.
    pub(super) fn left_door(&mut self, session: &SessionId) {
        self.admission.went(1);
        if self.book.get_mut(session).is_some_and(|guest| guest.at_door() == 0) {
            self.admission.leave_queue(session);
        }
    }

    /// No new turns: what waits at the door is refused, what was let in has its grace.
    pub(super) fn drain(&mut self, grace_ms: u64, reply: Reply<()>, myself: &Myself) {
        self.draining.get_or_insert_default().push(reply);
        self.deadlines.insert(Instant::now() + Duration::from_millis(grace_ms), Due::Drain, myself);
        let at_door = |(session, guest): (&SessionId, &Guest)| (guest.at_door() > 0).then(|| session.clone());
        let waiting: Vec<_> = self.book.iter().filter_map(at_door).collect();
        for session in waiting {
            while let Some(owed) =
                self.book.get_mut(&session).and_then(|guest| guest.owed.pop_back_if(|owed| !owed.let_in))
            {
                self.admission.went(1);
                self.turn_away(owed, closing());
            }
            self.admission.leave_queue(&session);
            self.forget(&session);
        }
        self.tell_drained();
    }

    pub(super) fn stop_all(&mut self, myself: &Myself) {
        self.grace_over = true;
        let busy: Vec<_> =
            self.book.iter().filter(|(_, guest)| guest.running().is_some()).map(|(id, _)| id.clone()).collect();
        for session in busy {
            self.stop(&session, EndReason::Shutdown, myself);
            let (behind, debts) = self
                .book
                .get_mut(&session)
                .map_or((0, 0), |guest| (usize::from(guest.ahead.is_none()), guest.owed.len()));
            for waiting in behind..debts {
                self.withdraw(&session, waiting);
            }
        }
    }

    pub(super) fn tell_drained(&mut self) {
        // Asked at the end of every turn: the whole book is read only when somebody waits for it.
        if self.draining.is_some() && !self.book.owes() {
            for reply in self.draining.iter_mut().flat_map(|waiting| waiting.drain(..)) {
                reply.send(());
            }
        }
    }

    fn overloaded(&self) -> AgentError {
        let (running, waiting) = (self.admission.running(), self.admission.waiting());
        AgentError::Overloaded(format!(
            "{running} turns run and {waiting} inputs wait, which is the most; nothing was kept of this one: \
             send it again later, or raise runtime.max_concurrent_turns"
        ))
    }
}

pub(super) fn closing() -> AgentError {
    AgentError::Overloaded("the runtime is shutting down and takes no new turns; nothing was kept of this input".into())
}
