//! One turn, step by step, without actors: for programs that control each step between the model and the calls.
//!
//! [`AgentRunner`] drives the state machine of a session's actor and replaces its environment: it calls the given
//! model, returns the tool calls to its caller, and keeps the journal in memory. Its type is the state, so an invalid
//! step does not compile. Between two steps it is plain data: it can be saved and resumed in another process.
//!
//! ```text
//!               ┌──────────── provide_tool_results ───────────┐
//!               ▼                                             │
//!   new ─▶ Ready ── infer ─▶ RequiresTool(AwaitingToolCall) ──┤
//!               │                       ▲   │ require_approval│
//!               │                approve│   ▼                 │
//!               │                     AwaitingApproval        │
//!               ▼                           │ deny            │
//!           Finished ◀──────────────────────┴──── cancel ─────┘
//! ```
//!
//! Its rules are those of a runtime: the [`Policy`](crate::tools::Policy) judges each call, arguments must fit the tool's
//! schema, guards are exact, every call has one result. Unlike a runtime, it does not retry, restart or store
//! anything.
//!
//! ```
//! use bob::runner::{AgentRunner, AgentStepResult, AwaitingApproval, RunnerRequest};
//! use bob::{ModelName, SessionId};
//! use bob::model::{ScriptedLlm, ScriptedReply};
//! use bob::tools::{ToolOutput, tool};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Add { a: i64, b: i64 }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use bob::tools::ToolPort;
//! # let add = tool("local/add", "Adds two numbers.", |_: Add, _| async { Ok(ToolOutput::text("42")) });
//! let model = ScriptedLlm::replies(vec![
//!     ScriptedReply::call("local/add", serde_json::json!({"a": 17, "b": 25})),
//!     ScriptedReply::text("They are 42."),
//! ]);
//! let request = RunnerRequest::text(SessionId::parse("demo")?, ModelName::parse("scripted:demo")?, "Add 17 and 25.")
//!     .tools(add.list_tools().await);
//! let AgentStepResult::RequiresTool(runner) = AgentRunner::new(request, &model)?.infer(&model).await else {
//!     panic!("the model wants a call");
//! };
//! // The program runs the call, shows it to a person, or sends it to another process.
//! let runner = runner.require_approval("adding costs money");
//! let runner: AgentRunner<AwaitingApproval> = serde_json::from_str(&serde_json::to_string(&runner)?)?;
//! let runner = runner.approve();
//! let results = runner.pending_calls().iter().map(|call| (call.id.clone(), ToolOutput::text("42"))).collect();
//! let AgentStepResult::Finished(done) = runner.provide_tool_results(results)?.infer(&model).await else {
//!     panic!("the model has its answer");
//! };
//! assert_eq!(done.response.content, "They are 42.");
//! # Ok(())
//! # }
//! ```
//!
//! # Sub-agents
//!
//! The [agents of a request](RunnerRequest::subagents) are tools: `agent/NAME`. A call of one is a turn of its own in a
//! session of its own, with the rules of a runtime for what it is told, for its tools, mode, model and limits, and for which
//! agents it may call ([the guide](crate::guide::subagents)). [`child`](AgentRunner::child) has the request of that turn, and
//! [`result_of`](AgentRunner::result_of) makes its end the result of the call, so what it used counts as used by the turn that
//! called. Both are known to a runner that was saved and loaded in between.
//! [`run_to_completion`](AgentRunner::run_to_completion) does all of this, at all levels.
//!
//! ```
//! # use bob::runner::{AgentRunner, AgentStepResult, RunnerRequest};
//! # use bob::{Agent, ModelName, SessionId};
//! # use bob::model::{ScriptedLlm, ScriptedReply};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = ScriptedLlm::replies(vec![
//! #     ScriptedReply::call("agent/reader", serde_json::json!({"task": "What does the letter say?"})),
//! #     ScriptedReply::text("The letter says 42."),
//! # ]);
//! # let model_of_reader = ScriptedLlm::replies(vec![ScriptedReply::text("It says 42.")]);
//! let reader = Agent::new("reader").instructions("You read letters.");
//! let request = RunnerRequest::text(SessionId::parse("demo")?, ModelName::parse("scripted:demo")?, "What is new?")
//!     .subagents([reader]);
//! let AgentStepResult::RequiresTool(runner) = AgentRunner::new(request, &model)?.infer(&model).await else {
//!     panic!("the model calls the agent");
//! };
//! let child = runner.child(&runner.pending_calls()[0].id).expect("the call is one of an agent");
//! let AgentStepResult::Finished(child) = AgentRunner::new(child, &model_of_reader)?.infer(&model_of_reader).await else {
//!     panic!("the agent has its answer");
//! };
//! let result = runner.result_of(&child).expect("it worked for a call of this turn");
//! let AgentStepResult::Finished(done) = runner.provide_tool_results(vec![result])?.infer(&model).await else {
//!     panic!("the model has its answer");
//! };
//! assert_eq!(done.response.content, "The letter says 42.");
//! assert_eq!(done.response.delegated.map(|used| used.steps), Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! In a step that calls agents, calls are pending when they may run: one behind an agent after it. An agent asks no user: it is
//! told so. Agents in the background work [inline](RunnerRequest::subagents). What a turn of an agent needs a person for is
//! asked where its steps are made: [`approval_wanted`](AgentRunner::approval_wanted).
//!
//! # What does not compile
//!
//! A call that was not requested cannot be answered, and one that waits for approval cannot be run:
//!
//! ```compile_fail,E0599
//! # use bob::runner::{AgentRunner, Ready};
//! fn answer_nothing(runner: AgentRunner<Ready>) {
//!     let _ = runner.provide_tool_results(Vec::new());
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use bob::runner::{AgentRunner, AwaitingApproval};
//! fn run_unapproved(runner: AgentRunner<AwaitingApproval>) {
//!     let _ = runner.provide_tool_results(Vec::new());
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use bob::runner::{AgentRunner, AwaitingToolCall};
//! async fn ask_before_the_results(runner: AgentRunner<AwaitingToolCall>, model: &bob::model::ScriptedLlm) {
//!     let _ = runner.infer(model).await;
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use bob::runner::{AgentRunner, AwaitingApproval};
//! fn decide_twice(runner: AgentRunner<AwaitingApproval>) {
//!     let _yes = runner.approve();
//!     let _no = runner.deny("after all not");
//! }
//! ```

