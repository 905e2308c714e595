use super::driver::{Driver, Pending};
use crate::agent::{Agent, NAMESPACE};
use crate::chat::{CallStatus, StopReason, ToolCall, ToolResult};
use crate::error::AgentError;
use crate::ids::{CallId, ModelName, Ticket, ToolName};
use crate::llm::{Capabilities, LlmAnswer, LlmError, ModelProfile, RawCall, TOKENS_PER_KB};
use crate::models::{ModelPrice, Rate};
use crate::session_state::Session;
use crate::store::{Answered, Ended, Fact, Record, StepCost, StoreError};
use crate::tools::{
    CallTraits, Grant, Risk, ToolDescriptor, ToolKind, ToolOutput, ToolReturn, ToolSet, ToolSource, Verdict,
};
use crate::turn::{TurnMessage, parse_action};
use crate::turn_config::PromptLayers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prefix of the result of a call whose intent could not be stored.
const NOT_JOURNALED: &str = "not run: it could not be journaled first (";

/// Text about a content part that the model does not accept.
const NOT_TAKEN: &str = " does not take ";

/// Text of a call that cannot be put to an approver.
const NO_APPROVER: (&str, &str) = ("denied: it needs a person's approval (", ") and nobody can give it here");

/// Returns the replies to pending questions that would produce `next`, most likely first. `is_plain` means that model
/// output is used as it is, without an envelope.
pub(super) fn to(pending: &[Pending], next: &Fact, is_plain: bool) -> Vec<TurnMessage> {
    let infer = pending.iter().find_map(|pending| match pending {
        Pending::Infer(ticket) => Some(*ticket),
        Pending::Check(..) | Pending::Call(..) | Pending::Read(..) => None,
    });
    let says = |answers: Vec<Result<LlmAnswer, LlmError>>| {
        let Some(ticket) = infer else { return Vec::new() };
        answers.into_iter().map(|result| TurnMessage::ParseAction { ticket, result: result.map(Arc::new) }).collect()
    };
    match next {
        Fact::Answered(answered) => says(vec![Ok(said(answered, is_plain))]),
        Fact::Malformed { text, cost, .. } => says(misread(text, cost).into_iter().map(Ok).collect()),
        Fact::Outcome(ended) => match &ended.error {
            Some(AgentError::Llm(error)) => says(vec![Err(error.clone())]),
            _another_end => Vec::new(),
        },
        Fact::Intent { call, traits, .. } => {
            let judged = judged(pending, |check| check.id == *call);
            judged.map(|(ticket, check)| allow(ticket, check, *traits)).into_iter().collect()
        }
        Fact::ApprovalAsked { call, risk, reason, tool, .. } => {
            let judged = judged(pending, |check| check.id == *call);
            let tool = tool.clone().unwrap_or_default();
            let verdict = Verdict::Ask { risk: *risk, reason: reason.clone(), tool };
            judged.map(|(ticket, _)| TurnMessage::Checked { ticket, verdict: Some(verdict) }).into_iter().collect()
        }
        Fact::Result(result) => result_of(pending, result).into_iter().collect(),
        Fact::Waits { call, what, child: _, server } => {
            let output = server.as_ref().map(|server| server.output("")).unwrap_or_default();
            let output = ToolOutput { waits_for: Some(what.clone()), ..output };
            let returned = ToolReturn { status: CallStatus::Ok, output, duration_ms: 0 };
            returned_by(pending, call, &returned).into_iter().collect()
        }
        Fact::Options(_)
        | Fact::Configured { .. }
        | Fact::Input(_)
        | Fact::Started { .. }
        | Fact::ApprovalDecided { .. }
        | Fact::LimitAsked { .. }
        | Fact::LimitDecided { .. }
        | Fact::Steered { .. }
        | Fact::Resumed { .. }
        | Fact::Withdrawn
        | Fact::Condensed(_)
        | Fact::SkillsSelected(_)
        | Fact::SkillsReselected(_)
        | Fact::Snapshot(_) => Vec::new(),
    }
}

fn judged(pending: &[Pending], is: impl Fn(&ToolCall) -> bool) -> Option<(Ticket, &Arc<ToolCall>)> {
    pending.iter().find_map(|pending| match pending {
        Pending::Check(ticket, call) if is(call) => Some((*ticket, call)),
        Pending::Check(..) | Pending::Infer(_) | Pending::Call(..) | Pending::Read(..) => None,
    })
}

