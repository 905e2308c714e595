//! The sessions supervisor: one child per live session, and the callers waiting for outcomes.
//!
//! Submissions arrive here and outcomes leave here; in between, a turn talks to each room directly. The supervisor
//! starts TurnActors, restarts them from the journal after a crash, stops them for a cancellation or a deadline, and
//! answers each submission exactly once. It never looks into a turn and never waits for an actor.
//!
//! | file | what is in it |
//! |---|---|
//! | `admit` | submissions: refused, admitted or queued; cancellation; draining |
//! | `family` | sessions that work for calls of others: their place, and their end |
//! | `endings` | every way a turn can end; crashes and restarts |
//! | `decisions` | questions to a person, and decisions |
//! | `clock` | each turn's time limit, and deadlines that come due |
//! | `configure` | changes of a session's options |
//! | `idle` | stopping the actors of idle sessions |
//! | `steer` | messages sent into running turns |
//! | `unsaved` | turns that were stopped and whose end the store did not confirm |
//! | `live` | a snapshot of the live sessions |

mod admit;
mod clock;
mod configure;
pub(crate) mod decisions;
mod endings;
mod family;
mod idle;
mod live;
mod steer;
mod unsaved;

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;

use crate::children::{ChildSpec, Subtree};
use crate::deadlines::{Deadlines, Due};
use crate::session_table::{Clock, Leaving, OutcomeReply, PendingChange, PendingReply, SessionTable};
use bob_actors::feed::Feed;
use bob_actors::metrics::Metrics;
use bob_actors::rooms::Rooms;
use bob_actors::turn::{Ending, TimeRun, TurnActor, TurnArguments};
use bob_actors::watchdog::ActorPath;
use bob_messages::admission::Admission;
pub use bob_messages::admission::{MOST_RUNNING, MOST_WAITING};
use bob_messages::ids::{SessionId, TenantId, TurnId};
use bob_messages::limits::Limits;
use bob_messages::outcome::EndReason;
use bob_messages::reply::Reply;
use bob_messages::submission::{SessionsMessage, TurnNews};
use bob_messages::turn::TurnMessage;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, SupervisionEvent};
use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The time between a stop and a kill. Handlers never wait, so only one that blocks its thread reaches it.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long all sessions together may take to stop when the supervisor stops.
const STOP_ALL_WITHIN: Duration = Duration::from_secs(3);

/// How long a new supervisor waits for the actors of one that died. They were killed with it, and a kill takes effect
/// when a handler returns; what one that blocks its thread still appends is refused by the store.
const LAST_HANDLERS_WITHIN: Duration = Duration::from_secs(1);

/// The default of [`SessionRules::passivate_after`].
pub const PASSIVATE_AFTER: Duration = Duration::from_secs(60);

/// The supervisor of all sessions.
#[derive(Debug)]
pub struct SessionsSupervisor;

/// The arguments of a [`SessionsSupervisor`].
#[derive(Debug, Clone)]
pub struct SessionsArguments {
    /// Addresses of the other actors.
    pub rooms: Rooms,
    /// Receives events.
    pub feed: Arc<Feed>,
    /// Limits of concurrency and idle time.
    pub rules: SessionRules,
}

/// How many turns run at once, how many submissions are queued, and how long idle actors are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// The most turns that run at once, at least 1. A turn that waits for a person counts.
    pub max_running_turns: usize,
    /// The most submissions that are queued, of all sessions together; further ones are refused with `Overloaded`.
    pub max_waiting_turns: usize,
    /// How long after its last turn the actor of an idle session is stopped.
    pub passivate_after: Duration,
}

impl Default for SessionRules {
    fn default() -> Self {
        Self { max_running_turns: MOST_RUNNING, max_waiting_turns: MOST_WAITING, passivate_after: PASSIVATE_AFTER }
    }
}

/// The state of a [`SessionsSupervisor`].
#[derive(Debug)]
pub struct SessionsState {
    me: Myself,
    started: SessionsArguments,
    /// The addresses again, as the sessions' actors share them.
    rooms: Arc<Rooms>,
    table: SessionTable,
    admission: Admission,
    deadlines: Deadlines,
    unsaved: unsaved::Unsaved,
    draining: Option<Vec<Reply<()>>>,
    /// Callers waiting to hear whether their decision counts.
    deciding: decisions::PendingDecisions,
    /// The grace period of a drain is over: the first turn of each session is stopped.
    grace_over: bool,
    /// Turns that are stopped then stay open, for another process.
    hands_over: bool,
    /// Actors that ended, whether they were stopped, and the reason, in order. Each end is handled after the actor's
    /// last reports.
    ended: VecDeque<(ActorId, bool, String)>,
}