mod any;
mod complete;
mod request;
mod run;
mod stopwatch;

pub use any::AnyRunner;
pub use request::RunnerRequest;

use crate::facade::AgentResponse;
use bob_actors::llm::LlmPort;
use bob_messages::chat::ToolCall;
use bob_messages::error::AgentError;
use bob_messages::ids::CallId;
use bob_messages::store::Record;
use bob_messages::tools::ToolOutput;
use run::{Run, Stand};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One turn in the state `S`: [`Ready`], [`AwaitingToolCall`] or [`AwaitingApproval`].
///
/// Serialises with transcript, tools and policy. The serialised form allows continuing the turn, so protect it too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRunner<S> {
    run: Box<Run>,
    state: S,
}

/// The model may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready(());

/// The model wants calls; their results are to be given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AwaitingToolCall {
    pending: Vec<Arc<ToolCall>>,
    approved: bool,
}

/// A person is to say whether the calls may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AwaitingApproval {
    pending: Vec<Arc<ToolCall>>,
    reason: String,
}

/// The state of a turn after the model was called.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentStepResult {
    /// It is over: an answer, a guard, a failure, a cancel, or a question to the user
    /// (`finish_reason` is `Suspended` then; the reply is the next turn's input).
    Finished(Finished),
    /// The model wants calls.
    RequiresTool(AgentRunner<AwaitingToolCall>),
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// The outcome; `saved` refers to the runner's own journal.
    pub response: Box<AgentResponse>,
    /// The session's journal, for its next turn.
    pub journal: Vec<Arc<Record>>,
}

impl<S> AgentRunner<S> {
    /// The session's journal so far, which the next turn takes in [`RunnerRequest::journal`].
    pub fn journal(&self) -> &[Arc<Record>] {
        &self.run.journal
    }

    /// Ends the turn here, with this reason as its content. Calls without a result are answered as cancelled.
    pub fn cancel(self, reason: impl Into<String>) -> Finished {
        self.run.cancel(reason.into())
    }
}

impl AgentRunner<Ready> {
    /// Begins a turn without calling the model.
    ///
    /// # Errors
    /// `Llm` when `model` does not know the request's model or has no key; `Invalid` when the input is empty or has a
    /// part that the model does not accept, when the journal belongs to another session, and when tools or policy are
    /// invalid.
    pub fn new(request: RunnerRequest, model: &dyn LlmPort) -> Result<Self, AgentError> {
        Ok(Self { run: Box::new(Run::begin(request, model)?), state: Ready(()) })
    }

