//! The fold: one record in, the session one version on.

use crate::Millis;
use crate::approvals::{Scope, Standing};
use crate::chat::{CallStatus, ContentPart, FinishReason, Message, ToolCall, ToolResult, Usage};
use crate::ids::{ApprovalId, CallId, ModelName, RequestId, SessionId, TurnId};
use crate::session::keep::Keep;
use crate::session::open::{OpenApproval, Replier};
use crate::session::{OpenCall, OpenStep, OpenTurn, SessionOptions, TurnInput};
use crate::sessions::{SuspendReason, TurnOutcome};
use crate::store::{Answered, Ended, Fact, Record, StepCost};
use crate::tools::ToolOutput;
use crate::turn::Spent;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many changes of its options a session remembers by name.
const CHANGES_REMEMBERED: usize = 64;
/// How many names of what was said into its turns a session knows.
const MOST_STEERS_KNOWN: usize = 256;

/// A session, as far as its journal tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// How many records it has.
    pub version: u64,
    /// What holds for all its turns.
    pub options: SessionOptions,
    /// Whether the options were journaled.
    pub opened: bool,
    /// What its options are when the open turn has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_options: Option<Box<SessionOptions>>,
    /// The names of the last changes of its options: one that is repeated changes nothing.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub configured: VecDeque<RequestId>,
    /// What was said, in order; of a live session what a prompt can still use. Every call in it has its result.
    pub history: Vec<Arc<Message>>,
    /// What stands in a prompt for what was said before the history.
    #[serde(default)]
    pub summary: Option<Arc<str>>,
    /// Accepted inputs whose turn has not begun, oldest first.
    pub waiting: VecDeque<Arc<TurnInput>>,
    /// The turn that runs or is suspended.
    pub open: Option<OpenTurn>,
    /// How many calls the session has seen; makes their ids unique.
    pub calls: u64,
    /// How many turns have ended.
    pub turns: u64,
    /// The outcome of the last run.
    pub last: Option<Arc<TurnOutcome>>,
    /// Who is owed the last outcome: the input's turn, or the submission that resumed it.
    pub last_submission: Option<TurnId>,
    /// The outcomes of requests that had a name; of a live session the newest ones.
    pub answered: BTreeMap<RequestId, Arc<TurnOutcome>>,
    /// What people decided beyond single calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<Arc<Standing>>,
    /// The names of what was said into turns, the newest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub steers: VecDeque<RequestId>,
    /// Tokens per thousand prompt bytes, as the provider last counted them;
    /// 250 until it did.
    pub tokens_per_kb: u64,
    /// What of all this a live session keeps.
    #[serde(default)]
    pub(super) keep: Keep,
}

