//! TurnActor: the driver of one session's machine, without decisions of its own.
//!
//! Owns the machine and the questions in flight. It receives answers, and messages of the sessions supervisor. No
//! handler here waits: each message goes through [`Turn::apply`], each effect is one send, each
//! answer comes back as a message with its ticket.

mod again;
mod clock;
mod closing;
mod lease;

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;

use crate::at_work::Acting;
use crate::feed::Feed;
use crate::rooms::Rooms;
use crate::skills::Listed;
use crate::tools::agents;
use crate::tools::output::check_apart;
use crate::watchdog::Kinds;
use bob_messages::Millis;
use bob_messages::chat::CallStatus;
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, Ticket, TurnId};
use bob_messages::outcome::EndReason;
use bob_messages::reply::{Interest, Pulse, Reply, SoFar};
use bob_messages::store::Record;
use bob_messages::submission::SessionsMessage;
use bob_messages::tools::{ToolReturn, ToolsMessage};
use bob_messages::turn::{Child, Effect, Turn, TurnMessage};
use clock::Clock;
use closing::Closing;
use lease::{Lease, Tenant};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::cell::Cell;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

thread_local! {
    /// The buffer of effects, which all turns of a thread reuse. It is empty between two messages.
    static EFFECTS: Cell<Vec<Effect>> = const { Cell::new(Vec::new()) };
}

/// The actor of one session.
#[derive(Debug)]
pub struct TurnActor;

/// What a TurnActor is started with.
#[derive(Debug)]
pub struct TurnArguments {
    /// Whose turns it runs.
    pub session: SessionId,
    /// Where the other actors are found; all turns of a runtime share them.
    pub rooms: Arc<Rooms>,
    /// Where events go.
    pub feed: Arc<Feed>,
    /// Why the actor is stopped: set by the supervisor before the stop, since a stopping actor is not told.
    pub ending: Arc<OnceLock<Ending>>,
    /// Counts the signs of life of the running turn.
    pub pulse: Pulse,
    /// How long the turn that is open in the journal runs already, if another actor of this process began it.
    pub has_run: TimeRun,
}

/// How long a turn has run in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeRun {
    /// In all, in milliseconds.
    pub lasted_ms: u64,
    /// Without the time in which a person was asked, in milliseconds.
    pub ran_ms: u64,
}

/// Why an actor is stopped, and which turn ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The reason of the stop, which becomes that of the turn's end.
    pub reason: EndReason,
    /// The turn to end; `None` for any running turn. A turn that has begun after it stays open: the next actor
    /// continues it.
    pub submission: Option<TurnId>,
}

/// A machine and what it has in flight.
#[derive(Debug)]
pub struct TurnState {
    turn: Turn,
    started: TurnArguments,
    tenant: Tenant,
    clock: Clock,
    /// The version of the last record of which it is known what it cost.
    noted: u64,
    /// Held for as long as an answer is wanted; dropping one abandons the question.
    /// Never more than a step's calls, so a list is searched fastest.
    in_flight: Vec<InFlight>,
    _acting: Acting,
}

#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    _interest: Interest,
    /// What a call has put out so far, or readers have seen of an answer.
    so_far: SoFar,
}

impl Actor for TurnActor {
    type Msg = TurnMessage;
    /// In a box: an actor's start moves it from one future to the next.
    type State = Box<TurnState>;
    type Arguments = TurnArguments;

    async fn pre_start(
        &self,
        _: ActorRef<TurnMessage>,
        started: TurnArguments,
    ) -> Result<Box<TurnState>, ActorProcessingErr> {
        let tenant = Tenant(Lease::new(started.rooms.store.clone(), started.session.clone()));
        let mut turn = Turn::new(started.session.clone());
        turn.has_run(started.has_run.lasted_ms, started.has_run.ran_ms);
        let acting = started.rooms.at_work.begin();
        let (clock, in_flight) = (Clock::new(&started), Vec::new());
        Ok(Box::new(TurnState { turn, started, tenant, clock, noted: 0, in_flight, _acting: acting }))
    }

