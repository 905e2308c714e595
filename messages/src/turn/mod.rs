//! The turn: a pure state machine. Messages in, effects out.
//!
//! ```text
//!            Start                     guard tripped
//!   Idle ──────────▶ Start ──▶ BuildPrompt ───────────────┐
//!    ▲                            ▲   │                    │
//!    │                            │   ▼                    │
//!    │              malformed once│ LlmInfer ──────────────┤ model failed
//!    │                            │   │ ParseAction         │
//!    │                            ├───┤────────────────────▶│ final
//!    │             all results in │   ▼                     ▼
//!    └────────────────────────────┴─ CallTool ──────────▶ Done ──▶ Idle
//!                                         guard, question
//! ```
//!
//! Owns the decisions of one session's turns and nothing else. The TurnActor, the
//! step-by-step runner, replay and simulation all drive this one machine. It never
//! waits, sends, reads a clock or draws a random number: the time of each message
//! is an argument. Total: any message in any state; what is late, doubled or
//! foreign changes nothing and asks for nothing.

mod accept;
mod action;
mod approvals;
mod brief;
mod calls;
mod condense;
mod configure;
mod done;
mod effect;
mod guard;
mod history;
mod infer;
mod journal;
mod message;
mod output;
mod prompt;
mod readers;
mod recall;
mod skills;
mod start;
mod state;
mod steer;
mod strict;
mod withdraw;

#[cfg(test)]
mod action_tests;
#[cfg(test)]
mod chance;
#[cfg(test)]
mod condense_tests;
#[cfg(test)]
mod decision_tests;
#[cfg(test)]
mod guard_tests;
#[cfg(test)]
mod layers_tests;
#[cfg(test)]
mod outside_tests;
#[cfg(test)]
mod pairing;
#[cfg(test)]
mod prompt_tests;
#[cfg(test)]
mod recall_tests;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod reply_tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod story_tests;
#[cfg(test)]
pub(crate) mod world;

pub use action::{AgentAction, parse_action};
pub use brief::{Brief, CondenseRules, OnRestart, PromptLayers};
pub use effect::Effect;
pub use guard::{Limits, Spent};
pub use message::{Recover, ResumeReply, Steer, TurnMessage};
pub(crate) use prompt::complaint;

use crate::Millis;
use crate::event::AgentEvent;
use crate::ids::{RecordId, RequestId, SessionId, Ticket, TurnId};
use crate::session::Session;
use crate::sessions::{EndReason, TurnOutcome};
use crate::store::{FORMAT, Fact, Record};
use approvals::Spoken;
use journal::Journal;
use prompt::Frame;
use serde::{Deserialize, Serialize};
use start::Arrival;
use state::{Gathering, State};
use std::sync::Arc;

/// The machine of one session. Plain data: saving it and loading it between any
/// two messages changes nothing that follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    id: SessionId,
    state: State,
    /// The fold of the journal; `None` until it was read.
    session: Option<Session>,
    journal: Journal,
    /// What came before the journal was read.
    arrivals: Vec<Arrival>,
    /// Decisions that came before the journal was read.
    #[serde(default)]
    spoken: Vec<Spoken>,
    brief: Option<Arc<Brief>>,
    /// What the prompts of the running turn share.
    frame: Option<Frame>,
    /// Accepted inputs nobody was told of yet, with the version that makes them durable.
    accepting: Vec<(u64, TurnId)>,
    /// Submissions that were cancelled before the journal was read.
    unwanted: Vec<TurnId>,
    /// Outcomes of withdrawn inputs, with the version that makes them durable.
    withdrawing: Vec<(u64, TurnOutcome)>,
    /// Changes of the options nobody was told of yet, with the version that makes them durable.
    #[serde(default)]
    configuring: Vec<(u64, RequestId)>,
    /// The journal was read for a change of the options only: what an earlier process left
    /// in it is as it was, until an input comes.
    #[serde(default)]
    unrecovered: bool,
    /// What was said into the turn before its journal was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    early: Vec<Steer>,
    /// What was said into the turn and nobody was told of yet, with the version that makes it durable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steering: Vec<(u64, RequestId)>,
    /// How many readers wait until what is written has gone to the store.
    #[serde(default)]
    flushing: u32,
    /// What to do with a turn that had begun when the journal is read.
    recover: Option<Recover>,
    tickets: u64,
    now: Millis,
    /// Nobody watches: no events are made. Whoever drives the machine says so anew.
    #[serde(skip)]
    unwatched: bool,
}

