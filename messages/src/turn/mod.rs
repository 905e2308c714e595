//! The turn: a pure state machine. Messages in, effects out; `ARCHITECTURE.md` has its diagram.
//!
//! A reply stays in `ParseAction` only while it is checked against a schema. `AtLimit` waits for a decision about a
//! limit; it is entered from `BuildPrompt` or `CallTool` and returns there. `Stopped`, `Dismissed` and the loss of the
//! journal lead from any state to `Idle`; `Stopped` records the outcome of a running turn first.
//!
//! Owns the decisions of one session's turns and nothing else. The TurnActor, the step-by-step runner, replay and
//! simulation all drive this one machine. It never waits, sends, reads a clock or draws a random number: the time of
//! each message is an argument. [`Turn::apply`] is total: it accepts any message in any state. A late, repeated or
//! unexpected message leaves the state as it is and has no effects.

mod accept;
mod acks;
mod action;
mod agents;
mod approvals;
mod at_limit;
mod below;
mod calls;
mod condense;
mod configure;
mod context;
mod done;
mod effect;
mod history;
mod infer;
mod interrupted;
mod layers;
mod lookup;
mod message;
mod news;
mod outbox;
mod output;
mod output_schema;
mod prompt;
mod record;
mod requests;
mod reselect;
mod results;
mod select;
mod server_waits;
mod skills;
mod snapshot;
mod start;
mod state;
mod steer;
mod store_failure;
mod strict;
mod tasks;
mod time;
mod withdraw;

#[cfg(test)]
mod action_tests;
#[cfg(test)]
mod condense_tests;
#[cfg(test)]
mod interrupted_tests;
#[cfg(test)]
mod lookup_tests;
#[cfg(test)]
mod prompt_tests;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
#[path = "../turn_tests/mod.rs"]
pub(crate) mod tests;

pub use action::{AgentAction, parse_action};
pub(crate) use below::ENDED_ASKING;
pub use effect::{Child, Effect};
pub(crate) use interrupted::{INTERRUPTED, NOT_BEGUN, PROGRAM_STOPPED};
pub use message::{Recover, TurnMessage};
pub use time::Moment;

use crate::event::StepEvent;
use crate::ids::{SessionId, Ticket, TurnId};
use crate::outcome::EndReason;
use crate::session_state::{OpenTurn, Session};
use crate::store::{Record, StoreError};
use crate::turn_config::TurnConfig;
use acks::{Ack, Settled};
use approvals::understood;
use news::{refused_token, steered};
use outbox::Outbox;
use prompt::Frame;
use serde::{Deserialize, Serialize};
use state::State;
use std::sync::Arc;
use tasks::Background;
use time::Time;