/// The sessions supervisor as a child of the root: it starts last and stops first.
pub fn child(rooms: &Rooms, feed: &Arc<Feed>, rules: SessionRules) -> ChildSpec {
    let started = SessionsArguments { rooms: rooms.clone(), feed: Arc::clone(feed), rules };
    let core = ChildSpec::core("sessions", rooms.sessions.clone(), move || (SessionsSupervisor, started.clone()));
    ChildSpec { shutdown_ms: 4_000, ..core }.inside(Subtree::Ask(live::asking(rooms)))
}

type Myself = ActorRef<SessionsMessage>;

impl Actor for SessionsSupervisor {
    type Msg = SessionsMessage;
    type State = SessionsState;
    type Arguments = SessionsArguments;

    async fn pre_start(&self, me: Myself, started: SessionsArguments) -> Result<SessionsState, ActorProcessingErr> {
        let rules = started.rules;
        // An actor in the middle of a handler could report its turn beside the actor that continues it.
        let _ended_or_left_behind = timeout(LAST_HANDLERS_WITHIN, started.rooms.at_work.all_ended()).await;
        // The turns of a supervisor that died are not known here.
        started.rooms.tools.all_rest();
        Ok(SessionsState {
            me,
            rooms: Arc::new(started.rooms.clone()),
            admission: Admission::new(
                rules.max_running_turns,
                rules.max_waiting_turns,
                Arc::clone(started.rooms.tenants.rules()),
            ),
            started,
            table: SessionTable::default(),
            deadlines: Deadlines::default(),
            unsaved: unsaved::Unsaved::default(),
            draining: None,
            deciding: decisions::PendingDecisions::default(),
            grace_over: false,
            hands_over: false,
            ended: VecDeque::new(),
        })
    }

    fn handle(
        &self,
        myself: Myself,
        message: SessionsMessage,
        state: &mut SessionsState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        match message {
            SessionsMessage::Submit { session, input, turn_config, is_repeated, reply } => {
                let (submission, limits) = (input.turn.clone(), input.limits);
                let tenant = input.tenant().cloned();
                let request = TurnMessage::Start { input, turn_config: Arc::clone(&turn_config) };
                let pending = PendingReply { is_repeated, ..pending((submission, tenant), request, reply, &limits) };
                state.submit(&session, pending, &turn_config, &myself);
            }
            SessionsMessage::Resume {
                session,
                submission,
                token,
                said,
                parent,
                limits,
                tenant,
                turn_config,
                reply,
            } => {
                let request = TurnMessage::Resume {
                    submission: submission.clone(),
                    token,
                    reply: Box::new(said),
                    parent,
                    turn_config: Arc::clone(&turn_config),
                };
                let pending = pending((submission, tenant), request, reply, &limits);
                state.submit(&session, pending, &turn_config, &myself);
            }
            SessionsMessage::Cancel { session, turn, tenant, reply } => {
                reply.send(match tenant {
                    Some(tenant) => state.cancel_of(&session, &tenant, &myself),
                    None => state.cancel(&session, turn.as_ref(), &myself),
                });
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
            SessionsMessage::TenantLoad { tenant, reply } => reply.send(state.tenant_load(&tenant)),
            SessionsMessage::Drain { grace_ms, hand_over, reply } => {
                state.hands_over |= hand_over;
                state.drain(grace_ms, reply, &myself);
            }
            SessionsMessage::Configure { session, asked, turn_config, reply } => {
                state.configure(&session, PendingChange { asked, reply }, &turn_config, &myself);
            }
        }
        state.metrics().load(state.load());
        ready(Ok(()))
    }

    /// Overrides the default, which would end all sessions with the first that ends.
    ///
    /// The event of an actor's end overtakes the actor's last reports, which are still in the mailbox. So the end is
    /// handled in a message behind them; otherwise a request that is already answered would be sent again to the next
    /// actor.
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
        // A cast to itself cannot fail.
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

    /// Starts the session's actor. The actor reads the journal itself, so this never waits.
    fn open(&mut self, session: &SessionId, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session) else { return };
        entry.ending = Arc::new(OnceLock::new());
        let signs = entry.pulse.signs();
        let has_run = entry.clock_mut().map_or_else(TimeRun::default, |clock| clock.has_run(signs));
        let started = TurnArguments {
            session: session.clone(),
            rooms: Arc::clone(&self.rooms),
            feed: Arc::clone(&self.started.feed),
            ending: Arc::clone(&entry.ending),
            pulse: entry.pulse.clone(),
            has_run,
        };
        let actor = self.started.rooms.watchdog.wrap(TurnActor, ActorPath::Session(session.clone()));
        match ActorRuntime::spawn_linked_instant(None, actor, started, myself.get_cell()) {
            Ok((actor, starts)) => {
                self.table.actor_started(session, actor);
                self.tell_ended(session);
                if self.draining.is_some() {
                    self.send(session, self.end_of_the_runtime());
                }
                endings::watch_start(session.clone(), starts, myself.clone());
            }
            Err(error) => {
                self.settle_all(session, &format!("the session's actor could not be started: {error}"), myself)
            }
        }
    }

