//! Every way a turn can end: what is owed is paid here, once.

use super::{Myself, SessionsState};
use crate::family::SupervisorMessage;
use crate::guests::Owed;
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

/// An actor on its way to its first message.
type Starts = JoinHandle<Result<JoinHandle<()>, SpawnErr>>;

/// How often an actor is started again in one turn.
const MOST_RESTARTS: u32 = 3;

impl SessionsState {
    /// Pays one debt; what waits behind it gets its time, its place or its end. A second
    /// payment finds nothing to pay.
    pub(super) fn settle(
        &mut self,
        session: &SessionId,
        submission: &TurnId,
        result: Result<Box<TurnOutcome>, AgentError>,
        myself: &Myself,
    ) {
        let Some(guest) = self.book.get_mut(session) else { return self.announce_unowed(session, &result) };
        let was_running = guest.running() == Some(submission);
        if was_running {
            guest.crashes = 0;
        }
        // Somebody may have asked for it while it ran ahead of the debts.
        let was_ahead = guest.ahead.as_ref().is_some_and(|ahead| ahead.turn == *submission);
        let owed = guest.take(submission);
        if was_ahead {
            self.drop_ahead(session);
        } else if owed.is_none() {
            return self.announce_unowed(session, &result);
        }
        match owed {
            Some(owed) => {
                if !owed.let_in {
                    self.left_door(session);
                }
                self.pay(session, owed, result);
            }
            None => {
                if let Ok(outcome) = &result {
                    self.ended(session, outcome);
                }
                self.announce_unowed(session, &result);
            }
        }
        match was_running {
            true => self.turn_over(session, myself),
            // What waited may have been all there was.
            false => self.rest(session, myself),
        }
        self.tell_drained();
    }

    /// Answers one debt that was taken out of the book.
    pub(super) fn pay(&mut self, session: &SessionId, mut owed: Owed, result: Result<Box<TurnOutcome>, AgentError>) {
        for key in owed.clock.reset() {
            self.deadlines.remove(key);
        }
        match &result {
            Ok(outcome) if owed.repeats(outcome) => self.metrics().repeated(),
            Ok(outcome) => {
                self.count(session, &owed, outcome);
                self.announce(session, outcome);
            }
            Err(_refusal) => {
                self.metrics().refused();
                // Of a turn that crashed before it was refused something may have been told.
                self.started.feed.forget(session, &owed.submission);
            }
        }
        owed.reply.send(result);
    }

    fn count(&self, session: &SessionId, owed: &Owed, outcome: &TurnOutcome) {
        self.ended(session, outcome);
        let metrics = self.metrics();
        metrics.answered(owed.came.elapsed());
        if let Some(asked) = owed.cancel_asked.filter(|_asked| outcome.finish_reason == FinishReason::Cancelled) {
            metrics.cancelled(asked.elapsed());
        }
    }

    /// A turn has ended: it is counted, and the root hears of the guard that ended it, if one did.
    fn ended(&self, session: &SessionId, outcome: &TurnOutcome) {
        self.metrics().ended(outcome);
        if let Some(guard) = outcome.guard_reason
            && let Some(root) = self.me.get_cell().try_get_supervisor()
        {
            let (session, turn) = (session.clone(), outcome.turn_id.clone());
            let _it_has_ended = root.send_message(SupervisorMessage::Tripped { session, turn, guard });
        }
    }

    /// A turn has ended: the next one of the session runs, or somebody else's, or the
    /// session rests.
    fn turn_over(&mut self, session: &SessionId, myself: &Myself) {
        if let Some(guest) = self.book.get_mut(session) {
            guest.since = Instant::now();
        }
        self.arm_first(session, myself);
        self.free_place(session, myself);
        self.rest(session, myself);
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
        let feed = &self.started.feed;
        if feed.is_watched() {
            let event = AgentEvent::TurnFinished { outcome: Box::new(outcome.clone()) };
            feed.emit(session, &outcome.turn_id, clock::now(), event);
        }
    }

    pub(super) fn settle_all(&mut self, session: &SessionId, why: &str, myself: &Myself) {
        while let Some(owed) = self.book.get_mut(session).and_then(|guest| guest.owed.pop_front()) {
            self.admission.went(usize::from(!owed.let_in));
            let error = AgentError::Internal(why.to_owned());
            let outcome = Box::new(TurnOutcome::failed(session.clone(), owed.submission.clone(), error));
            self.pay(session, owed, Ok(outcome));
        }
        self.refuse_errands(session, why);
        self.admission.leave_queue(session);
        self.drop_ahead(session);
        self.free_place(session, myself);
        self.forget(session);
        self.tell_drained();
    }

    /// Takes a session out of the book that has nothing any more.
    pub(super) fn forget(&mut self, session: &SessionId) {
        if self.book.get_mut(session).is_some_and(|guest| guest.is_gone())
            && let Some(guest) = self.book.remove(session)
        {
            for key in guest.idle_check.into_iter().chain(guest.leaving.map(|leaving| leaving.kill_at)) {
                self.deadlines.remove(key);
            }
        }
    }

