//! Every way a turn can end: pending replies are sent here, once.

use super::admit::{handed_over, unheard};
use super::{Myself, SessionsState};
use crate::children::SupervisorMessage;
use crate::session_table::PendingReply;
use bob_actors::clock;
use bob_messages::chat::FinishReason;
use bob_messages::error::AgentError;
use bob_messages::event::AgentEvent;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::outcome::{EndReason, TurnOutcome};
use bob_messages::submission::SessionsMessage;
use bob_messages::turn::{Recover, TurnMessage};
use ractor::{ActorId, ActorStatus, SpawnErr};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The start of an actor that is not finished.
type Starts = JoinHandle<Result<JoinHandle<()>, SpawnErr>>;

/// How often an actor is restarted in one turn, or for changes alone.
pub(super) const MOST_RESTARTS: u32 = 3;

impl SessionsState {
    /// Answers one pending reply and lets those behind it continue. A second answer has no effect.
    pub(super) fn settle(
        &mut self,
        session: &SessionId,
        submission: &TurnId,
        result: Result<Box<TurnOutcome>, AgentError>,
        myself: &Myself,
    ) {
        if result.is_ok() {
            self.started.rooms.tools.rest(session, submission);
        }
        let Some(entry) = self.table.get_mut(session) else { return self.announce_recovered(session, &result) };
        let was_running = entry.running() == Some(submission);
        if was_running {
            (entry.crashes, entry.closing) = (0, None);
        }
        // A caller may have asked for this turn after the actor found it in the journal.
        let was_recovered = entry.recovered.as_ref().is_some_and(|recovered| recovered.submission == *submission);
        let cancelled = result.as_ref().ok().filter(|outcome| outcome.finish_reason == FinishReason::Cancelled);
        let cancelled = cancelled.map(|outcome| outcome.turn_id.clone());
        if was_running {
            self.none_asks_below(session, myself);
        }
        let pending = self.table.get_mut(session).and_then(|entry| entry.take(submission));
        if was_recovered {
            self.drop_recovered(session);
        } else if pending.is_none() {
            return self.announce_recovered(session, &result);
        }
        match pending {
            Some(pending) => {
                if !pending.admitted {
                    self.left_queue(session, pending.tenant.as_ref());
                }
                self.answer(session, pending, result, myself);
            }
            None => {
                if let Ok(outcome) = &result {
                    self.ended(session, outcome);
                }
                self.announce_recovered(session, &result);
            }
        }
        match was_running {
            true => self.turn_over(session, cancelled.as_ref(), myself),
            // The session may be idle now.
            false => self.check_idle(session, myself),
        }
        self.check_drained();
    }

    /// Sends one reply that was taken out of the table.
    pub(super) fn answer(
        &mut self,
        session: &SessionId,
        mut pending: PendingReply,
        result: Result<Box<TurnOutcome>, AgentError>,
        myself: &Myself,
    ) {
        for key in pending.clock.reset() {
            self.deadlines.remove(key);
        }
        self.forget_child(session, &pending, myself);
        match &result {
            Ok(outcome) if pending.repeats(outcome) => self.metrics().repeated(),
            Ok(outcome) => {
                self.count(session, &pending, outcome);
                self.announce(session, outcome);
            }
            Err(_refusal) => {
                self.metrics().refused();
                // A turn that crashed before it was refused may have emitted events.
                self.started.feed.forget(session, &pending.submission);
            }
        }
        pending.reply.send(result);
    }

    fn count(&self, session: &SessionId, pending: &PendingReply, outcome: &TurnOutcome) {
        self.ended(session, outcome);
        let metrics = self.metrics();
        metrics.answered(pending.submitted_at.elapsed());
        if let Some(asked) = pending.cancel_asked.filter(|_asked| outcome.finish_reason == FinishReason::Cancelled) {
            metrics.cancelled(asked.elapsed());
        }
    }

    fn ended(&self, session: &SessionId, outcome: &TurnOutcome) {
        self.metrics().ended(outcome);
        if let Some(guard) = outcome.guard_reason
            && let Some(root) = self.me.get_cell().try_get_supervisor()
        {
            let (session, turn) = (session.clone(), outcome.turn_id.clone());
            let _it_has_ended = root.send_message(SupervisorMessage::Tripped { session, turn, guard });
        }
    }

    /// After a turn, which may have been cancelled: runs the next one of the session, or one of another session, or lets the
    /// session be idle.
    fn turn_over(&mut self, session: &SessionId, cancelled: Option<&TurnId>, myself: &Myself) {
        if let Some(entry) = self.table.get_mut(session) {
            entry.since = Instant::now();
        }
        self.end_children(session, cancelled, myself);
        self.arm_first(session, myself);
        self.free_slot(session, myself);
        self.check_idle(session, myself);
    }

    /// Announces the end of a turn that has no pending reply, if its beginning was announced: an earlier process
    /// accepted it, or its outcome is reported twice.
    fn announce_recovered(&self, session: &SessionId, result: &Result<Box<TurnOutcome>, AgentError>) {
        if let Ok(outcome) = result
            && self.started.feed.open_turn(session).as_ref() == Some(&outcome.turn_id)
        {
            self.announce(session, outcome);
        }
    }

