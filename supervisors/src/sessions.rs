//! The sessions supervisor: one child per live session, and the guest book.
//!
//! Stands at the door: submissions come in here and outcomes go out here; inside
//! the loop a turn talks to each room directly. It starts TurnActors, starts them
//! again from the journal after a crash, stops them for a cancel or a deadline, and
//! sees to it that whoever submitted is answered exactly once. It never looks into
//! a turn and never waits for anybody.
//!
//! | file | what is in it |
//! |---|---|
//! | `admit` | submissions: refused, let in, or waiting; cancels; the end of the program |
//! | `endings` | every way a turn can end; crashes and what follows |
//! | `people` | questions to a person, and decisions |
//! | `clock` | each turn's time, and what comes due |
//! | `errands` | changes of a session's options, which are no turns |
//! | `idle` | actors that have nothing to do are let go |
//! | `steer` | what is said into running turns |
//! | `live` | what all of this looks like from outside |

mod admit;
mod clock;
mod endings;
mod errands;
mod idle;
mod live;
pub(crate) mod people;
mod steer;

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;

use crate::admission::Admission;
pub use crate::admission::{MOST_RUNNING, MOST_WAITING};
use crate::deadlines::{Deadlines, Due};
use crate::family::{ChildSpec, Inside};
use crate::guests::{Clock, Errand, GuestBook, Leaving, Owe, Owed};
use bob_actors::feed::Feed;
use bob_actors::metrics::Metrics;
use bob_actors::pulse::Place;
use bob_actors::rooms::Rooms;
use bob_actors::turn::{Ending, TimeRun, TurnActor, TurnArguments};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::limits::Limits;
use bob_messages::outcome::EndReason;
use bob_messages::reply::Reply;
use bob_messages::submission::{SessionsMessage, TurnNews};
use bob_messages::turn::TurnMessage;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, SupervisionEvent};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a stopped actor may take before it is killed. Its handlers never wait,
/// so this is reached only by one that blocks its thread.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long all sessions together may take to stop when the supervisor does.
const STOP_ALL_WITHIN: Duration = Duration::from_secs(3);

/// How long a new supervisor waits for the actors of one that died. They were killed with it, and a kill acts when a handler
/// returns; what one that blocks its thread still appends is refused by the store.
const LAST_HANDLERS_WITHIN: Duration = Duration::from_secs(1);

/// How long an actor is idle before it is let go, unless said otherwise.
pub const PASSIVATE_AFTER: Duration = Duration::from_secs(60);

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
    /// How much is done at once, and for how long idle actors are kept.
    pub rules: SessionRules,
}

/// How many turns run at once, how many wait for that, and for how long idle actors
/// are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// Turns that run at once, at least 1; one that waits for a person runs, too.
    pub max_running_turns: usize,
    /// Submissions that wait for that, of all sessions together; one more is refused
    /// with `Overloaded`.
    pub max_waiting_turns: usize,
    /// How long after its last turn an idle actor is let go.
    pub passivate_after: Duration,
}

impl Default for SessionRules {
    fn default() -> Self {
        Self { max_running_turns: MOST_RUNNING, max_waiting_turns: MOST_WAITING, passivate_after: PASSIVATE_AFTER }
    }
}

/// The guest book and what goes with it.
#[derive(Debug)]
pub struct SessionsState {
    me: Myself,
    started: SessionsArguments,
    book: GuestBook,
    admission: Admission,
    deadlines: Deadlines,
    draining: Option<Vec<Reply<()>>>,
    /// Who decided and waits to hear whether it counts.
    deciding: people::Deciding,
    /// The grace of a drain is over: whatever is first is stopped.
    grace_over: bool,
    /// Actors that ended, whether politely and of what, in order. Each is seen to behind the news it left.
    ended: VecDeque<(ActorId, bool, String)>,
}

/// The sessions supervisor as a child of the root: it starts last and stops first.
pub fn child(rooms: &Rooms, feed: &Arc<Feed>, rules: SessionRules) -> ChildSpec {
    let started = SessionsArguments { rooms: rooms.clone(), feed: Arc::clone(feed), rules };
    let core = ChildSpec::core("sessions", rooms.sessions.clone(), move || (SessionsSupervisor, started.clone()));
    ChildSpec { shutdown_ms: 4_000, ..core }.inside(Inside::Ask(live::asking(rooms)))
}

type Myself = ActorRef<SessionsMessage>;

impl Actor for SessionsSupervisor {
    type Msg = SessionsMessage;
    type State = SessionsState;
    type Arguments = SessionsArguments;

