//! The turn a session is in: facts only, enough to go on from after a crash.

use super::OpenBelow;
use crate::Millis;
use crate::agent::Delegation;
use crate::approvals::AskedTool;
use crate::chat::{CallStatus, Delegated, GuardReason, Message, ServerWait, StopReason, ToolCall, ToolResult, Usage};
use crate::ids::{ApprovalId, CallId, ModelName, RequestId, TurnId};
use crate::input::TurnInput;
use crate::limits::{Limits, Spent};
use crate::models::Selected;
use crate::outcome::{DeniedCall, TranscriptEntry, TurnOutcome};
use crate::permission::PermissionMode;
use crate::skills::{ReselectCause, Reselected, Reselecting, SelectedSkills};
use crate::store::Suspension;
use crate::tools::{CallTraits, Risk, ToolTitle};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A turn that has begun and not ended; a suspended one is kept the same way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenTurn {
    /// What it was asked.
    pub input: Arc<TurnInput>,
    /// Who is owed the outcome: the input's turn, or the submission that resumed it.
    pub submission: TurnId,
    /// The model it runs on.
    pub model: ModelName,
    /// How that was selected, if it was not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<Box<Selected>>,
    /// The model that answered last: a fallback may have, and a provider may say more exactly which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<ModelName>,
    /// When it began, or was resumed, by the time of day: for people, no limit is judged by it.
    pub started_at: Millis,
    /// What was used of its limits.
    pub spent: Spent,
    /// The model's last words.
    pub text: String,
    /// Why the model stopped, the last time.
    pub stop_reason: Option<StopReason>,
    /// Tokens so far.
    pub usage: Usage,
    /// What sub-agents used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<Box<Delegated>>,
    /// How many replies in a row were no action.
    pub malformed_in_a_row: u32,
    /// Where in the history the user's message is.
    pub message_at: usize,
    /// The guard that forbade a call of a closed step: the turn ends here.
    pub tripped: Option<GuardReason>,
    /// The step whose calls are not all answered.
    pub step: Option<OpenStep>,
    /// The calls of closed steps with their results, in call order.
    pub closed: Vec<(Arc<ToolCall>, Arc<ToolResult>)>,
    /// What it waits for, when it is suspended.
    pub suspended: Option<Suspension>,
    /// Steer messages that came while a step was open or the model was asked.
    pub steered: Vec<Arc<Message>>,
    /// How many steer messages no model call has had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: usize,
    /// The plain inputs that answered its questions, oldest first. The last one's caller
    /// is owed the outcome, under its own name and labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repliers: Vec<RunCaller>,
    /// What was replied when it was resumed last; empty for a decision, and of one that was not resumed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reply: String,
    /// The skills it was given, once they were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Box<SelectedSkills>>,
    /// What is to have them chosen again, and what the model asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reselecting: Option<Box<Reselecting>>,
    /// What a person was asked when it reached a limit, and the limits since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<Box<AtLimit>>,
}

fn is_zero(many: &usize) -> bool {
    *many == 0
}

/// A turn that reached a limit, and asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtLimit {
    /// The id of the last question.
    pub question: ApprovalId,
    /// The limit that it is about.
    pub guard: GuardReason,
    /// Whether the turn goes on, once that is decided.
    pub goes_on: Option<bool>,
    /// The limits of the turn, with what was added to them.
    pub limits: Limits,
}

/// A caller that answered the question of a suspended turn with a plain input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunCaller {
    /// The caller's name for the request.
    pub request_id: Option<RequestId>,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
}

/// A model's calls and what is known of them. It enters the history when every
/// call has its result, so that the history is valid at every moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenStep {
    /// The model's words beside the calls.
    pub text: String,
    /// The calls, in order.
    pub calls: Vec<OpenCall>,
}

/// One call of the open step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenCall {
    /// The call.
    pub call: Arc<ToolCall>,
    /// What people are shown of its tool.
    #[serde(default, skip_serializing_if = "ToolTitle::is_unknown")]
    pub tool: ToolTitle,
    /// Set once it was about to run with side effects.
    pub intent: Option<CallTraits>,
    /// The session that works for it in the background, once it was about to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Arc<Delegation>>,
    /// Set when a guard forbids it; it and the calls after it are not run.
    pub refused: Option<GuardReason>,
    /// The question to a person about it.
    pub approval: Option<OpenApproval>,
    /// Set once it came back without its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<ExternalResult>,
    /// Set once the sub-agent that works for it was suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Box<OpenBelow>>,
    /// Its result.
    pub result: Option<Arc<ToolResult>>,
}