    fn announce(&self, session: &SessionId, outcome: &TurnOutcome) {
        let feed = &self.started.feed;
        if feed.is_watched() {
            let event = AgentEvent::TurnFinished { outcome: Box::new(outcome.clone()) };
            feed.emit(session, &outcome.turn_id, clock::now(), event);
        }
    }

    /// Lets a session go whose turn another process continues.
    fn handed_over(&mut self, session: &SessionId, myself: &Myself) {
        self.answer_all(session, |_submission| Err(handed_over()), myself);
        self.let_go(session, &handed_over(), myself);
    }

    pub(super) fn settle_all(&mut self, session: &SessionId, why: &str, myself: &Myself) {
        let error = AgentError::Internal(why.to_owned());
        let failed =
            |submission: &TurnId| Ok(Box::new(TurnOutcome::failed(session.clone(), submission.clone(), error.clone())));
        self.answer_all(session, failed, myself);
        self.let_go(session, &error, myself);
    }

    fn answer_all(
        &mut self,
        session: &SessionId,
        answer: impl Fn(&TurnId) -> Result<Box<TurnOutcome>, AgentError>,
        myself: &Myself,
    ) {
        self.none_asks_below(session, myself);
        if let Some(running) = self.table.get_mut(session).and_then(|entry| entry.running().cloned()) {
            self.close_later(session, &running);
        }
        while let Some(pending) = self.table.get_mut(session).and_then(|entry| entry.pending.pop_front()) {
            if !pending.admitted {
                self.admission.dequeued(pending.tenant.as_ref());
            }
            let answer = answer(&pending.submission);
            self.answer(session, pending, answer, myself);
        }
    }

    fn let_go(&mut self, session: &SessionId, why: &AgentError, myself: &Myself) {
        self.end_children(session, None, myself);
        if let Some(entry) = self.table.get_mut(session) {
            entry.given_up = None;
        }
        self.refuse_changes(session, why);
        self.admission.leave_queue(session);
        self.drop_recovered(session);
        self.free_slot(session, myself);
        self.remove_if_gone(session);
        self.check_drained();
    }

    pub(super) fn remove_if_gone(&mut self, session: &SessionId) {
        if self.table.get_mut(session).is_some_and(|entry| entry.is_gone())
            && let Some(entry) = self.table.remove(session)
        {
            for key in entry.idle_check.into_iter().chain(entry.stopping.map(|stopping| stopping.kill_at)) {
                self.deadlines.remove(key);
            }
        }
    }

    /// Handles the end of an actor. One that was stopped has reported the rest itself; any other is restarted from
    /// the journal, to close its turn or to continue it.
    pub(super) fn actor_ended(&mut self, actor: ActorId, polite: bool, reason: &str, myself: &Myself) {
        let Some(session) = self.table.actor_ended(actor) else { return };
        self.drop_decisions(&session);
        let Some(entry) = self.table.get_mut(&session) else { return };
        if let Some(stopping) = &entry.stopping {
            self.deadlines.remove(stopping.kill_at);
        }
        match &mut entry.stopping {
            Some(stopping) if polite => {
                stopping.ended = true;
                self.close_when_reported(&session, myself);
            }
            Some(stopping) => {
                // An idle actor had no turn to close; a turn that came since is not affected.
                let meant = stopping.submission.is_some();
                let recover = if meant { Recover::Close(stopping.reason) } else { Recover::Continue };
                entry.stopping = None;
                self.reopen(&session, recover, myself);
            }
            None => self.crashed(&session, reason, myself),
        }
    }

    /// Handles an actor that ended before it was linked, for which there is no supervision event.
    pub(super) fn not_begun(&mut self, session: &SessionId, why: &str, myself: &Myself) {
        let actor = self.table.get_mut(session).and_then(|entry| entry.actor.as_ref());
        // Another actor may have been started meanwhile.
        let actor = actor.filter(|actor| actor.get_status() == ActorStatus::Stopped).map(|actor| actor.get_id());
        if let Some(actor) = actor {
            self.actor_ended(actor, false, why, myself);
        }
    }

    fn crashed(&mut self, session: &SessionId, reason: &str, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        entry.crashes += 1;
        entry.last_crash = Some(reason.into());
        let (crashes, closing) = (entry.crashes, entry.closing);
        tracing::warn!(%session, crashes, reason, "the session's actor crashed");
        self.started.rooms.metrics.session_restarted();
        if let Some(submission) = entry.running().cloned() {
            // The new actor asks an open question again; until then the clock runs.
            self.unpause(session, &submission, myself);
            let event = AgentEvent::ActorRestarted {
                actor: format!("turn {session}"),
                restarts: crashes,
                reason: reason.to_owned(),
            };
            // A turn that was resumed, or that an earlier process began, has another id in the events.
            let feed = &self.started.feed;
            let turn = feed.open_turn(session).unwrap_or(submission);
            feed.emit(session, &turn, clock::now(), event);
        }
        match crashes {
            // A turn that was to be closed does not go on.
            ..=MOST_RESTARTS => self.reopen(session, closing.map_or(Recover::Continue, Recover::Close), myself),
            crashes if crashes == MOST_RESTARTS + 1 => self.reopen(session, Recover::GiveUp, myself),
            _ => {
                self.settle_all(session, "the session's actor crashed too often; what it did is in the session", myself)
            }
        }
    }