    /// An actor ended. Politely: it says the rest itself. In any other way: it is
    /// started again from the journal, to close its turn or to go on with it.
    pub(super) fn actor_ended(&mut self, actor: ActorId, polite: bool, reason: &str, myself: &Myself) {
        let Some(session) = self.book.moved_out(actor) else { return };
        self.nobody_heard(&session);
        let Some(guest) = self.book.get_mut(&session) else { return };
        if let Some(leaving) = &guest.leaving {
            self.deadlines.remove(leaving.kill_at);
        }
        match &mut guest.leaving {
            Some(leaving) if polite => {
                leaving.ended = true;
                self.close_when_said(&session, myself);
            }
            Some(leaving) => {
                // One that was idle had no turn to be closed; whatever came since is not meant.
                let meant = leaving.submission.is_some();
                let recover = if meant { Recover::Close(leaving.reason) } else { Recover::Continue };
                guest.leaving = None;
                self.reopen(&session, recover, myself);
            }
            None => self.crashed(&session, reason, myself),
        }
    }

    /// An actor ended before it had begun: an end like any other, of which no supervision event tells.
    pub(super) fn not_begun(&mut self, session: &SessionId, why: &str, myself: &Myself) {
        let actor = self.book.get_mut(session).and_then(|guest| guest.actor.as_ref());
        // Whoever began meanwhile is somebody else.
        let actor = actor.filter(|actor| actor.get_status() == ActorStatus::Stopped).map(|actor| actor.get_id());
        if let Some(actor) = actor {
            self.actor_ended(actor, false, why, myself);
        }
    }

    fn crashed(&mut self, session: &SessionId, reason: &str, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        guest.crashes += 1;
        guest.crashed_of = Some(reason.into());
        let crashes = guest.crashes;
        tracing::warn!(%session, crashes, reason, "the session's actor crashed");
        self.started.rooms.metrics.session_restarted();
        if let Some(submission) = guest.running().cloned() {
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
            _ => {
                self.settle_all(session, "the session's actor crashed too often; what it did is in the session", myself)
            }
        }
    }

    /// Starts the actor again and says to it what was said to the one before. Nothing
    /// was: then whoever is let in next starts it.
    fn reopen(&mut self, session: &SessionId, recover: Recover, myself: &Myself) {
        // The one that is started says again what it finds in the journal.
        self.drop_ahead(session);
        self.readers_end(session);
        let Some(guest) = self.book.get_mut(session) else { return };
        if guest.running().is_none() {
            self.steers_end(session);
            self.free_place(session, myself);
            if self.run_errands_again(session, myself) {
                return;
            }
            // Crashes are counted in a turn, and there is none.
            if let Some(guest) = self.book.get_mut(session) {
                guest.crashes = 0;
            }
            self.forget(session);
            return self.tell_drained();
        }
        guest.since = Instant::now();
        let brief = Arc::clone(&guest.brief);
        guest.owed.iter_mut().take_while(|owed| owed.let_in).for_each(|owed| owed.said_again = true);
        let let_in = guest.owed.iter().take_while(|owed| owed.let_in);
        let requests: Vec<_> = let_in.clone().map(|owed| owed.request.clone()).collect();
        let cancelled: Vec<_> = let_in.filter(|owed| owed.cancelled).map(|owed| owed.submission.clone()).collect();
        self.open(session, myself);
        self.say(session, TurnMessage::Wake { brief, recover });
        for request in requests {
            self.say(session, request);
        }
        self.steer_again(session);
        for submission in cancelled {
            self.say(session, TurnMessage::Withdrawn { submission });
        }
        self.say_errands(session);
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
        // A turn the actor had not heard of yet is ended here, unless one before it had: then it may be in the journal,
        // and the next one closes it there.
        if let Some(submission) = leaving.submission {
            let owed = guest.owed.iter().find(|owed| owed.submission == submission);
            if owed.is_some_and(|owed| owed.said_again) {
                return self.reopen(session, Recover::Close(leaving.reason), myself);
            }
            let outcome = Box::new(unheard(session, &submission, leaving.reason, owed.map(|owed| &owed.request)));
            self.settle(session, &submission, Ok(outcome), myself);
        }
        self.reopen(session, Recover::Continue, myself);
    }
}

/// Tells the supervisor when the actor does not begin. One that was killed before, or whose start failed, was never linked
/// to it.
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

/// The outcome of a turn no actor has heard of.
pub(super) fn unheard(
    session: &SessionId,
    submission: &TurnId,
    reason: EndReason,
    request: Option<&TurnMessage>,
) -> TurnOutcome {
    let (finish_reason, guard_reason) = reason.finishes();
    let content = match (guard_reason, request) {
        (Some(guard), Some(TurnMessage::Start { input, .. })) => input.limits.sentence(guard),
        _ => "Stopped before the turn began; the input was not kept.".to_owned(),
    };
    TurnOutcome { guard_reason, ..TurnOutcome::bare(session.clone(), submission.clone(), finish_reason, content) }
}