/// A result that is supplied from outside the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalResult {
    /// A description for people of what is awaited.
    pub what: String,
    /// The reply that is the result, once it came. With the task of a server, an empty reply has the server asked again;
    /// where the server asks for something, the reply is for it.
    pub came: Option<String>,
    /// Whether that reply was about to be sent to the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sent: bool,
    /// What the tool server gave, if it is one that can be asked for the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Arc<ServerWait>>,
}

impl OpenCall {
    /// Whether a person was asked about it and said no.
    pub fn is_refused(&self) -> bool {
        self.approval.as_ref().is_some_and(|asked| asked.allowed == Some(false))
    }

    /// What its tool server gave instead of the result, while there is none.
    pub fn server_wait(&self) -> Option<&Arc<ServerWait>> {
        self.outside.as_ref().filter(|_| self.result.is_none())?.server.as_ref()
    }

    /// Whether its result is still waited for from outside, and no person is asked about it before.
    pub fn waits_outside(&self) -> bool {
        let waits = self.outside.as_ref().is_some_and(|outside| outside.came.is_none());
        self.result.is_none() && waits && self.is_permitted()
    }

    /// Whether no person was asked about it, or the last one said yes.
    pub(crate) fn is_permitted(&self) -> bool {
        self.approval.as_ref().is_none_or(|asked| asked.allowed == Some(true))
    }
}

/// A question to a person about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenApproval {
    /// Its id.
    pub id: ApprovalId,
    /// How risky the call is.
    pub risk: Risk,
    /// The decision, once there is one.
    pub allowed: Option<bool>,
    /// Why not, when it was no.
    pub reason: String,
    /// Why a person is asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The tool as it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<AskedTool>>,
    /// How often a person was asked about the call; more than once when its tool changed meanwhile.
    #[serde(default)]
    pub times: u32,
}

impl OpenStep {
    /// Whether every call has its result.
    pub fn is_complete(&self) -> bool {
        self.calls.iter().all(|call| call.result.is_some())
    }

    /// The call of this id.
    pub fn call_mut(&mut self, id: &CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|open| open.call.id == *id)
    }
}

impl OpenTurn {
    /// Whether this question to a person has no answer yet.
    pub fn asks(&self, question: &ApprovalId) -> bool {
        let limit = self.at_limit.iter().any(|reached| reached.question == *question && reached.goes_on.is_none());
        let mut calls = self.step.iter().flat_map(|step| &step.calls).filter_map(|open| open.approval.as_ref());
        limit || calls.any(|asked| asked.id == *question && asked.allowed.is_none())
    }

    /// Whether an empty reply to the suspended turn has a tool server asked for the result of a call.
    pub fn asks_server(&self) -> bool {
        let mut calls = self.step.iter().flat_map(|step| &step.calls);
        calls
            .find(|open| open.waits_outside())
            .is_some_and(|open| open.server_wait().is_some_and(|wait| wait.is_task()))
    }

    /// The limits in force: those of the input, with what a person added to them.
    pub fn limits(&self) -> &Limits {
        self.at_limit.as_deref().map_or(&self.input.limits, |reached| &reached.limits)
    }

    /// Counts a call of the model, or returns the guard that forbids it.
    pub(super) fn take_call(&mut self, call: &ToolCall) -> Option<GuardReason> {
        let limits = *self.limits();
        self.spent.take_call(call, &limits).err()
    }

    /// Counts what other sessions used for the turn.
    pub(super) fn count(&mut self, used: Option<&Delegated>) {
        let Some(used) = used else { return };
        let limits = *self.limits();
        self.spent.delegate(used, &limits);
        self.delegated.get_or_insert_default().add(used);
    }

    /// Its skills were chosen; a first selection stays.
    pub(super) fn selected(&mut self, skills: &SelectedSkills) {
        self.skills.get_or_insert_with(|| Box::new(skills.clone()));
    }