    /// Awaits nothing. The future is only the result, since every session's actor keeps memory for it all the time.
    fn handle(
        &self,
        myself: ActorRef<TurnMessage>,
        message: TurnMessage,
        state: &mut Box<TurnState>,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        ready(state.take(message, &myself))
    }

    /// Releases what is in flight here: after a stop the state travels to the
    /// supervisor, and dropping it may come late.
    async fn post_stop(
        &self,
        myself: ActorRef<TurnMessage>,
        state: &mut Box<TurnState>,
    ) -> Result<(), ActorProcessingErr> {
        let ending = state.started.ending.get().cloned();
        let (reason, submission) = ending.map_or((EndReason::Shutdown, None), |end| (end.reason, end.submission));
        let mut closing = Closing::new(&state.started);
        let now = state.clock.now(&state.started);
        state.turn.watched(state.started.feed.is_watched());
        for asked in &state.in_flight {
            if let Some(output) = asked.so_far.end() {
                let _nothing_follows = state.turn.apply(now, TurnMessage::SaidSoFar { ticket: asked.ticket, output });
            }
        }
        for effect in state.turn.apply(now, TurnMessage::Stopped { reason, submission }) {
            match &effect {
                Effect::Append { append, .. } => state.note(&append.records),
                Effect::Report(news) => state.tell_epoch(news),
                _nothing_to_note => {}
            }
            if let Some(effect) = closing.keep(effect) {
                let _the_turn_is_over = state.perform(effect, now.wall, &myself);
            }
        }
        closing.tell_when_saved();
        // Behind the last words: what was claimed and never taken up goes back, too.
        state.tenant.0.end();
        Ok(())
    }
}

impl TurnState {
    /// Takes one message and performs what follows from it.
    fn take(&mut self, message: TurnMessage, myself: &ActorRef<TurnMessage>) -> Result<(), ActorProcessingErr> {
        if let Some(ticket) = message.answers()
            && let Some(at) = self.in_flight.iter().position(|asked| asked.ticket == ticket)
        {
            drop(self.in_flight.swap_remove(at));
            self.started.pulse.beat();
        }
        let now = self.clock.of(&message, &self.started);
        self.turn.watched(self.started.feed.is_watched());
        let mut effects = EFFECTS.take();
        // Answers that are known at once: they are applied without being sent, in any order.
        let mut known = Vec::new();
        let mut next = Some(message);
        while let Some(message) = next {
            let of = message.kind_name();
            self.turn.apply_into(&mut effects, now, message);
            for (performed, effect) in effects.drain(..).enumerate() {
                self.started.rooms.watchdog.before_effect(&self.started.session, of, performed)?;
                known.extend(self.perform(effect, now.wall, myself));
            }
            next = known.pop();
        }
        EFFECTS.set(effects);
        Ok(())
    }

    /// Notes what these records cost the tenant, each once.
    fn note(&mut self, records: &[Arc<Record>]) {
        let Some(last) = records.last().filter(|last| last.version > self.noted) else { return };
        let before = std::mem::replace(&mut self.noted, last.version);
        if let Some(tenant) = self.turn.session().and_then(|session| session.tenant.as_ref()) {
            let new = records.iter().filter(|record| record.version > before);
            self.started.rooms.tenants.note(tenant, new);
        }
    }

    /// The answer is wanted for as long as this is kept.
    fn wants(&mut self, ticket: Ticket, interest: Interest, so_far: SoFar) {
        // Mostly the only one; the usual growth would make room for four.
        if self.in_flight.capacity() == 0 {
            self.in_flight.reserve_exact(1);
        }
        self.in_flight.push(InFlight { ticket, _interest: interest, so_far });
    }