impl Session {
    /// A session without records.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            version: 0,
            options: SessionOptions::default(),
            opened: false,
            next_options: None,
            configured: VecDeque::new(),
            history: Vec::new(),
            summary: None,
            waiting: VecDeque::new(),
            open: None,
            calls: 0,
            turns: 0,
            last: None,
            last_submission: None,
            answered: BTreeMap::new(),
            standing: Vec::new(),
            steers: VecDeque::new(),
            tokens_per_kb: 250,
            keep: Keep::default(),
        }
    }

    /// The session its records tell of.
    pub fn fold<'a>(id: SessionId, records: impl IntoIterator<Item = &'a Arc<Record>>) -> Self {
        let mut session = Self::new(id);
        for record in records {
            session.apply(record);
        }
        session
    }

    /// Takes one record. A record that does not fit what came before changes only
    /// the version, so that a fold never fails.
    pub fn apply(&mut self, record: &Record) {
        self.version = record.version;
        match &record.fact {
            Fact::Options(options) => {
                self.options = options.clone();
                self.opened = true;
            }
            Fact::Input(input) => self.waiting.push_back(Arc::clone(input)),
            Fact::Started { model } => self.start(model, record.at),
            Fact::Answered(answered) => self.answer(answered),
            Fact::Malformed { text, complaint, cost } => self.malformed(text, complaint, cost),
            Fact::Intent { call, traits } => {
                if let Some(open) = self.open_call(call) {
                    open.intent = Some(*traits);
                }
            }
            Fact::ApprovalAsked { approval, call, risk, reason, tool } => {
                if let Some(open) = self.open_call(call) {
                    open.approval = Some(OpenApproval {
                        id: approval.clone(),
                        risk: *risk,
                        allowed: None,
                        reason: String::new(),
                        why: reason.clone(),
                        tool: tool.clone(),
                        times: open.approval.as_ref().map_or(0, |before| before.times) + 1,
                    });
                }
            }
            Fact::ApprovalDecided { approval, allowed, arguments, reason, scope } => {
                let stands = scope.and_then(|scope| self.stands(approval, scope, *allowed, reason));
                self.decide(approval, *allowed, arguments.as_ref(), reason);
                if let Some(standing) = stands {
                    Arc::new(standing).join(&mut self.standing);
                }
            }
            Fact::Result(result) => self.result(result),
            Fact::Steered { parts, request_id, behind } => self.steer(parts, request_id.as_ref(), *behind),
            Fact::Resumed { submission, reply, request_id, labels } => {
                let replier = Replier { request_id: request_id.clone(), labels: labels.clone() };
                self.resume(submission, reply, replier, record.at);
            }
            Fact::Withdrawn => self.withdraw(record.turn.as_ref()),
            Fact::Outcome(ended) => self.end(ended, record.at),
            Fact::Configured { request_id, options } => self.configure(request_id, options),
            Fact::Condensed(condensed) => self.condense(condensed),
            Fact::SkillsSelected(skills) => {
                if let Some(turn) = &mut self.open {
                    turn.skills.get_or_insert_with(|| skills.clone());
                }
            }
        }
    }

    /// Whether an input of this name is known: waiting, running or just ended.
    pub fn knows(&self, turn: &TurnId) -> bool {
        self.waiting.iter().any(|input| input.turn == *turn)
            || self.open.as_ref().is_some_and(|open| open.submission == *turn || open.input.turn == *turn)
            || self.last.as_ref().is_some_and(|last| last.turn_id == *turn)
            || self.last_submission.as_ref() == Some(turn)
    }

    /// The outcome a submission has, if its run was the last to end.
    pub fn outcome_of(&self, submission: &TurnId) -> Option<&Arc<TurnOutcome>> {
        let ended = |last: &&Arc<TurnOutcome>| last.turn_id == *submission && self.open.is_none();
        self.last.as_ref().filter(|last| self.last_submission.as_ref() == Some(submission) || ended(last))
    }

    /// The outcome a repeated request is told, if the first one has one. One that is
    /// suspended has: the question.
    pub fn first_outcome(&self, request: &RequestId) -> Option<TurnOutcome> {
        if let Some(answered) = self.answered.get(request) {
            return Some((**answered).clone());
        }
        let open = self.open.as_ref().filter(|open| open.suspended.is_some() && open.is_request(request))?;
        Some(open.outcome_for(request, self.last.as_ref()?))
    }

    /// The turn that runs; a suspended one does not.
    pub fn running(&self) -> Option<&OpenTurn> {
        self.open.as_ref().filter(|open| open.suspended.is_none())
    }

    /// The options as they were last given: in force, or from the next turn on.
    pub fn latest_options(&self) -> &SessionOptions {
        self.next_options.as_deref().unwrap_or(&self.options)
    }

    fn configure(&mut self, request: &RequestId, options: &SessionOptions) {
        self.opened = true;
        match self.open {
            Some(_) => self.next_options = Some(Box::new(options.clone())),
            None => self.options = options.clone(),
        }
        if self.configured.len() >= CHANGES_REMEMBERED {
            self.configured.pop_front();
        }
        self.configured.push_back(request.clone());
    }

    fn withdraw(&mut self, turn: Option<&TurnId>) {
        let Some(at) = self.waiting.iter().position(|input| Some(&input.turn) == turn) else { return };
        let Some(input) = self.waiting.remove(at) else { return };
        if let Some(request) = &input.request_id {
            let outcome = TurnOutcome { saved: true, ..withdrawn(&input, &self.id) };
            self.remember(request.clone(), Arc::new(outcome));
        }
    }

    fn start(&mut self, model: &ModelName, at: Millis) {
        let Some(input) = self.waiting.pop_front() else { return };
        if let Some(options) = &input.options {
            // It may have waited: what it brings holds from its own turn on.
            self.options = options.clone();
        }
        let message_at = self.history.len();
        self.history.push(Arc::new(Message::User { parts: input.parts.clone() }));
        self.open = Some(OpenTurn {
            submission: input.turn.clone(),
            input,
            model: model.clone(),
            started_at: at,
            spent: Spent::default(),
            text: String::new(),
            stop_reason: None,
            usage: Usage::default(),
            malformed_in_a_row: 0,
            message_at,
            tripped: None,
            step: None,
            closed: Vec::new(),
            suspended: None,
            steered: Vec::new(),
            repliers: Vec::new(),
            skills: None,
        });
    }

    fn answer(&mut self, answered: &Answered) {
        self.spend(&answered.cost);
        self.calls += answered.calls.len() as u64;
        let Some(turn) = &mut self.open else { return };
        turn.malformed_in_a_row = 0;
        turn.text.clone_from(&answered.text);
        if answered.calls.is_empty() {
            // What was said while the model spoke is asked next; when no step is left, the answer stays the last word.
            let goes_on = turn.spent.forbids_step(&turn.input.limits).is_none();
            if goes_on {
                self.history.push(said(&answered.text));
            }
            self.history.append(&mut turn.steered);
            if !goes_on {
                self.history.push(said(&answered.text));
            }
            return;
        }
        let mut refused = None;
        let mut calls = Vec::with_capacity(answered.calls.len());
        for call in &answered.calls {
            if refused.is_none() && !call.name.is_ask_user() {
                refused = turn.spent.take_call(call, &turn.input.limits).err();
            }
            calls.push(OpenCall { call: Arc::clone(call), intent: None, refused, approval: None, result: None });
        }
        turn.step = Some(OpenStep { text: answered.text.clone(), calls });
    }

    fn malformed(&mut self, text: &str, complaint: &str, cost: &StepCost) {
        self.spend(cost);
        let Some(turn) = &mut self.open else { return };
        turn.malformed_in_a_row += 1;
        self.history.push(said(text));
        self.history.push(Arc::new(Message::user(complaint)));
        self.history.append(&mut turn.steered);
    }

    fn steer(&mut self, parts: &[ContentPart], request: Option<&RequestId>, behind: bool) {
        if let Some(request) = request {
            if self.steers.len() >= MOST_STEERS_KNOWN {
                self.steers.pop_front();
            }
            self.steers.push_back(request.clone());
        }
        let message = Arc::new(Message::User { parts: parts.to_vec() });
        match &mut self.open {
            Some(turn) if behind || turn.step.is_some() => turn.steered.push(message),
            _ => self.history.push(message),
        }
    }

    fn spend(&mut self, cost: &StepCost) {
        let Some(turn) = &mut self.open else { return };
        turn.spent.steps += 1;
        turn.stop_reason = Some(cost.stop_reason);
        if let Some(usage) = &cost.usage {
            turn.usage.add(usage);
            turn.spent.tokens = turn.usage.total_tokens;
            if usage.input_tokens > 0 && cost.prompt_bytes > 0 {
                self.tokens_per_kb = (usage.input_tokens.saturating_mul(1_000) / cost.prompt_bytes).clamp(50, 2_000);
            }
        }
    }

    fn open_call(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.open.as_mut()?.step.as_mut()?.call_mut(call)
    }

    /// What stands from now on, when this question is decided beyond its call.
    fn stands(&self, approval: &ApprovalId, scope: Scope, allowed: bool, reason: &str) -> Option<Standing> {
        let mut calls = self.open.as_ref()?.step.as_ref()?.calls.iter();
        let asked = calls.find(|open| open.approval.as_ref().is_some_and(|asked| asked.id == *approval))?;
        let tool = asked.approval.as_ref()?.tool.as_ref()?;
        Some(Standing::of(&asked.call, tool, scope, allowed, reason))
    }

    fn decide(&mut self, approval: &ApprovalId, allowed: bool, arguments: Option<&Value>, reason: &str) {
        let Some(step) = self.open.as_mut().and_then(|turn| turn.step.as_mut()) else { return };
        for open in &mut step.calls {
            let Some(asked) = open.approval.as_mut().filter(|asked| asked.id == *approval) else { continue };
            asked.allowed = Some(allowed);
            reason.clone_into(&mut asked.reason);
            if let Some(arguments) = arguments {
                let argument_bytes = arguments.to_string().len();
                open.call = Arc::new(ToolCall { arguments: arguments.clone(), argument_bytes, ..(*open.call).clone() });
            }
        }
    }

    fn result(&mut self, result: &Arc<ToolResult>) {
        let result = self.kept(result);
        let Some(turn) = &mut self.open else { return };
        let Some(step) = &mut turn.step else { return };
        let Some(open) = step.call_mut(&result.call).filter(|open| open.result.is_none()) else { return };
        open.result = Some(result);
        if step.is_complete() {
            self.close_step();
        }
    }

    /// Moves a step whose calls are all answered into the history, in call order.
    fn close_step(&mut self) {
        let Some(turn) = &mut self.open else { return };
        let Some(step) = turn.step.take() else { return };
        turn.tripped = step.calls.iter().find_map(|open| open.refused);
        let calls: Vec<_> = step.calls.iter().map(|open| Arc::clone(&open.call)).collect();
        self.history.push(Arc::new(Message::Assistant { text: step.text, calls }));
        for open in step.calls {
            let Some(result) = open.result else { continue };
            turn.spent.count_result(result.status, &turn.input.limits);
            turn.closed.push((open.call, Arc::clone(&result)));
            self.history.push(Arc::new(Message::Tool { result }));
        }
        self.history.append(&mut turn.steered);
    }

    fn resume(&mut self, submission: &TurnId, reply: &str, replier: Replier, at: Millis) {
        // An input that waited behind the question is its reply.
        let waited = self.waiting.iter().position(|input| input.turn == *submission);
        let waited = waited.and_then(|at| self.waiting.remove(at));
        if let Some(options) = waited.and_then(|input| input.options.clone()) {
            self.next_options = Some(Box::new(options));
        }
        let Some(turn) = &mut self.open else { return };
        turn.submission = submission.clone();
        // The first that brings neither speaks for the input; behind a named one it is somebody else.
        if replier.request_id.is_some() || !replier.labels.is_empty() || !turn.repliers.is_empty() {
            turn.repliers.push(replier);
        }
        let suspended = turn.suspended.take();
        turn.started_at = at;
        // A decision about a call is no answer to a question beside it.
        if suspended.is_some_and(|suspended| suspended.reason != SuspendReason::AskUser) {
            return;
        }
        let mut question = turn.step.iter().flat_map(|step| &step.calls);
        let asked = question.find(|open| open.call.name.is_ask_user() && open.result.is_none());
        if let Some(call) = asked.map(|open| Arc::clone(&open.call)) {
            self.result(&Arc::new(ToolResult {
                call: call.id.clone(),
                name: call.name.clone(),
                status: CallStatus::Ok,
                output: ToolOutput::text(reply),
                duration_ms: 0,
            }));
        }
    }

    fn end(&mut self, ended: &Ended, at: Millis) {
        let Some(mut turn) = self.open.take() else { return };
        let outcome = Arc::new(outcome(&self.id, &turn, ended, at));
        self.last_submission = Some(turn.submission.clone());
        if let Some(suspension) = &ended.suspended {
            turn.suspended = Some(suspension.clone());
            self.open = Some(turn);
            self.last = Some(outcome);
            return;
        }
        self.history.append(&mut turn.steered);
        // What a turn said at a guard, a cancel or an error belongs to the
        // conversation too; roles then also alternate for providers that insist.
        let spoke = matches!(self.history.last().map(Arc::as_ref), Some(Message::Assistant { .. }));
        if !spoke {
            self.history.push(said(&ended.content));
        }
        self.turns += 1;
        if let Some(options) = self.next_options.take() {
            self.options = *options;
        }
        let repliers = turn.repliers.iter().map(|replier| &replier.request_id);
        for request in std::iter::once(&turn.input.request_id).chain(repliers).flatten() {
            let is_its = outcome.request_id.as_ref() == Some(request);
            let told = if is_its { Arc::clone(&outcome) } else { Arc::new(turn.outcome_for(request, &outcome)) };
            self.remember(request.clone(), told);
        }
        self.last = Some(outcome);
        self.forget();
    }
}