fn allow(ticket: Ticket, call: &ToolCall, traits: CallTraits) -> TurnMessage {
    let grant = Grant { call: call.id.clone(), seal: String::new() };
    TurnMessage::Checked { ticket, verdict: Some(Verdict::Allow { grant, traits }) }
}

/// A child whose outcome was to be read had none.
fn had_not_ended(pending: &[Pending]) -> Option<TurnMessage> {
    let ticket = pending.iter().find_map(|pending| match pending {
        Pending::Read(ticket, _) => Some(*ticket),
        Pending::Infer(_) | Pending::Check(..) | Pending::Call(..) => None,
    })?;
    let returned = Box::new(ToolReturn::note(CallStatus::Unknown, ""));
    Some(TurnMessage::ToolReturned { ticket, returned })
}

/// The first call that waits for its verdict is allowed: to change something, if it was about to, else to read.
pub(super) fn allowed<'j, I: Iterator<Item = &'j Record>>(
    pending: &[Pending],
    ahead: impl Fn() -> I,
) -> Option<TurnMessage> {
    if let Some(not_ended) = had_not_ended(pending) {
        return Some(not_ended);
    }
    let (ticket, call) = judged(pending, |_any| true)?;
    let traits = ahead().find_map(|record| match &record.fact {
        Fact::Intent { call: of, traits, .. } if *of == call.id => Some(*traits),
        _another => None,
    });
    let reads = CallTraits { read_only: true, idempotent: true };
    Some(allow(ticket, call, traits.unwrap_or(reads)))
}

fn result_of(pending: &[Pending], result: &ToolResult) -> Option<TurnMessage> {
    let returned = ToolReturn { status: result.status, output: result.output.clone(), duration_ms: result.duration_ms };
    let text = result.output.plain();
    let (ticket, _) = match judged(pending, |check| check.id == result.call) {
        Some((ticket, check)) if begins_task(check, result) => {
            return Some(allow(ticket, check, CallTraits { read_only: false, idempotent: true }));
        }
        Some(judged) => judged,
        None => return returned_by(pending, &result.call, &returned),
    };
    let verdict = match result.status {
        CallStatus::Denied if text.starts_with(NO_APPROVER.0) && text.ends_with(NO_APPROVER.1) => {
            let reason = text[NO_APPROVER.0.len()..text.len() - NO_APPROVER.1.len()].to_owned();
            Verdict::Ask { risk: Risk::High, reason, tool: Arc::default() }
        }
        CallStatus::Denied if text == "denied" => Verdict::Deny { reason: String::new() },
        CallStatus::Denied if text.starts_with("denied: ") => {
            Verdict::Deny { reason: text["denied: ".len()..].to_owned() }
        }
        CallStatus::Ok | CallStatus::Error | CallStatus::Denied | CallStatus::Unknown | CallStatus::Cancelled => {
            Verdict::Ran(Box::new(returned))
        }
    };
    Some(TurnMessage::Checked { ticket, verdict: Some(verdict) })
}

/// Whether this result says that a sub-agent works in the background: the machine gives it when the call is allowed.
fn begins_task(call: &ToolCall, result: &ToolResult) -> bool {
    let told = result.output.structured.as_ref();
    is_agent_call(call) && told.is_some_and(|told| told["task"] == call.id.as_str() && told["state"] == "running")
}

fn is_agent_call(call: &ToolCall) -> bool {
    call.name.as_str().strip_prefix(NAMESPACE).is_some_and(|name| !Agent::is_taken(name))
}

/// The call returned this result, either after its verdict or immediately.
fn returned_by(pending: &[Pending], call: &CallId, returned: &ToolReturn) -> Option<TurnMessage> {
    let returned = Box::new(returned.clone());
    pending.iter().find_map(|pending| match pending {
        Pending::Call(ticket, running) | Pending::Read(ticket, running) if running.id == *call => {
            Some(TurnMessage::ToolReturned { ticket: *ticket, returned: returned.clone() })
        }
        Pending::Check(ticket, judged) if judged.id == *call => {
            Some(TurnMessage::Checked { ticket: *ticket, verdict: Some(Verdict::Ran(returned.clone())) })
        }
        Pending::Call(..) | Pending::Read(..) | Pending::Check(..) | Pending::Infer(_) => None,
    })
}

