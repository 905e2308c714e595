//! TurnActor: the driver of one session's machine, with nothing in it.
//!
//! Owns the machine and what it has in flight. Everybody who answers it and the
//! sessions supervisor talk to it. It never decides, and no handler here waits:
//! each message goes through [`Turn::apply`], each effect is one send, each answer
//! comes back as a message with its ticket.

mod again;
mod closing;
pub mod compactor;

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;

use crate::clock;
#[cfg(feature = "drill")]
use crate::drill::traps::EffectEdges;
use crate::feed::Feed;
use crate::rooms::Rooms;
use crate::tools::output::check_apart;
use bob_messages::Millis;
use bob_messages::chat::CallStatus;
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, Ticket, TurnId};
use bob_messages::llm::{LlmError, LlmErrorKind};
use bob_messages::reply::{Interest, Reply};
use bob_messages::sessions::{EndReason, SessionsMessage};
use bob_messages::store::StoreMessage;
use bob_messages::tools::{ToolReturn, ToolsMessage};
use bob_messages::turn::{Effect, Turn, TurnMessage};
use closing::Closing;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::{Arc, OnceLock};

/// The actor of one session.
#[derive(Debug)]
pub struct TurnActor;

/// What a TurnActor is started with.
#[derive(Debug)]
pub struct TurnArguments {
    /// Whose turns it runs.
    pub session: SessionId,
    /// Where the other actors are found.
    pub rooms: Rooms,
    /// Where events go.
    pub feed: Arc<Feed>,
    /// Why it is stopped: set by the supervisor before it stops the actor, since
    /// a stopping actor is not told.
    pub ending: Arc<OnceLock<Ending>>,
}

/// Why an actor is stopped, and whose turn that is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub reason: EndReason,
    /// Which submission; `None` for whatever runs. A turn that has begun behind the
    /// one that is meant is left open: the next actor goes on with it.
    pub submission: Option<TurnId>,
}

/// A machine and what it has in flight.
#[derive(Debug)]
pub struct TurnState {
    turn: Turn,
    started: TurnArguments,
    /// Held for as long as an answer is wanted; dropping one abandons the question.
    /// Never more than a step's calls, so a list is searched fastest.
    in_flight: Vec<(Ticket, Interest)>,
}

impl Actor for TurnActor {
    type Msg = TurnMessage;
    type State = TurnState;
    type Arguments = TurnArguments;