/// The outcome of an input that was cancelled while it waited.
pub(crate) fn withdrawn(input: &TurnInput, session: &SessionId) -> TurnOutcome {
    let content = "Cancelled before the turn began.";
    TurnOutcome {
        request_id: input.request_id.clone(),
        labels: input.labels.clone(),
        ..TurnOutcome::bare(session.clone(), input.turn.clone(), FinishReason::Cancelled, content)
    }
}

/// Words of the assistant; providers refuse an assistant message without any.
fn said(text: &str) -> Arc<Message> {
    let text = if text.trim().is_empty() { "(no answer)" } else { text };
    Arc::new(Message::assistant(text))
}

/// The outcome that follows from a turn and its end. `saved` is for whoever
/// stores it to say; here it is what a reader of the journal sees: true.
fn outcome(session: &SessionId, turn: &OpenTurn, ended: &Ended, at: Millis) -> TurnOutcome {
    let input = (&turn.input.request_id, &turn.input.labels);
    let (request_id, labels) = turn.repliers.last().map_or(input, |replier| (&replier.request_id, &replier.labels));
    TurnOutcome {
        session_id: session.clone(),
        turn_id: turn.input.turn.clone(),
        request_id: request_id.clone(),
        labels: labels.clone(),
        model: Some(turn.model.clone()),
        finish_reason: ended.finish_reason,
        guard_reason: ended.guard_reason,
        content: ended.content.clone(),
        suspend_reason: ended.suspended.as_ref().map(|suspension| suspension.reason),
        question: ended.suspended.as_ref().map(|suspension| suspension.question.clone()),
        token: ended.suspended.as_ref().map(|suspension| suspension.token.clone()),
        stop_reason: turn.stop_reason,
        tool_transcript: turn.full_transcript(),
        usage: turn.usage,
        steps: turn.spent.steps,
        duration_ms: u64::try_from(at.saturating_sub(turn.started_at)).unwrap_or(0),
        saved: true,
        denied: turn.denied(),
        error: ended.error.clone(),
    }
}