/// An answer that is understood as this one was.
fn said(answered: &Answered, is_plain: bool) -> LlmAnswer {
    let declined = matches!(answered.cost.stop_reason, StopReason::Refusal | StopReason::ContentFilter);
    let is_cut = answered.cost.stop_reason == StopReason::MaxTokens;
    let text = match answered.calls.as_slice() {
        // Both modes parse an envelope; a refusal is passed through unchanged.
        [] if !declined && !is_plain => json!({ "type": "final", "content": answered.text }).to_string(),
        // A native call at the limit would count as cut.
        [call] if is_cut => return answer(enveloped(call), Vec::new(), &answered.cost),
        _ => answered.text.clone(),
    };
    let calls = answered.calls.iter().map(|call| RawCall {
        name: call.name.as_str().to_owned(),
        arguments: call.arguments.to_string(),
        signatures: call.signatures.clone(),
    });
    answer(text, calls.collect(), &answered.cost)
}

fn enveloped(call: &ToolCall) -> String {
    let envelope = match call.arguments.get("question") {
        Some(question) if call.name.is_ask_user() => json!({ "type": "ask_user", "question": question }),
        _ => json!({ "type": "tool_call", "name": call.name, "arguments": call.arguments }),
    };
    envelope.to_string()
}

fn answer(text: String, calls: Vec<RawCall>, cost: &StepCost) -> LlmAnswer {
    LlmAnswer {
        text,
        reasoning: None,
        calls,
        stop_reason: cost.stop_reason,
        usage: cost.usage,
        response_id: cost.response_id.clone(),
        model: cost.model.clone(),
        latency_ms: cost.latency_ms,
        cost: cost.cost,
    }
}

/// The replies that a malformed one may have been: its text, or its text with calls behind it.
fn misread(text: &str, cost: &StepCost) -> Vec<LlmAnswer> {
    let mut replies = vec![answer(text.to_owned(), Vec::new(), cost)];
    for (at, _) in text.match_indices('\n') {
        let calls: Option<Vec<RawCall>> = text[at + 1..].split('\n').map(call_of).collect();
        let whole = call_of(&text[at + 1..]).map(|call| vec![call]);
        let calls = [calls, whole].into_iter().flatten();
        replies.extend(calls.map(|calls| answer(text[..at].to_owned(), calls, cost)));
    }
    replies
}

/// `name(arguments)`
fn call_of(text: &str) -> Option<RawCall> {
    let (name, arguments) = text.strip_suffix(')')?.split_once('(')?;
    Some(RawCall { name: name.to_owned(), arguments: arguments.to_owned(), signatures: Vec::new() })
}

/// Returns the schema error of the reply, if the record says that it was malformed.
pub(super) fn misfit(next: &Fact) -> Option<String> {
    let Fact::Malformed { complaint, .. } = next else { return None };
    let (_, misfit) = complaint.split_once("the answer does not fit the schema: ")?;
    Some(misfit.strip_suffix(". Answer again.").unwrap_or(misfit).to_owned())
}

/// Returns why the append before this result failed, if the result reports that.
pub(super) fn not_stored(next: &Fact) -> Option<StoreError> {
    let Fact::Result(result) = next else { return None };
    let text = result.output.plain();
    let why = text.strip_prefix(NOT_JOURNALED)?.strip_suffix(')')?;
    let unavailable = why.strip_prefix("the store is unavailable: ").map(str::to_owned).map(StoreError::Unavailable);
    let in_doubt = || why.strip_prefix("it is not known whether the records were stored: ");
    unavailable.or_else(|| in_doubt().map(str::to_owned).map(StoreError::InDoubt))
}

