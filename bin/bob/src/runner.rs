//! One turn, step by step, without actors: for programs that want to stand between the
//! model and every call.
//!
//! [`AgentRunner`] drives the same machine as an actor of a session does, and stands in
//! for everything around it: it asks the model it is given, hands the calls out, and
//! keeps the journal in itself. What may be done next is in its type, so a wrong step
//! does not compile. Between two steps it is plain data: it can be saved and can go on
//! in another process.
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
//! Its rules are those of a runtime: the [`Policy`](crate::Policy) judges each call,
//! its arguments must fit the tool's schema, guards are exact, every call has one
//! result. What a runtime does besides it does not: nothing is retried, nothing is
//! restarted, and nothing is stored but in the runner and where its owner puts it.
//!
//! ```
//! use bob::runner::{AgentRunner, AgentStepResult, AwaitingApproval, RunnerRequest};
//! use bob::{ModelName, ScriptedLlm, ScriptedReply, SessionId, ToolOutput, tool};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Add { a: i64, b: i64 }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use bob::ToolPort;
//! # let add = tool("local/add", "Adds two numbers.", |_: Add, _| async { Ok(ToolOutput::text("42")) });
//! let model = ScriptedLlm::replies(vec![
//!     ScriptedReply::call("local/add", serde_json::json!({"a": 17, "b": 25})),
//!     ScriptedReply::text("They are 42."),
//! ]);
//! let request = RunnerRequest::text(SessionId::parse("demo")?, ModelName::parse("scripted:demo")?, "Add 17 and 25.")
//!     .tools(add.list_tools());
//! let AgentStepResult::RequiresTool(runner) = AgentRunner::new(request, &model)?.infer(&model).await else {
//!     panic!("the model wants a call");
//! };
//! // The call is ours to run, to show to somebody, or to send to another process.
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
//! A call that was not asked for cannot be answered, and one that waits for a person
//! cannot be run:
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
//! async fn ask_before_the_results(runner: AgentRunner<AwaitingToolCall>, model: &bob::ScriptedLlm) {
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

mod complete;
mod request;
mod run;
mod stopwatch;

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
/// Serialises whole, with the transcript, the tools and the policy: whoever holds it may
/// go on with the turn, so it is kept as the session itself is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRunner<S> {
    run: Box<Run>,
    state: S,
}

/// The model may be asked.
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

/// Where a turn is after the model was asked.
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
pub struct Finished {
    /// Everything that is known of it; `saved` says that it is in the journal here.
    pub response: Box<AgentResponse>,
    /// The session's journal, for its next turn.
    pub journal: Vec<Arc<Record>>,
}

impl<S> AgentRunner<S> {
    /// The session's journal so far. Given to [`RunnerRequest::journal`], it is what the
    /// next turn goes on with.
    pub fn journal(&self) -> &[Arc<Record>] {
        &self.run.journal
    }

    /// Ends the turn here, with this reason as its content. Calls without a result are
    /// answered as cancelled.
    pub fn cancel(self, reason: impl Into<String>) -> Finished {
        self.run.cancel(reason.into())
    }
}

impl AgentRunner<Ready> {
    /// Begins a turn. Nothing is asked yet.
    ///
    /// # Errors
    /// `Llm` when `model` knows nothing of the request's model or has no key, `Invalid`
    /// when the input is empty or has a part the model does not take, when the journal is
    /// of another session, and when tools or policy are wrong.
    pub fn new(request: RunnerRequest, model: &dyn LlmPort) -> Result<Self, AgentError> {
        Ok(Self { run: Box::new(Run::begin(request, model)?), state: Ready(()) })
    }

    /// Asks the model until the turn is over or wants calls: a reply that is no action
    /// is asked for once more, a call that could not run is answered as a runtime does.
    ///
    /// Each question is one attempt, within what is left of the turn's time since the
    /// call of this method. Dropping the future closes the connection and loses the
    /// runner; keep a copy where that matters.
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
    /// The calls the model wants, in its order. What policy denies and what could not
    /// run is not among them: that is answered already.
    pub fn pending_calls(&self) -> &[Arc<ToolCall>] {
        &self.state.pending
    }

    /// Why policy wants a person to approve of a pending call first; `None` when it does
    /// not.
    pub fn approval_wanted(&self, call: &CallId) -> Option<&str> {
        self.run.approval_wanted(call).filter(|_| !self.state.approved)
    }

    /// Gives the results: one for each pending call, in any order. They are recorded in
    /// the order of the calls.
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
    /// The calls that are asked about, in the model's order.
    pub fn pending_calls(&self) -> &[Arc<ToolCall>] {
        &self.state.pending
    }

    /// Why a person is asked.
    pub fn reason(&self) -> &str {
        &self.state.reason
    }

    /// They may run, exactly as they are.
    pub fn approve(self) -> AgentRunner<AwaitingToolCall> {
        let state = AwaitingToolCall { pending: self.state.pending, approved: true };
        AgentRunner { run: self.run, state }
    }

    /// They may not: the turn ends, with this reason as its content.
    pub fn deny(self, reason: impl Into<String>) -> Finished {
        self.run.cancel(reason.into())
    }
}

/// Results that were not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct NotTaken {
    /// The runner, as it was.
    pub runner: AgentRunner<AwaitingToolCall>,
    /// What is wrong with the results.
    pub why: String,
}

#[cfg(test)]
mod runner_tests;