    /// Sends a message to the session's actor. If the actor just ended, the message is lost; its supervision event
    /// follows and is handled.
    fn send(&mut self, session: &SessionId, message: TurnMessage) {
        if let Some(actor) = self.table.get_mut(session).and_then(|entry| entry.actor.as_ref()) {
            drop(actor.cast(message));
        }
    }

    fn stop(&mut self, session: &SessionId, reason: EndReason, myself: &Myself) {
        let Some(entry) = self.table.get_mut(session).filter(|entry| entry.stopping.is_none()) else { return };
        let Some(actor) = entry.actor.clone() else { return };
        // What is handed over is not ended.
        let submission = entry.running().filter(|_| reason != EndReason::HandedOver).cloned();
        let ending = Ending { reason, submission: submission.clone() };
        let kill = Due::Kill(session.clone(), actor.get_id());
        let kill_at = self.deadlines.insert(Instant::now() + STOP_GRACE, kill, myself);
        entry.stopping = Some(Leaving { reason, submission, ended: false, reported_all: false, kill_at });
        entry.since = Instant::now();
        entry.is_followed &= !matches!(reason, EndReason::Passivated | EndReason::Shutdown | EndReason::HandedOver);
        // Set before the stop: the actor reads it while it stops.
        let _the_first_reason_counts = entry.ending.set(ending);
        actor.stop(Some(reason.to_string()));
        self.stop_children(session, reason, myself);
    }

    fn news(&mut self, session: &SessionId, news: TurnNews, myself: &Myself) {
        match news {
            TurnNews::Began { submission, turn, limits, asks_at_limits, tenant } => {
                self.began(session, (submission, turn, tenant), (&limits, asks_at_limits), myself);
            }
            TurnNews::Refused { submission, error } => self.turn_refused(session, &submission, error, myself),
            TurnNews::Finished { submission, outcome } => {
                self.unsaved.note(session, &submission, &outcome);
                self.settle(session, &submission, Ok(outcome), myself);
            }
            TurnNews::NotOpen { submission } => self.unsaved.forget(session, &submission),
            TurnNews::Paused { submission, question } => {
                let (rooms, approval) = (&self.started.rooms, question.approval_id.clone());
                let asking = decisions::ask(rooms, *question);
                self.pause(session, &submission, approval, asking, myself);
            }
            TurnNews::AtLimit { submission, question } => self.at_limit(session, &submission, *question, myself),
            TurnNews::GivenUp { submission, reason } => self.given_up(session, &submission, reason, myself),
            TurnNews::Decided { approval, asker, heard } => self.decided(session, &approval, asker, heard),
            TurnNews::Unpaused { submission } => self.unpause(session, &submission, myself),
            TurnNews::Steered { request_id, result } => self.steered(session, &request_id, &result),
            TurnNews::Flushed => self.flushed(session),
            TurnNews::ChildGivenUp { child, turn } => self.give_up_child(session, &child, turn, myself),
            TurnNews::Closed => self.closed(session, myself),
            TurnNews::Orphaned { child } => self.close_orphan(session, &child, myself),
            TurnNews::TasksEnd { children } => self.end_tasks(&children, myself),
            TurnNews::BetweenSteps => self.stop(session, EndReason::HandedOver, myself),
            TurnNews::Left => self.reported_all(session, myself),
            TurnNews::Configured { request_id, result } => self.configured(session, &request_id, &result, myself),
        }
    }
}

fn pending(
    (submission, tenant): (TurnId, Option<TenantId>),
    request: TurnMessage,
    reply: OutcomeReply,
    limits: &Limits,
) -> PendingReply {
    let asks = matches!(&request, TurnMessage::Start { input, .. } if input.may_ask_at_limits());
    let clock = Clock::new(limits, asks);
    PendingReply {
        turn: submission.clone(),
        submission,
        tenant,
        request,
        reply,
        shared: 0,
        clock,
        admitted: false,
        is_repeated: false,
        cancelled: false,
        submitted_at: Instant::now(),
        cancel_asked: None,
    }
}