/// The machine of one session. Plain data: saving it and loading it between any
/// two messages changes nothing that follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    id: SessionId,
    state: State,
    /// The fold of the journal; `None` until it was read.
    session: Option<Session>,
    #[serde(rename = "journal")]
    outbox: Outbox,
    /// Requests that wait until the journal is read: for the first time, or again for an old outcome, which is done
    /// only while no turn runs.
    deferred: Vec<TurnMessage>,
    /// Acknowledgements to be sent when the record of a version is durable, oldest first.
    acks: Vec<(u64, Ack)>,
    #[serde(rename = "brief")]
    turn_config: Option<Arc<TurnConfig>>,
    /// What the prompts of the running turn share.
    frame: Option<Frame>,
    /// Whether nothing begins or goes on that an earlier owner left: the journal was read only for a change of the
    /// options, or to close a turn, and no input has come since, or the actor has stopped.
    unrecovered: bool,
    /// What to do with a turn that had begun when the journal is read.
    recover: Option<Recover>,
    /// The version at which the session was too large for a snapshot; 0 when it never was.
    oversized_at: u64,
    /// A request may be in the journal already: it was sent to an earlier actor, or its turn has ended.
    came_before: bool,
    tickets: u64,
    /// When the last message came, and how long the turn has run.
    now: Time,
    /// A person is asked for a session that works for the turn.
    #[serde(default)]
    asked_below: bool,
    /// Sub-agents that work in the background; in a box, since most sessions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    background: Option<Box<Background>>,
    /// The runtime ends: results of tasks begin no turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    draining: bool,
    /// Another process goes on with the turn behind its present step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hands_over: bool,
    /// No events are made, since there are no subscribers. Not part of the state: the driver sets it anew.
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
            outbox: Outbox::default(),
            deferred: Vec::new(),
            acks: Vec::new(),
            turn_config: None,
            frame: None,
            unrecovered: false,
            recover: None,
            oversized_at: 0,
            came_before: false,
            tickets: 0,
            now: Time::default(),
            asked_below: false,
            background: None,
            draining: false,
            hands_over: false,
            unwatched: false,
        }
    }

    /// Sets whether there are subscribers for the events that follow; by default there are. Nothing else depends on it.
    pub fn watched(&mut self, watched: bool) {
        self.unwatched = !watched;
    }

    /// Sets how long the open turn has already run in this process when this machine replaces an earlier one:
    /// `lasted_ms` in all, `ran_ms` without the time in which a person was asked. Both in milliseconds.
    pub fn has_run(&mut self, lasted_ms: u64, ran_ms: u64) {
        self.now.go_on(lasted_ms, ran_ms);
    }

    /// Applies one message that arrived at `at`. Returns the effects, which are to be performed in order.
    ///
    /// A late or unexpected message leaves the state as it is and has no effects.
    pub fn apply(&mut self, at: impl Into<Moment>, message: TurnMessage) -> Vec<Effect> {
        let mut effects = Vec::with_capacity(4);
        self.apply_into(&mut effects, at, message);
        effects
    }

    /// As [`apply`](Self::apply), for a driver that keeps its list: the effects are added to it.
    pub fn apply_into(&mut self, effects: &mut Vec<Effect>, at: impl Into<Moment>, message: TurnMessage) {
        self.now.pass(at.into(), self.asks_a_person());
        self.step(message, effects);
        self.fail_stranded(effects);
        self.look_up_deferred(effects);
    }

    /// The transitions. What [`Turn::preprocess`] handles concerns no state.
    fn step(&mut self, message: TurnMessage, e: &mut Vec<Effect>) {
        use TurnMessage as M;
        if self.preprocess(&message, e) || self.take_child_result(&message, e) {
            return;
        }
        match (std::mem::replace(&mut self.state, State::Idle), message) {
            (State::Idle, M::Wake { turn_config, recover }) if self.session.is_none() => {
                self.wake(turn_config, recover, e)
            }
            (State::Idle, M::Start { input, .. }) => self.take_input(input, e),
            (State::Idle, M::Resume { submission, token, reply, parent, .. }) => {
                self.take_resume(submission, &token, *reply, None, parent.is_some(), e);
            }
            (State::Load { awaiting, whole }, M::Loaded { ticket, result }) if awaiting == ticket => {
                self.loaded(result, whole, e);
            }
            (State::Start(mut wait), M::ToolsListed { ticket, tools, servers }) if wait.tools_at == Some(ticket) => {
                (wait.tools_at, wait.tools, wait.servers) = (None, Some(tools), servers);
                self.gathered(wait, e);
            }
            (State::Start(mut wait), M::Profiled { ticket, result }) if wait.profile_at == Some(ticket) => {
                (wait.profile_at, wait.profile) = (None, Some(result));
                self.gathered(wait, e);
            }
            (State::Start(mut wait), M::LayersRead { ticket, result }) if wait.layers_at == Some(ticket) => {
                (wait.layers_at, wait.layers) = (None, Some(result));
                self.gathered(wait, e);
            }
            (State::Start(mut wait), M::SkillsListed { ticket, index, scores }) if wait.skills_at == Some(ticket) => {
                (wait.skills_at, wait.skills, wait.scores) = (None, Some(index), scores);
                self.gathered(wait, e);
            }
            (State::Start(wait), M::Saved { result: Ok(_), .. }) => self.gathered(wait, e),
            (State::Start(wait), M::Saved { result: Err(error), .. }) if wait.until.is_some() => {
                self.lose(&State::Start(wait), &error, e);
            }
            (State::BuildPrompt, M::BuildPrompt) => self.build_prompt(e),
            (State::Condense(wait), M::Condensed { ticket, result }) if wait.awaiting == ticket => {
                self.condensed(*wait, result, e);
            }
            (State::ReselectSkills(wait), M::SkillsListed { ticket, index, scores }) if wait.awaiting == ticket => {
                self.reselect_skills(wait, index, scores.as_deref(), e);
            }
            (State::LlmInfer { awaiting, asked: false, prompt_bytes, .. }, M::LlmInfer { ticket, request })
                if awaiting == ticket =>
            {
                self.infer(ticket, request, prompt_bytes, e);
            }
            (State::LlmInfer { awaiting, asked: true, prompt_bytes, .. }, M::ParseAction { ticket, result })
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
            (State::LlmInfer { awaiting, asked: true, prompt_bytes, .. }, M::SaidSoFar { ticket, output })
                if awaiting == ticket =>
            {
                let seen = Some(output.into_boxed_str()).filter(|seen| !seen.trim().is_empty());
                self.state = State::LlmInfer { awaiting, asked: true, prompt_bytes, seen };
            }
            (State::CallTool(mut calling), M::SaidSoFar { ticket, output }) => {
                calling.said(ticket, output);
                self.state = State::CallTool(calling);
            }
            (state, M::Decided { approval, decision, .. }) if self.is_limit_question(&approval) => {
                self.limit_decided(state, &approval, &decision, e);
            }
            (state, M::Quiet) => {
                self.state = state;
                self.ask_when_quiet(e);
            }
            (State::CallTool(calling), M::Decided { approval, decision, .. }) if calling.entered => {
                self.decided(calling, &approval, *decision, e);
            }
            (State::Done(mut finishing), M::Done { ended }) if finishing.version.is_none() => {
                self.done(&mut finishing, *ended, e);
                self.state = State::Done(finishing);
            }

            // The store has answered, in the other states that wait for it.
            (
                state,
                M::Saved { result: Err(error @ (StoreError::Fenced { .. } | StoreError::Conflict { .. })), .. },
            ) => {
                self.lose(&state, &error, e);
            }
            (State::CallTool(calling), M::Saved { result, .. }) if calling.entered => {
                self.intents_stored(calling, result, e);
            }
            (State::Done(finishing), M::Saved { result, .. }) => self.outcome_saved(finishing, &result, e),

            // What comes from callers while a turn runs, or concerns none.
            (state, M::Start { input, .. }) => {
                self.state = state;
                self.queue_input(input, e);
            }
            (state, M::Resume { submission, .. }) => {
                self.state = state;
                e.push(refused_token(&submission));
            }
            (state, M::GivenUp { turn, turn_config }) => {
                self.state = state;
                self.given_up(turn, turn_config, e);
            }
            (state, M::Configure { asked, .. }) => {
                self.state = state;
                self.configure(&asked, e);
            }
            // The calls are looked at later, and find what was decided.
            (state, M::Decided { approval, decision, .. }) => {
                self.state = state;
                self.record_decision(&approval, &understood(*decision), e);
            }
            (state @ (State::Idle | State::Done(_)), M::Steered { steer }) => {
                self.state = state;
                e.push(steered(&steer.request_id, Ok(false)));
            }
            (state, M::Steered { steer }) => {
                let behind_reply = matches!(state, State::LlmInfer { .. } | State::ParseAction(_));
                self.state = state;
                self.steer(*steer, behind_reply, e);
            }
            // Its outcome is reported.
            (State::Done(finishing), M::Withdrawn { submission }) if finishing.submission == submission => {
                self.state = State::Done(finishing);
            }
            (state, M::Withdrawn { submission }) => {
                self.state = state;
                self.withdraw(&submission, e);
            }
            (state, M::Flush) => {
                self.state = state;
                self.flush(e);
                self.acks.push((0, Ack::Flushed));
                self.settle_acks(Settled::Durable, e);
            }
            (state, M::AskedBelow { asking }) => (self.state, self.asked_below) = (state, asking),
            (state, M::Dismissed { words }) => self.stopped(&state, EndReason::Cancelled, None, Some(words), e),
            (state, M::Stopped { reason, submission }) => self.stopped(&state, reason, submission.as_ref(), None, e),
            (state, _late_or_out_of_place) => self.state = state,
        }
    }

    /// The session, once its journal was read.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The epoch under which this owner writes; `None` while it does not own the session.
    pub fn epoch(&self) -> Option<u64> {
        Some(self.outbox.epoch).filter(|epoch| *epoch > 0)
    }

    /// The turn that runs, is suspended or ran last: whose events these are.
    pub fn turn_id(&self) -> Option<&TurnId> {
        let session = self.session.as_ref()?;
        let open = session.open.as_ref().map(|open| &open.input.turn);
        open.or_else(|| session.last.as_ref().map(|last| &last.turn_id))
    }

    /// What was written and not sent to the store yet, oldest first.
    pub fn unsent(&self) -> &[Arc<Record>] {
        self.outbox.unsent()
    }

    /// Whether nothing runs and nothing waits.
    pub fn is_idle(&self) -> bool {
        let waits = |request: &TurnMessage| !matches!(request, TurnMessage::Ended { .. });
        matches!(self.state, State::Idle) && !self.deferred.iter().any(waits)
    }

    /// The turn that runs.
    fn open_turn(&self) -> Option<&OpenTurn> {
        self.session.as_ref().and_then(Session::running)
    }

    /// Sends an event to the subscribers.
    fn emit<E: Into<StepEvent>>(&self, effects: &mut Vec<Effect>, event: impl FnOnce() -> E) {
        if !self.unwatched {
            effects.push(Effect::Emit(Box::new(event().into())));
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}