impl Turn {
    /// The machine of a session whose journal was not read yet.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            state: State::Idle,
            session: None,
            journal: Journal::default(),
            arrivals: Vec::new(),
            spoken: Vec::new(),
            brief: None,
            frame: None,
            accepting: Vec::new(),
            unwanted: Vec::new(),
            withdrawing: Vec::new(),
            configuring: Vec::new(),
            unrecovered: false,
            early: Vec::new(),
            steering: Vec::new(),
            flushing: 0,
            recover: None,
            tickets: 0,
            now: 0,
            unwatched: false,
        }
    }

    /// Says whether anybody sees the events of what follows; without being told,
    /// somebody does. Nothing else depends on it.
    pub fn watched(&mut self, watched: bool) {
        self.unwatched = !watched;
    }

    /// Takes one message that arrived at `at`, moves on, and says what must happen.
    ///
    /// The effects are to be performed in order. A message that is late or out of
    /// place changes nothing and asks for nothing.
    pub fn apply(&mut self, at: Millis, message: TurnMessage) -> Vec<Effect> {
        use TurnMessage as M;
        self.now = at;
        let mut effects = Vec::with_capacity(4);
        let e = &mut effects;
        match (std::mem::replace(&mut self.state, State::Idle), message) {
            (state, M::Start { input, brief }) => self.arrive(state, Arrival::Input(input), brief, e),
            (state, M::Resume { submission, token, reply, brief }) => {
                self.arrive(state, Arrival::Resume { submission, token, reply: *reply }, brief, e);
            }
            (state, M::Configure { asked, brief }) => self.arrive(state, Arrival::Configure(asked), brief, e),
            (State::Idle, M::Wake { brief, recover }) if self.session.is_none() => self.wake(brief, recover, e),
            (State::Start(wait), M::Loaded { ticket, result }) if wait.load == Some(ticket) => self.loaded(result, e),
            (State::Start(wait), M::ToolsListed { ticket, tools, servers }) if wait.tools_at == Some(ticket) => {
                self.tools_listed(Gathering { servers, ..wait }, tools, e);
            }
            (State::Start(wait), M::Profiled { ticket, result }) if wait.profile_at == Some(ticket) => {
                self.profiled(wait, result, e);
            }
            (State::Start(wait), M::LayersRead { ticket, result }) if wait.layers_at == Some(ticket) => {
                self.layers_read(wait, result, e);
            }
            (State::Start(wait), M::SkillsListed { ticket, index }) if wait.skills_at == Some(ticket) => {
                self.gathered(Gathering { skills_at: None, skills: Some(index), ..wait }, e);
            }
            (State::BuildPrompt, M::BuildPrompt) => self.build_prompt(e),
            (State::Condense(wait), M::Condensed { ticket, result }) if wait.awaiting == ticket => {
                self.condensed(*wait, result, e);
            }
            (State::LlmInfer { awaiting, asked: false, prompt_bytes }, M::LlmInfer { ticket, request })
                if awaiting == ticket =>
            {
                self.infer(ticket, request, prompt_bytes, e);
            }
            (State::LlmInfer { awaiting, asked: true, prompt_bytes }, M::ParseAction { ticket, result })
                if awaiting == ticket =>
            {
                self.parse_action(result, prompt_bytes, e);
            }
            (State::ParseAction(judging), M::OutputChecked { ticket, result }) if judging.awaiting == ticket => {
                self.output_checked(*judging, result, e);
            }
            (State::CallTool(calling), M::CallTool) if !calling.entered => self.call_tool(calling, e),
            (State::CallTool(calling), M::Checked { ticket, verdict }) => self.checked(calling, ticket, verdict, e),
            (State::CallTool(calling), M::ToolReturned { ticket, returned }) => {
                self.tool_returned(calling, ticket, *returned, e);
            }
            (state, M::Decided { approval, decision, asker }) => {
                self.heard(state, Spoken { approval, decision: *decision, asker }, e);
            }
            (State::Done(mut finishing), M::Done { ended }) if finishing.version.is_none() => {
                self.done(&mut finishing, *ended, e);
                self.state = State::Done(finishing);
            }
            (state, M::Saved { ticket, result }) if self.journal.awaits(ticket) => {
                self.saved(state, ticket, result, e);
            }
            (state, M::Steered { steer }) => self.steered(state, *steer, e),
            (state, M::Flush) => self.flush_for_reader(state, e),
            (state, M::Withdrawn { submission }) => self.withdrawn(state, submission, e),
            (state, M::Dismissed { words }) => self.stopped(&state, EndReason::Cancelled, None, Some(words), e),
            (state, M::Stopped { reason, submission }) => self.stopped(&state, reason, submission.as_ref(), None, e),
            (state, _late_or_out_of_place) => self.state = state,
        }
        effects
    }

    /// The session, once its journal was read.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The turn that runs, is suspended or ran last: whose events these are.
    pub fn turn_id(&self) -> Option<&TurnId> {
        let session = self.session.as_ref()?;
        let open = session.open.as_ref().map(|open| &open.input.turn);
        open.or_else(|| session.last.as_ref().map(|last| &last.turn_id))
    }

    /// What was written and not sent to the store yet, oldest first.
    pub fn unsent(&self) -> &[Arc<Record>] {
        self.journal.unsent()
    }

    /// Whether nothing runs and nothing waits.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle) && self.arrivals.is_empty()
    }

    /// Tells whoever watches.
    fn emit(&self, effects: &mut Vec<Effect>, event: impl FnOnce() -> AgentEvent) {
        if !self.unwatched {
            effects.push(Effect::Emit(Box::new(event())));
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Writes a fact: into the session now, into the store with the next flush.
    fn record(&mut self, turn: Option<TurnId>, fact: Fact) {
        let Some(session) = &mut self.session else { return };
        let version = session.version + 1;
        let record = Arc::new(Record {
            format: FORMAT,
            id: RecordId::numbered(self.journal.epoch, version),
            session: self.id.clone(),
            version,
            epoch: self.journal.epoch,
            turn,
            at: self.now,
            fact,
        });
        session.apply(&record);
        self.journal.write(record);
    }

    /// Writes a fact of the running turn.
    fn record_in_turn(&mut self, fact: Fact) {
        let turn = self.session.as_ref().and_then(|session| session.open.as_ref()).map(|open| open.input.turn.clone());
        self.record(turn, fact);
    }

    /// Sends what is written to the store.
    fn flush(&mut self, effects: &mut Vec<Effect>) {
        let tickets = &mut self.tickets;
        let next = || {
            *tickets += 1;
            Ticket(*tickets)
        };
        self.journal.flush(&self.id, next, effects);
    }

    /// The version of what is written now, for whatever goes on only when it is durable.
    fn awaited(&mut self) -> u64 {
        let version = self.version();
        self.journal.wait_for(version);
        version
    }

    /// A name that no other owner of the journal gives. What this one asks may be lost with
    /// it, and the next one counts its calls and records from where the journal ends.
    fn owned(&self, name: String) -> String {
        match self.journal.epoch {
            0 | 1 => name,
            epoch => format!("{name}-{epoch}"),
        }
    }

    fn version(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.version)
    }
}