    /// Restarts the actor and sends it all admitted requests again. Without any, the next admission starts it, unless a turn
    /// is to be closed whose call has ended.
    fn reopen(&mut self, session: &SessionId, recover: Recover, myself: &Myself) {
        self.send_again(session, recover, myself);
        self.tell_given_up(session, myself);
        self.remove_if_gone(session);
        self.check_drained();
    }

    fn send_again(&mut self, session: &SessionId, recover: Recover, myself: &Myself) {
        // The new actor reports the turn again if it finds it in the journal.
        self.drop_recovered(session);
        self.answer_flushes(session);
        let Some(entry) = self.table.get_mut(session) else { return };
        if entry.running().is_none() {
            let is_followed = entry.is_followed;
            self.drop_steers(session);
            self.free_slot(session, myself);
            if self.retry_changes(session, myself) {
                return;
            }
            // Crashes are counted per turn, and none runs. An actor that is started without a turn may not crash for ever.
            if let Some(entry) = self.table.get_mut(session).filter(|entry| !is_followed && entry.given_up.is_none()) {
                entry.crashes = 0;
            }
            // One that is followed has an actor, unless a queued submission has just started it.
            if !is_followed || self.table.get_mut(session).is_none_or(|entry| entry.actor.is_some()) {
                return;
            }
        }
        let Some(entry) = self.table.get_mut(session) else { return };
        entry.closing = match recover {
            Recover::Close(reason) if entry.running().is_some() => Some(reason),
            // Given up or not, a turn that was to be closed does not go on.
            Recover::GiveUp => entry.closing,
            Recover::Close(_) | Recover::Continue => None,
        };
        entry.since = Instant::now();
        let turn_config = Arc::clone(&entry.turn_config);
        entry.pending.iter_mut().take_while(|pending| pending.admitted).for_each(|pending| pending.is_repeated = true);
        let admitted = entry.pending.iter().take_while(|pending| pending.admitted);
        let requests: Vec<_> = admitted.clone().map(|pending| pending.request.clone()).collect();
        let cancelled: Vec<_> =
            admitted.filter(|pending| pending.cancelled).map(|pending| pending.submission.clone()).collect();
        let is_closing = matches!(recover, Recover::Close(_));
        self.started.rooms.tools.release(session);
        self.open(session, myself);
        self.send(session, TurnMessage::Wake { turn_config, recover });
        for request in requests {
            self.send(session, request);
        }
        self.resend_steers(session);
        for submission in cancelled {
            self.send(session, TurnMessage::Withdrawn { submission });
        }
        self.send_changes(session);
        if self.table.get_mut(session).is_some_and(|entry| entry.asking_below > 0) {
            self.send(session, TurnMessage::AskedBelow { asking: true });
        }
        // At the end of the grace an actor that closes a turn is not stopped: the next one would have to close it as well.
        if !(self.grace_over && is_closing) {
            self.arm_first(session, myself);
        }
        self.check_idle(session, myself);
    }

    /// Handles the last report of an actor that is being stopped.
    pub(super) fn reported_all(&mut self, session: &SessionId, myself: &Myself) {
        if let Some(stopping) = self.table.get_mut(session).and_then(|entry| entry.stopping.as_mut()) {
            stopping.reported_all = true;
            self.close_when_reported(session, myself);
        }
    }

    fn close_when_reported(&mut self, session: &SessionId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        let Some(stopping) = entry.stopping.take_if(|stopping| stopping.ended && stopping.reported_all) else { return };
        if stopping.reason == EndReason::HandedOver {
            return self.handed_over(session, myself);
        }
        // A turn that the actor had not received is ended here, unless it may be in the journal: the next actor closes it
        // there, or has its outcome.
        if let Some(submission) = stopping.submission {
            let pending = entry.pending.iter().find(|pending| pending.submission == submission);
            if pending.is_some_and(PendingReply::may_be_journaled) {
                return self.reopen(session, Recover::Close(stopping.reason), myself);
            }
            let outcome = Box::new(unheard(session, &submission, stopping.reason, pending));
            self.settle(session, &submission, Ok(outcome), myself);
        }
        self.reopen(session, Recover::Continue, myself);
    }
}

/// Reports a failed start. An actor that was killed before it started, or whose start failed, was never linked to the
/// supervisor.
pub(super) fn watch_start(session: SessionId, starts: Starts, myself: Myself) {
    tokio::spawn(async move {
        let why = match starts.await {
            Ok(Ok(_ends)) => return,
            Ok(Err(SpawnErr::StartupFailed(why))) => why.to_string(),
            Ok(Err(why)) => why.to_string(),
            Err(why) => why.to_string(),
        };
        let _the_supervisor_has_ended = myself.cast(SessionsMessage::NotBegun { session, why });
    });
}