    /// Performs one effect: one send, no decision. A question that cannot be sent is answered all the same, because a
    /// dropped reply answers. An answer that is at hand is returned instead of being sent.
    fn perform(&mut self, effect: Effect, now: Millis, myself: &ActorRef<TurnMessage>) -> Option<TurnMessage> {
        let rooms = &self.started.rooms;
        match effect {
            Effect::Tell(message) => drop(myself.cast(message)),
            Effect::Claim { ticket, session, whole } => {
                // What was appended and lost has versions that are given again.
                self.noted = 0;
                again::claim(&rooms.store, session, whole, ticket, myself.clone(), self.tenant.0.clone());
            }
            Effect::Append { ticket, confirm, pause_ms, append } => {
                self.note(&append.records);
                let rooms = &self.started.rooms;
                let tell = answer(myself, move |result| TurnMessage::Saved { ticket, result });
                again::append_after(Duration::from_millis(pause_ms), &rooms.store, append, confirm, tell);
            }
            Effect::Release { session: _, epoch } => self.tenant.0.release(epoch),
            Effect::ListTools { ticket, submission, allow, brought, tenant } => {
                let (registry, session) = (rooms.tools.clone(), self.started.session.clone());
                let listed =
                    move |tools| TurnMessage::ToolsListed { ticket, tools, servers: registry.briefs(&session) };
                let tell = answer(myself, listed.clone());
                let who = (&self.started.session, &submission, tenant.as_ref());
                return rooms.tools.list_for(who, &brought, allow, tell).map(listed);
            }
            Effect::Profile { ticket, model } => {
                if let Some(profile) = rooms.profiles.get(&model) {
                    return Some(TurnMessage::Profiled { ticket, result: Ok(profile) });
                }
                again::profile(rooms, model, answer(myself, move |result| TurnMessage::Profiled { ticket, result }));
            }
            // A runtime without the feature has no files to read.
            #[cfg(not(any(test, feature = "local-tools")))]
            Effect::ReadLayers { ticket, .. } => {
                return Some(TurnMessage::LayersRead { ticket, result: Ok(Arc::default()) });
            }
            #[cfg(any(test, feature = "local-tools"))]
            Effect::ReadLayers { ticket, cwd } => {
                let read = move |result| TurnMessage::LayersRead { ticket, result };
                rooms.prompt_files.read(cwd, answer(myself, read));
            }
            Effect::ListSkills { ticket, cwd, query } => {
                let listed = move |Listed { index, scores }| TurnMessage::SkillsListed { ticket, index, scores };
                rooms.skills.list(cwd, query, answer(myself, listed));
            }
            Effect::CheckOutput { ticket, schema, output } => {
                let tell = answer(myself, move |result| TurnMessage::OutputChecked { ticket, result });
                let unjudged = || Err("it could not be checked".to_owned());
                let (reply, interest) =
                    Reply::abandonable(move |result| tell(Option::unwrap_or_else(result, unjudged)));
                self.wants(ticket, interest, SoFar::default());
                check_apart(schema, output, reply);
            }
            Effect::Infer { ticket, request, remaining_ms } => {
                let tell = answer(myself, move |result| TurnMessage::ParseAction { ticket, result });
                let (reply, interest) =
                    Reply::abandonable(move |result| tell(Option::unwrap_or_else(result, || Err(crate::llm::gone()))));
                // Without subscribers the text of the answer is not collected.
                let seen = if self.started.feed.is_watched() { SoFar::kept() } else { SoFar::default() };
                let seen = seen.beating(&self.started.pulse);
                let reply = reply.keeping(&seen);
                self.wants(ticket, interest, seen);
                again::infer(&self.started.rooms.llm, request, remaining_ms, reply);
            }
            Effect::Condense { ticket, request } => {
                let tell = answer(myself, move |result| TurnMessage::Condensed { ticket, result });
                let (reply, interest) =
                    Reply::abandonable(move |result| tell(Option::unwrap_or_else(result, || Err(compactor_gone()))));
                self.wants(ticket, interest, SoFar::default());
                let rooms = &self.started.rooms;
                rooms.compactor.ask(&rooms.llm, request, reply);
            }
            Effect::Check { ticket, check, context } => {
                let (myself, so_far) = (myself.clone(), SoFar::kept().beating(&self.started.pulse));
                let (reply, interest) =
                    Reply::noted(move |verdict| drop(myself.cast(TurnMessage::Checked { ticket, verdict })));
                let reply = reply.keeping(&so_far);
                self.wants(ticket, interest, so_far);
                let rooms = &self.started.rooms;
                match rooms.memory.recalled(check, &context) {
                    Ok(check) => rooms.tools.tell(ToolsMessage::Check { check, context, reply }),
                    Err(not_run) => reply.send(not_run),
                }
            }
            Effect::Call { ticket, call, grant, context } => {
                let tell = answer(myself, move |returned| TurnMessage::ToolReturned { ticket, returned });
                let so_far = SoFar::kept().beating(&self.started.pulse);
                let said = so_far.clone();
                let (reply, interest) = Reply::abandonable(move |returned: Option<ToolReturn>| {
                    tell(Box::new(returned.unwrap_or_else(|| tool_gone(&said))));
                });
                let reply = reply.keeping(&so_far);
                self.wants(ticket, interest, so_far);
                self.started.rooms.tools.tell(ToolsMessage::Call { call, grant, context, reply });
            }
            Effect::Child { ticket, call, child } => {
                let tell = answer(myself, move |returned| TurnMessage::ToolReturned { ticket, returned });
                let (reply, interest) = Reply::abandonable(move |returned: Option<ToolReturn>| {
                    tell(Box::new(returned.unwrap_or_else(|| tool_gone(&SoFar::default()))));
                });
                self.wants(ticket, interest, SoFar::default());
                let rooms = &self.started.rooms;
                let artifacts = rooms.tools.runtime().artifacts().clone();
                let reply = agents::spilled(artifacts, self.started.session.clone(), reply);
                match *child {
                    Child::Works { task, turn_config, again } => {
                        agents::have_worked(&rooms.sessions, &call, &task, (turn_config, again), reply);
                    }
                    Child::Resumes { resumption, turn_config } => {
                        let rooms = (&rooms.sessions, &rooms.store);
                        agents::have_resumed(rooms, &call, *resumption, turn_config, reply);
                    }
                    Child::Worked { session, turn } => agents::read_outcome(&rooms.store, &call, session, turn, reply),
                }
            }
            Effect::GiveUp { tool, wait } => {
                let session = self.started.session.clone();
                rooms.tools.tell(ToolsMessage::GiveUp { session, tool, wait });
            }
            Effect::Abandon { ticket } => self.in_flight.retain(|asked| asked.ticket != ticket),
            Effect::Remember(standing) => rooms.memory.keep(standing),
            Effect::AbandonAll => self.in_flight.clear(),
            Effect::Report(news) => {
                self.tell_epoch(&news);
                rooms.sessions.tell(SessionsMessage::News { session: self.started.session.clone(), news });
            }
            Effect::Emit(event) => {
                if let Some(turn) = self.turn.turn_id() {
                    self.started.feed.emit_under(self.turn.epoch(), &self.started.session, turn, now, *event);
                }
            }
        }
        None
    }
}

/// Sends an answer into the turn's own mailbox, if the turn has not ended.
fn answer<T, F: FnOnce(T) -> TurnMessage>(myself: &ActorRef<TurnMessage>, message: F) -> impl FnOnce(T) + use<T, F> {
    let myself = myself.clone();
    move |answered| drop(myself.cast(message(answered)))
}

fn compactor_gone() -> AgentError {
    if std::thread::panicking() {
        return AgentError::Internal("the context compactor panicked: it has a fault of its own".into());
    }
    AgentError::Internal("the context compactor ended during the work".into())
}

/// The result of a call whose actor ended while it ran.
fn tool_gone(so_far: &SoFar) -> ToolReturn {
    let text = "outcome unknown: the tool's actor went away during the call".to_owned();
    ToolReturn::note(CallStatus::Unknown, so_far.behind(text))
}