    async fn pre_start(&self, me: Myself, started: SessionsArguments) -> Result<SessionsState, ActorProcessingErr> {
        let rules = started.rules;
        // One in the middle of a handler would tell of its turn beside the actor that goes on with it.
        let _ended_or_left_behind = timeout(LAST_HANDLERS_WITHIN, started.rooms.at_work.all_ended()).await;
        Ok(SessionsState {
            me,
            started,
            admission: Admission::new(rules.max_running_turns, rules.max_waiting_turns),
            book: GuestBook::default(),
            deadlines: Deadlines::default(),
            draining: None,
            deciding: people::Deciding::default(),
            grace_over: false,
            ended: VecDeque::new(),
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
                let owed = owed(submission, request, reply, &limits);
                state.submit(&session, owed, &brief, &myself);
            }
            SessionsMessage::Resume { session, submission, token, said, limits, brief, reply } => {
                let request = TurnMessage::Resume {
                    submission: submission.clone(),
                    token,
                    reply: Box::new(said),
                    brief: Arc::clone(&brief),
                };
                let owed = owed(submission, request, reply, &limits);
                state.submit(&session, owed, &brief, &myself);
            }
            SessionsMessage::Cancel { session, turn, reply } => {
                reply.send(state.cancel(&session, turn.as_ref(), &myself));
            }
            SessionsMessage::Passivate { session, reply } => reply.send(state.passivate(&session, &myself)),
            SessionsMessage::Decide { session, approval, decision, reply } => {
                state.decide(&session, approval, decision, reply);
            }
            SessionsMessage::Steer { session, steer, reply } => state.steer(&session, steer, reply),
            SessionsMessage::Flush { session, reply } => state.flush_for_reader(&session, reply),
            SessionsMessage::News { session, news } => state.news(&session, news, &myself),
            SessionsMessage::NotBegun { session, why } => state.not_begun(&session, &why, &myself),
            SessionsMessage::Due => state.due(&myself),
            SessionsMessage::ActorEnded => {
                if let Some((actor, polite, reason)) = state.ended.pop_front() {
                    state.actor_ended(actor, polite, &reason, &myself);
                }
            }
            SessionsMessage::Live { most, reply } => reply.send(state.live(most)),
            SessionsMessage::Load { reply } => reply.send(state.load()),
            SessionsMessage::Drain { grace_ms, reply } => state.drain(grace_ms, reply, &myself),
            SessionsMessage::Configure { session, asked, brief, reply } => {
                state.configure(&session, Errand { asked, reply }, &brief, &myself);
            }
        }
        state.metrics().load(state.load());
        Ok(())
    }

    /// Never the default, which would end all sessions with the first that ends.
    ///
    /// The end of an actor is told before what the actor had said, which is still in the mailbox. It is seen to in its
    /// place, behind that: otherwise what is paid already would be said again to the next actor.
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
                state.ended.push_back((actor.get_id(), polite, reason));
            }
            SupervisionEvent::ActorFailed(actor, error) => {
                state.ended.push_back((actor.get_id(), false, error.to_string()));
            }
            _starts_and_groups_need_nothing => return Ok(()),
        }
        // To itself, which is there.
        let _it_comes = myself.cast(SessionsMessage::ActorEnded);
        Ok(())
    }

    async fn post_stop(&self, myself: Myself, _: &mut SessionsState) -> Result<(), ActorProcessingErr> {
        let reason = Some(EndReason::Shutdown.to_string());
        myself.get_cell().stop_children_and_wait(reason, Some(STOP_ALL_WITHIN)).await;
        Ok(())
    }
}

impl SessionsState {
    fn metrics(&self) -> &Metrics {
        &self.started.rooms.metrics
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
            has_run: guest.clock_mut().map_or_else(TimeRun::default, |clock| clock.has_run()),
        };
        let actor = self.started.rooms.pulses.attend(TurnActor, Place::Session(session.clone()));
        match ActorRuntime::spawn_linked_instant(None, actor, started, myself.get_cell()) {
            Ok((actor, starts)) => {
                self.book.moved_in(session, actor);
                endings::watch_start(session.clone(), starts, myself.clone());
            }
            Err(error) => {
                self.settle_all(session, &format!("the session's actor could not be started: {error}"), myself)
            }
        }
    }

    /// Says something to the session's actor. To nobody, if it just ended: its
    /// supervision event is on the way and says what follows.
    fn say(&mut self, session: &SessionId, message: TurnMessage) {
        if let Some(actor) = self.book.get_mut(session).and_then(|guest| guest.actor.as_ref()) {
            drop(actor.cast(message));
        }
    }

    /// Stops the session's actor, which ends its running turn for this reason.
    fn stop(&mut self, session: &SessionId, reason: EndReason, myself: &Myself) {
        let Some(guest) = self.book.get_mut(session).filter(|guest| guest.leaving.is_none()) else { return };
        let Some(actor) = guest.actor.clone() else { return };
        let submission = guest.running().cloned();
        let ending = Ending { reason, submission: submission.clone() };
        let kill = Due::Kill(session.clone(), actor.get_id());
        let kill_at = self.deadlines.insert(Instant::now() + STOP_GRACE, kill, myself);
        guest.leaving = Some(Leaving { reason, submission, ended: false, said_all: false, kill_at });
        guest.since = Instant::now();
        // Set before the stop: the actor reads it while it stops.
        let _the_first_reason_counts = guest.ending.set(ending);
        actor.stop(Some(reason.to_string()));
    }

    fn news(&mut self, session: &SessionId, news: TurnNews, myself: &Myself) {
        match news {
            TurnNews::Began { submission, limits } => self.began(session, submission, &limits, myself),
            TurnNews::Refused { submission, error } => self.settle(session, &submission, Err(error), myself),
            TurnNews::Finished { submission, outcome } => self.settle(session, &submission, Ok(outcome), myself),
            TurnNews::Paused { submission, question } => self.pause(session, &submission, *question, myself),
            TurnNews::Decided { approval, asker, counts } => self.decided(session, &approval, asker, counts),
            TurnNews::Unpaused { submission } => self.unpause(session, &submission, myself),
            TurnNews::Steered { request_id, result } => self.steered(session, &request_id, &result),
            TurnNews::Flushed => self.flushed(session),
            TurnNews::Left => self.said_all(session, myself),
            TurnNews::Configured { request_id, result } => self.configured(session, &request_id, &result, myself),
        }
    }
}

fn owed(submission: TurnId, request: TurnMessage, reply: Owe, limits: &Limits) -> Owed {
    let clock = Clock::new(limits);
    Owed {
        submission,
        request,
        reply,
        clock,
        let_in: false,
        said_again: false,
        cancelled: false,
        came: Instant::now(),
        cancel_asked: None,
    }
}