/// The tools that the journal's calls name. One that was never about to change anything changes nothing.
pub(super) fn tools(journal: &[Arc<Record>]) -> ToolSet {
    let mut tools: BTreeMap<ToolName, bool> = BTreeMap::new();
    let mut named = BTreeMap::new();
    for record in journal {
        match &record.fact {
            Fact::Answered(answered) => {
                for call in answered.calls.iter().filter(|call| !call.name.is_ask_user()) {
                    named.insert(call.id.clone(), call.name.clone());
                    tools.entry(call.name.clone()).or_insert(true);
                }
            }
            Fact::Intent { call, .. } => {
                if let Some(name) = named.get(call) {
                    tools.insert(name.clone(), false);
                }
            }
            _tells_nothing_of_tools => {}
        }
    }
    let descriptor = |(id, read_only): (ToolName, bool)| {
        Arc::new(ToolDescriptor {
            title: id.as_str().to_owned(),
            id,
            kind: ToolKind::Other,
            description: String::new(),
            schema: Value::Null,
            source: ToolSource::Local,
            risk: Risk::Low,
            risk_from: Default::default(),
            idempotent: false,
            read_only,
        })
    };
    ToolSet::from(tools.into_iter().map(descriptor).collect::<Vec<_>>())
}

impl Driver<'_> {
    /// Reconstructs the model's profile from the journal: how it was to reply and which content it did not accept.
    pub(super) fn profile(&self, model: ModelName) -> Result<Arc<ModelProfile>, LlmError> {
        let ended = self.ending();
        if let Some(Ended { error: Some(AgentError::Llm(error)), .. }) = ended
            && (error.is_usage() || !matches!(self.next().map(|next| &next.fact), Some(Fact::Outcome(_))))
        {
            return Err(error.clone());
        }
        let refuses =
            matches!(ended, Some(Ended { error: Some(AgentError::Invalid(why)), .. }) if why.contains(NOT_TAKEN));
        let capabilities = Capabilities {
            native_tools: !self.is_enveloped(),
            json_schema: false,
            system_role: true,
            context_tokens: u32::MAX,
            images: !refuses,
            audio: !refuses,
        };
        // The costs are those of the journal.
        let price = self.is_priced().then(|| ModelPrice::usd(Rate::default(), Rate::default()));
        Ok(Arc::new(ModelProfile { model, capabilities, price, tokens_per_kb: TOKENS_PER_KB }))
    }

    /// Whether the model had a price: it must have one where the cost is bounded.
    fn is_priced(&self) -> bool {
        let session = self.owner.as_ref().and_then(|owner| owner.turn.session());
        session.and_then(Session::running).is_some_and(|open| !open.input.limits.max_cost.is_zero())
    }

    /// Reconstructs the prompt files; the journal only tells whether one was missing.
    pub(super) fn layers(&self) -> Result<Arc<PromptLayers>, AgentError> {
        match self.ending().and_then(|ended| ended.error.clone()) {
            Some(AgentError::Invalid(why)) if why.contains(NOT_TAKEN) => Ok(Arc::default()),
            Some(AgentError::Llm(_) | AgentError::Internal(_)) | None => Ok(Arc::default()),
            Some(error) => Err(error),
        }
    }

    /// Whether the turn's answer must fit a schema and comes without an envelope.
    pub(super) fn is_plain(&self) -> bool {
        let session = self.owner.as_ref().and_then(|owner| owner.turn.session());
        let open = session.and_then(|session| session.running());
        open.is_some_and(|open| open.input.output_schema.is_some()) && !self.is_enveloped()
    }

    /// Whether the turn's model was to answer in envelopes: a reply was complained about that is none.
    fn is_enveloped(&self) -> bool {
        let turn = self.owner.as_ref().and_then(|owner| owner.turn.turn_id()).cloned();
        let of_turn = self.journal.iter().filter(|record| record.turn == turn);
        let mut misread = of_turn.filter_map(|record| match &record.fact {
            Fact::Malformed { text, complaint, .. } => Some((text, complaint)),
            _was_understood => None,
        });
        misread.any(|(text, complaint)| match parse_action(text) {
            Err(why) => complaint.contains(&why),
            Ok(_) => false,
        } || complaint.contains("before the JSON object ended"))
    }
}

impl Pending {
    pub(super) fn ticket(&self) -> Ticket {
        match self {
            Self::Infer(ticket) | Self::Check(ticket, _) | Self::Call(ticket, _) | Self::Read(ticket, _) => *ticket,
        }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Infer(_) => "the model".to_owned(),
            Self::Check(_, call) => format!("the verdict on call {} of {}", call.id, call.name),
            Self::Call(_, call) | Self::Read(_, call) => format!("the result of call {} of {}", call.id, call.name),
        }
    }
}
