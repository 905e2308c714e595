//! The sessions supervisor: one child per live session, and the guest book.
//!
//! Stands at the door: submissions come in here and outcomes go out here; inside
//! the loop a turn talks to each room directly. It starts TurnActors, starts them
//! again from the journal after a crash, stops them for a cancel or a deadline, and
//! sees to it that whoever submitted is answered exactly once. It never looks into
//! a turn and never waits for anybody.

mod endings;

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;

use crate::deadlines::{Deadlines, Due};
use crate::family::ChildSpec;
use crate::guests::{GuestBook, Leaving, Owe, Owed};
use bob_actors::feed::Feed;
use bob_actors::rooms::Rooms;
use bob_actors::turn::{Ending, TurnActor, TurnArguments};
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::reply::Reply;
use bob_messages::sessions::{Decision, EndReason, LiveSession, SessionsMessage, TurnNews};
use bob_messages::turn::{Brief, TurnMessage};
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, SupervisionEvent};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// How long a stopped actor may take before it is killed. Its handlers never wait,
/// so this is reached only by one that blocks its thread.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long all sessions together may take to stop when the supervisor does.
const STOP_ALL_WITHIN: Duration = Duration::from_secs(3);

/// The supervisor of all sessions.
#[derive(Debug)]
pub struct SessionsSupervisor;

/// What it is started with.
#[derive(Debug, Clone)]
pub struct SessionsArguments {
    /// Where the other actors are found.
    pub rooms: Rooms,
    /// Where events go.
    pub feed: Arc<Feed>,
}

/// The guest book and what goes with it.
#[derive(Debug)]
pub struct SessionsState {
    started: SessionsArguments,
    book: GuestBook,
    deadlines: Deadlines,
    draining: Option<Vec<Reply<()>>>,
    /// The grace of a drain is over: whatever is first is stopped.
    grace_over: bool,
}

/// The sessions supervisor as a child of the root: it starts last and stops first.
pub fn child(rooms: &Rooms, feed: &Arc<Feed>) -> ChildSpec {
    let started = SessionsArguments { rooms: rooms.clone(), feed: Arc::clone(feed) };
    let core = ChildSpec::core("sessions", rooms.sessions.clone(), move || (SessionsSupervisor, started.clone()));
    ChildSpec { shutdown_ms: 4_000, ..core }
}

type Myself = ActorRef<SessionsMessage>;

impl Actor for SessionsSupervisor {
    type Msg = SessionsMessage;
    type State = SessionsState;
    type Arguments = SessionsArguments;

    async fn pre_start(&self, _: Myself, started: SessionsArguments) -> Result<SessionsState, ActorProcessingErr> {
        Ok(SessionsState {
            started,
            book: GuestBook::default(),
            deadlines: Deadlines::default(),
            draining: None,
            grace_over: false,
        })
    }