    async fn pre_start(
        &self,
        _: ActorRef<TurnMessage>,
        started: TurnArguments,
    ) -> Result<TurnState, ActorProcessingErr> {
        Ok(TurnState { turn: Turn::new(started.session.clone()), started, in_flight: Vec::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<TurnMessage>,
        message: TurnMessage,
        state: &mut TurnState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(ticket) = message.answers()
            && let Some(at) = state.in_flight.iter().position(|(asked, _)| *asked == ticket)
        {
            drop(state.in_flight.swap_remove(at));
        }
        #[cfg(feature = "drill")]
        let mut edges = EffectEdges::of(&message);
        let now = clock::now();
        state.turn.watched(state.started.feed.is_watched());
        for effect in state.turn.apply(now, message) {
            #[cfg(feature = "drill")]
            edges.pass(state.started.rooms.pulses.traps(), &state.started.session)?;
            state.perform(effect, now, &myself);
        }
        Ok(())
    }

    /// Releases what is in flight here: after a stop the state travels to the
    /// supervisor, and dropping it may come late.
    async fn post_stop(&self, myself: ActorRef<TurnMessage>, state: &mut TurnState) -> Result<(), ActorProcessingErr> {
        let ending = state.started.ending.get().cloned();
        let (reason, submission) = ending.map_or((EndReason::Shutdown, None), |end| (end.reason, end.submission));
        let mut closing = Closing::new(&state.started);
        let now = clock::now();
        state.turn.watched(state.started.feed.is_watched());
        for effect in state.turn.apply(now, TurnMessage::Stopped { reason, submission }) {
            if let Some(effect) = closing.keep(effect) {
                state.perform(effect, now, &myself);
            }
        }
        closing.tell_when_saved();
        Ok(())
    }
}

impl TurnState {
    /// Performs one effect: one send, no decision. A question that nobody takes is
    /// answered all the same, because a dropped reply answers.
    fn perform(&mut self, effect: Effect, now: Millis, myself: &ActorRef<TurnMessage>) {
        let rooms = &self.started.rooms;
        match effect {
            Effect::Tell(message) => drop(myself.cast(message)),
            Effect::Claim { ticket, session } => again::claim(&rooms.store, session, ticket, myself.clone()),
            Effect::Append { ticket, confirm, append } => {
                let tell = answer(myself, move |result| TurnMessage::Saved { ticket, result });
                again::append(&rooms.store, append, confirm, tell);
            }
            Effect::Release { session, epoch } => rooms.store.tell(StoreMessage::Release { session, epoch }),
            Effect::ListTools { ticket, allow, brought } => {
                let (plane, session) = (rooms.tools.clone(), self.started.session.clone());
                let listed = move |tools| TurnMessage::ToolsListed { ticket, tools, servers: plane.briefs(&session) };
                rooms.tools.list_for(&self.started.session, &brought, allow, answer(myself, listed));
            }
            Effect::Profile { ticket, model } => {
                again::profile(rooms, model, answer(myself, move |result| TurnMessage::Profiled { ticket, result }));
            }
            Effect::ReadLayers { ticket, cwd } => {
                let read = move |result| TurnMessage::LayersRead { ticket, result };
                rooms.prompt_files.read(cwd, answer(myself, read));
            }
            Effect::ListSkills { ticket, cwd } => {
                rooms.skills.list(cwd, answer(myself, move |index| TurnMessage::SkillsListed { ticket, index }));
            }
            Effect::CheckOutput { ticket, schema, output } => {
                let tell = answer(myself, move |result| TurnMessage::OutputChecked { ticket, result });
                let unjudged = || Err("it could not be checked".to_owned());
                let (reply, interest) =
                    Reply::abandonable(move |result| tell(Option::unwrap_or_else(result, unjudged)));
                self.in_flight.push((ticket, interest));
                check_apart(schema, output, reply);
            }
            Effect::Infer { ticket, request, started_at, turn_timeout_ms } => {
                let tell = answer(myself, move |result| TurnMessage::ParseAction { ticket, result });
                let (reply, interest) =
                    Reply::abandonable(move |result| tell(Option::unwrap_or_else(result, || Err(llm_gone()))));
                self.in_flight.push((ticket, interest));
                let passed_ms = u64::try_from(now - started_at).unwrap_or(0);
                let remaining_ms = turn_timeout_ms.saturating_sub(passed_ms);
                again::infer(&rooms.llm, request, remaining_ms, reply);
            }
            Effect::Condense { ticket, request } => {
                let tell = answer(myself, move |result| TurnMessage::Condensed { ticket, result });
                let (reply, interest) =
                    Reply::abandonable(move |result| tell(Option::unwrap_or_else(result, || Err(compactor_gone()))));
                self.in_flight.push((ticket, interest));
                rooms.compactor.ask(&rooms.llm, request, reply);
            }
            Effect::Check { ticket, check, context } => {
                let myself = myself.clone();
                let (reply, interest) =
                    Reply::noted(move |verdict| drop(myself.cast(TurnMessage::Checked { ticket, verdict })));
                self.in_flight.push((ticket, interest));
                let check = rooms.memory.recalled(check);
                rooms.tools.tell(ToolsMessage::Check { check, context, reply });
            }
            Effect::Call { ticket, call, grant, context } => {
                let tell = answer(myself, move |returned| TurnMessage::ToolReturned { ticket, returned });
                let (reply, interest) =
                    Reply::abandonable(move |returned| tell(Box::new(Option::unwrap_or_else(returned, tool_gone))));
                self.in_flight.push((ticket, interest));
                rooms.tools.tell(ToolsMessage::Call { call, grant, context, reply });
            }
            Effect::Remember(standing) => rooms.memory.keep(standing),
            Effect::AbandonAll => self.in_flight.clear(),
            Effect::Report(news) => {
                let session = self.started.session.clone();
                rooms.sessions.tell(SessionsMessage::News { session, news });
            }
            Effect::Emit(event) => {
                if let Some(turn) = self.turn.turn_id() {
                    self.started.feed.emit(&self.started.session, turn, now, *event);
                }
            }
        }
    }
}

/// Sends what was answered into the turn's own mailbox; to nobody, if it has ended.
fn answer<T, F: FnOnce(T) -> TurnMessage>(myself: &ActorRef<TurnMessage>, message: F) -> impl FnOnce(T) + use<T, F> {
    let myself = myself.clone();
    move |answered| drop(myself.cast(message(answered)))
}

/// What is said of a question to a model room that went away.
fn llm_gone() -> LlmError {
    LlmError::new(LlmErrorKind::Gone, "the model room was restarted during the call; try again")
}

fn compactor_gone() -> AgentError {
    AgentError::Internal("whoever writes summaries ended during the work".into())
}

fn tool_gone() -> ToolReturn {
    ToolReturn::note(CallStatus::Unknown, "outcome unknown: the tool's actor went away during the call")
}