    /// Calls the model until the turn ends or requires tool calls: after a malformed reply the model is called once
    /// more, and a call that could not run is answered as in a runtime.
    ///
    /// Each model call is one attempt, within the remaining time of the turn. Dropping the future closes the
    /// connection and loses the runner; keep a copy where that matters.
    pub async fn infer(mut self, model: &dyn LlmPort) -> AgentStepResult {
        match self.run.infer(model).await {
            Stand::Over(response) => AgentStepResult::Finished(Finished { response, journal: self.run.journal }),
            Stand::Calls(pending) => {
                let state = AwaitingToolCall { pending, approved: false };
                AgentStepResult::RequiresTool(AgentRunner { run: self.run, state })
            }
        }
    }
}

impl AgentRunner<AwaitingToolCall> {
    /// The calls to run, in the model's order. Calls that policy denied or that could not run have results already
    /// and are not included; nor are those that have to run behind a sub-agent.
    pub fn pending_calls(&self) -> &[Arc<ToolCall>] {
        &self.state.pending
    }

    /// The turn that works for a pending call, if that is one of a sub-agent which may run: to be run as any other turn. `None`
    /// for other calls, and before an [approval](Self::approval_wanted) that the call needs.
    pub fn child(&self, call: &CallId) -> Option<RunnerRequest> {
        self.run.child(call)
    }

    /// The result of the pending call that this turn [worked for](Self::child): its answer, or as an error why there is none,
    /// with what it has so far. `None` if it worked for no pending call of this turn.
    pub fn result_of(&self, child: &Finished) -> Option<(CallId, ToolOutput)> {
        self.run.result_of(child)
    }

    /// Why policy wants a person to approve of a pending call first; `None` when it does not.
    pub fn approval_wanted(&self, call: &CallId) -> Option<&str> {
        self.run.approval_wanted(call).filter(|_| !self.state.approved)
    }

    /// Gives the results: one for each pending call, in any order. They are recorded in the order of the calls.
    ///
    /// # Errors
    /// The runner as it was, with why: a result is missing, doubled or of no pending
    /// call, or policy wants an approval first ([`require_approval`](Self::require_approval)).
    pub fn provide_tool_results(
        mut self,
        results: Vec<(CallId, ToolOutput)>,
    ) -> Result<AgentRunner<Ready>, Box<NotTaken>> {
        match self.refusal(&results) {
            Some(why) => Err(Box::new(NotTaken { runner: self, why })),
            None => {
                self.run.give(results);
                Ok(AgentRunner { run: self.run, state: Ready(()) })
            }
        }
    }

    /// Asks a person whether the pending calls may run.
    pub fn require_approval(self, reason: impl Into<String>) -> AgentRunner<AwaitingApproval> {
        let state = AwaitingApproval { pending: self.state.pending, reason: reason.into() };
        AgentRunner { run: self.run, state }
    }

    fn refusal(&self, results: &[(CallId, ToolOutput)]) -> Option<String> {
        let pending = &self.state.pending;
        let unapproved = pending.iter().find_map(|call| Some((&call.name, self.approval_wanted(&call.id)?)));
        if let Some((name, reason)) = unapproved {
            return Some(format!("{name} needs an approval first: {reason}"));
        }
        for call in pending {
            let given = results.iter().filter(|(id, _)| *id == call.id).count();
            if given != 1 {
                return Some(format!("the call {} of {} has {given} results; give one", call.id, call.name));
            }
        }
        let foreign = results.iter().find(|(id, _)| pending.iter().all(|call| call.id != *id));
        foreign.map(|(id, _)| format!("no call {id} is pending"))
    }
}

impl AgentRunner<AwaitingApproval> {
    /// The calls that wait for approval, in the model's order.
    pub fn pending_calls(&self) -> &[Arc<ToolCall>] {
        &self.state.pending
    }

    /// The reason for asking.
    pub fn reason(&self) -> &str {
        &self.state.reason
    }

    /// They may run, exactly as they are. In a step that calls sub-agents each is [pending](AgentRunner::pending_calls) as soon as
    /// it may run, so there may be fewer of them now, or none: then no result is given, and the next step says how it goes on.
    pub fn approve(self) -> AgentRunner<AwaitingToolCall> {
        let mut run = self.run;
        run.allow();
        let state = AwaitingToolCall { pending: run.pending(), approved: true };
        AgentRunner { run, state }
    }

    /// They may not: the turn ends, with this reason as its content.
    pub fn deny(self, reason: impl Into<String>) -> Finished {
        self.run.cancel(reason.into())
    }
}

/// Results that were not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct NotTaken {
    /// The runner, as it was.
    pub runner: AgentRunner<AwaitingToolCall>,
    /// Description of the error.
    pub why: String,
}

#[cfg(test)]
mod children_tests;
#[cfg(test)]
mod runner_tests;