    async fn handle(
        &self,
        myself: Myself,
        message: SessionsMessage,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionsMessage::Submit { session, input, brief, reply } => {
                let (submission, limits) = (input.turn.clone(), input.limits);
                let request = TurnMessage::Start { input, brief: Arc::clone(&brief) };
                let owed = owed(submission, request, reply, limits.turn_timeout_ms, limits.approval_timeout_ms);
                state.submit(&session, owed, &brief, &myself);
            }
            SessionsMessage::Resume { session, submission, token, said, limits, brief, reply } => {
                let request = TurnMessage::Resume {
                    submission: submission.clone(),
                    token,
                    reply: Box::new(said),
                    brief: Arc::clone(&brief),
                };
                let owed = owed(submission, request, reply, limits.turn_timeout_ms, limits.approval_timeout_ms);
                state.submit(&session, owed, &brief, &myself);
            }
            SessionsMessage::Cancel { session, turn, reply } => {
                reply.send(state.cancel(&session, turn.as_ref(), &myself));
            }
            SessionsMessage::Passivate { session, reply } => reply.send(state.passivate(&session, &myself)),
            SessionsMessage::Decide { session, approval, decision } => {
                state.say(&session, TurnMessage::Decided { approval, decision: Box::new(decision) });
            }
            SessionsMessage::News { session, news } => state.news(&session, news, &myself),
            SessionsMessage::Due => state.due(&myself),
            SessionsMessage::Live { reply } => reply.send(state.live()),
            SessionsMessage::Drain { grace_ms, reply } => state.drain(grace_ms, reply, &myself),
        }
        Ok(())
    }

    /// Never the default, which would end all sessions with the first that ends.
    async fn handle_supervisor_evt(
        &self,
        myself: Myself,
        event: SupervisionEvent,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(actor, _, reason) => {
                let polite = reason.as_deref().is_none_or(|reason| reason.parse::<EndReason>().is_ok());
                let reason = reason.unwrap_or_else(|| "stopped".to_owned());
                state.actor_ended(actor.get_id(), polite, &reason, &myself);
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                state.actor_ended(actor.get_id(), false, &error.to_string(), &myself);
            }
            _starts_and_groups_need_nothing => {}
        }
        Ok(())
    }

    async fn post_stop(&self, myself: Myself, _: &mut SessionsState) -> Result<(), ActorProcessingErr> {
        let reason = Some(EndReason::Shutdown.to_string());
        myself.get_cell().stop_children_and_wait(reason, Some(STOP_ALL_WITHIN)).await;
        Ok(())
    }
}

impl SessionsState {
    fn submit(&mut self, session: &SessionId, owed: Owed, brief: &Arc<Brief>, myself: &Myself) {
        if self.draining.is_some() {
            let error = AgentError::Overloaded("the runtime is shutting down and takes no new turns".into());
            return owed.reply.send(Err(error));
        }
        let request = owed.request.clone();
        let guest = self.book.entry(session, brief);
        guest.brief = Arc::clone(brief);
        guest.owed.push_back(owed);
        // What comes while an actor leaves is said to the next one.
        let is_leaving = guest.leaving.is_some();
        if guest.actor.is_none() && !is_leaving {
            self.open(session, myself);
        }
        if !is_leaving {
            self.say(session, request);
        }
        self.arm_first(session, myself);
    }