    /// Its skills were chosen again.
    pub(super) fn reselected(&mut self, again: &Reselected) {
        self.skills = Some(Box::new(again.skills.clone()));
        if let Some(reselecting) = &mut self.reselecting {
            reselecting.due.clear();
        }
    }

    /// Something happened for which skills that were chosen are chosen again.
    pub(super) fn has_cause(&mut self, cause: ReselectCause) {
        self.reselects(|reselecting| reselecting.note(cause));
    }

    pub(super) fn reselects(&mut self, note: impl FnOnce(&mut Reselecting)) {
        if self.skills.is_none() {
            return;
        }
        note(self.reselecting.get_or_insert_default());
        self.reselecting.take_if(|reselecting| reselecting.is_empty());
    }

    /// A person is asked whether the turn goes on.
    pub(super) fn apply_limit_asked(&mut self, question: &ApprovalId, guard: GuardReason) {
        let limits = *self.limits();
        self.at_limit = Some(Box::new(AtLimit { question: question.clone(), guard, goes_on: None, limits }));
    }

    /// A person decided whether the turn goes on. With a yes it has as much of that limit again, and the calls that were
    /// one too many are counted anew.
    pub(super) fn decide_at_limit(&mut self, question: &ApprovalId, goes_on: bool) {
        let undecided = |reached: &&mut Box<AtLimit>| reached.question == *question && reached.goes_on.is_none();
        let Some(reached) = self.at_limit.as_mut().filter(undecided) else { return };
        reached.goes_on = Some(goes_on);
        if !goes_on {
            return;
        }
        reached.limits.raise(reached.guard, &self.input.limits, &mut self.spent);
        let mut step = self.step.take();
        let mut refused = None;
        for open in step.iter_mut().flat_map(|step| &mut step.calls) {
            if open.refused.is_some() && open.result.is_none() {
                if refused.is_none() && !open.call.name.is_ask_user() {
                    refused = self.take_call(&open.call);
                }
                open.refused = refused;
            }
        }
        self.step = step;
    }

    /// Whether this is a request of the turn: the one that began it or one that answered a question of it.
    pub fn is_request(&self, request: &RequestId) -> bool {
        let repliers = self.repliers.iter().map(|replier| &replier.request_id);
        let mut named = std::iter::once(&self.input.request_id).chain(repliers);
        // A reply that its caller gave no name has that of its submission.
        named.any(|known| known.as_ref() == Some(request)) || self.submission.as_str() == request.as_str()
    }

    /// The turn's outcome for the caller of this request.
    pub fn outcome_for(&self, request: &RequestId, outcome: &TurnOutcome) -> TurnOutcome {
        let replier = self.repliers.iter().find(|replier| replier.request_id.as_ref() == Some(request));
        let labels = replier.map_or(&self.input.labels, |replier| &replier.labels).clone();
        TurnOutcome { request_id: Some(request.clone()), labels, ..outcome.clone() }
    }

    /// All calls so far, those of the open step included, in call order. A call without a result does not appear.
    pub fn full_transcript(&self) -> Arc<[TranscriptEntry]> {
        self.answered().map(|(call, result)| entry(call, result)).collect()
    }

    /// The calls that were denied, in this mode.
    pub fn denied(&self, mode: Option<PermissionMode>) -> Vec<DeniedCall> {
        let denied = self.answered().filter(|(_, result)| result.status == CallStatus::Denied);
        denied
            .map(|(call, result)| DeniedCall {
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                reason: result.output.for_model(),
                mode,
            })
            .collect()
    }

    fn answered(&self) -> impl Iterator<Item = (&ToolCall, &ToolResult)> {
        let open = self.step.iter().flat_map(|step| &step.calls);
        let open = open.filter_map(|open| Some((&*open.call, &**open.result.as_ref()?)));
        self.closed.iter().map(|(call, result)| (&**call, &**result)).chain(open)
    }
}

fn entry(call: &ToolCall, result: &ToolResult) -> TranscriptEntry {
    TranscriptEntry {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        status: result.status,
        result: result.output.for_model(),
        duration_ms: result.duration_ms,
    }
}