    /// Starts the session's actor. It reads the journal itself, so this never waits.
    fn open(&mut self, session: &SessionId, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session) else { return };
        guest.ending = Arc::new(OnceLock::new());
        let started = TurnArguments {
            session: session.clone(),
            rooms: self.started.rooms.clone(),
            feed: Arc::clone(&self.started.feed),
            ending: Arc::clone(&guest.ending),
        };
        match ActorRuntime::spawn_linked_instant(None, TurnActor, started, myself.get_cell()) {
            Ok((actor, _started)) => self.book.moved_in(session, actor),
            Err(error) => self.settle_all(session, &format!("the session's actor could not be started: {error}")),
        }
    }

    /// Says something to the session's actor. To nobody, if it just ended: its
    /// supervision event is on the way and says what follows.
    fn say(&mut self, session: &SessionId, message: TurnMessage) {
        if let Some(actor) = self.book.get_mut(session).and_then(|guest| guest.actor.as_ref()) {
            drop(actor.cast(message));
        }
    }

    fn cancel(&mut self, session: &SessionId, turn: Option<&TurnId>, myself: &Myself) -> bool {
        let Some(guest) = self.book.get_mut(session) else { return false };
        let at = match turn {
            None => (!guest.owed.is_empty()).then_some(0),
            Some(turn) => guest.owed.iter().position(|owed| owed.submission == *turn),
        };
        let Some(at) = at else { return false };
        match &guest.leaving {
            None if at == 0 => self.stop(session, EndReason::Cancelled, myself),
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

    fn passivate(&mut self, session: &SessionId, myself: &Myself) -> bool {
        let is_idle = self.book.get_mut(session).is_none_or(|guest| guest.owed.is_empty());
        if is_idle {
            self.stop(session, EndReason::Passivated, myself);
        }
        is_idle
    }

    /// Stops the session's actor, which ends its running turn for this reason.
    fn stop(&mut self, session: &SessionId, reason: EndReason, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session).filter(|guest| guest.leaving.is_none()) else { return };
        let Some(actor) = guest.actor.clone() else { return };
        let submission = guest.owed.front().map(|owed| owed.submission.clone());
        let ending = Ending { reason, submission: submission.clone() };
        guest.leaving = Some(Leaving { reason, submission, ended: false, said_all: false });
        // Set before the stop: the actor reads it while it stops.
        let _the_first_reason_counts = guest.ending.set(ending);
        actor.stop(Some(reason.to_string()));
        self.deadlines.insert(Instant::now() + STOP_GRACE, Due::Kill(session.clone(), actor.get_id()), myself);
    }

    fn due(&mut self, myself: &Myself) {
        for due in self.deadlines.take_due(Instant::now(), myself) {
            match due {
                Due::Turn(session, submission) => {
                    let guest = self.book.get_mut(&session);
                    let first = guest.and_then(|guest| guest.owed.front_mut());
                    if let Some(owed) = first.filter(|owed| owed.submission == submission) {
                        owed.deadline = None;
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
                    self.say(&session, TurnMessage::Decided { approval, decision: Box::new(decision) });
                }
                Due::Drain => self.stop_all(myself),
            }
        }
    }

    fn live(&self) -> Vec<LiveSession> {
        let live = |(session, guest): (&SessionId, &crate::guests::Guest)| LiveSession {
            session: session.clone(),
            owed: guest.owed.len(),
            restarts: guest.crashes,
        };
        self.book.iter().map(live).collect()
    }

    fn drain(&mut self, grace_ms: u64, reply: Reply<()>, myself: &Myself) {
        self.draining.get_or_insert_default().push(reply);
        self.deadlines.insert(Instant::now() + Duration::from_millis(grace_ms), Due::Drain, myself);
        self.tell_drained();
    }

    fn stop_all(&mut self, myself: &Myself) {
        self.grace_over = true;
        let busy: Vec<_> =
            self.book.iter().filter(|(_, guest)| !guest.owed.is_empty()).map(|(id, _)| id.clone()).collect();
        for session in busy {
            self.stop(&session, EndReason::Shutdown, myself);
            for waiting in 1..self.book.get_mut(&session).map_or(0, |guest| guest.owed.len()) {
                self.withdraw(&session, waiting);
            }
        }
    }

    fn tell_drained(&mut self) {
        // Asked at the end of every turn: the whole book is read only when somebody waits for it.
        if self.draining.is_some() && !self.book.owes() {
            for reply in self.draining.iter_mut().flat_map(|waiting| waiting.drain(..)) {
                reply.send(());
            }
        }
    }

    fn news(&mut self, session: &SessionId, news: TurnNews, myself: &Myself) {
        match news {
            TurnNews::Accepted { .. } => {}
            TurnNews::Refused { submission, error } => self.settle(session, &submission, Err(error), myself),
            TurnNews::Finished { submission, outcome } => self.settle(session, &submission, Ok(outcome), myself),
            TurnNews::Paused { submission, approval } => self.pause(session, &submission, approval, myself),
            TurnNews::Unpaused { submission } => self.unpause(session, &submission, myself),
            TurnNews::Left => self.said_all(session, myself),
        }
    }
}

fn owed(submission: TurnId, request: TurnMessage, reply: Owe, timeout_ms: u64, approval_timeout_ms: u64) -> Owed {
    Owed {
        submission,
        request,
        reply,
        timeout_ms,
        approval_timeout_ms,
        deadline: None,
        approvals: Vec::new(),
        left_ms: None,
        cancelled: false,
    }
}
