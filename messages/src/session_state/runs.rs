//! The fold, turn by turn: one begins, is suspended, continues and ends, and the outcomes for its callers.

use super::known::is_of_runtime;
use super::steps::said;
use super::{OpenTurn, RunCaller, Session};
use crate::Millis;
use crate::chat::{CallStatus, FinishReason, Message, ToolResult, Usage};
use crate::cost::Cost;
use crate::ids::{ModelName, SessionId, TurnId};
use crate::input::TurnInput;
use crate::limits::Spent;
use crate::models::Selected;
use crate::options::SessionOptions;
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::store::Ended;
use crate::tools::ToolOutput;
use std::borrow::Cow;
use std::sync::Arc;

impl Session {
    pub(super) fn withdraw(&mut self, turn: Option<&TurnId>) {
        let Some(at) = self.waiting.iter().position(|input| Some(&input.turn) == turn) else { return };
        let Some(input) = self.waiting.remove(at) else { return };
        self.submissions.remember(&input.turn);
        if let Some(request) = input.request_id.as_ref().filter(|request| !is_of_runtime(request, &input.turn)) {
            let outcome = TurnOutcome { saved: true, ..withdrawn(&input, &self.id) };
            self.remember(request.clone(), Arc::new(outcome));
        }
    }

    pub(super) fn start(&mut self, model: &ModelName, selected: Option<&Selected>, at: Millis) {
        let Some(input) = self.waiting.pop_front() else { return };
        if let Some(options) = &input.options {
            // It may have waited: what it brings holds from its own turn on.
            self.options = self.in_its_pool(options);
        }
        let message_at = self.history.len();
        // What a task used after the end of its turn is told with the turn that its result begins.
        let delegated = self.tasks.take_result(&input.turn);
        let mut spent = Spent::default();
        if let Some(used) = &delegated {
            spent.delegate(used, &input.limits);
        }
        self.history.push(Arc::new(Message::User { parts: input.parts.clone() }));
        self.open = Some(OpenTurn {
            submission: input.turn.clone(),
            input,
            model: model.clone(),
            selected: selected.cloned().map(Box::new),
            answered_by: None,
            started_at: at,
            spent,
            text: String::new(),
            stop_reason: None,
            usage: Usage::default(),
            delegated,
            malformed_in_a_row: 0,
            message_at,
            tripped: None,
            step: None,
            closed: Vec::new(),
            suspended: None,
            steered: Vec::new(),
            unread: 0,
            repliers: Vec::new(),
            reply: String::new(),
            skills: None,
            reselecting: None,
            at_limit: None,
        });
    }

    /// The options that an input brings to an idle session: where they name no pool, it stays in the one to which it is bound.
    pub(crate) fn or_in_its_pool(&self, options: &Arc<SessionOptions>) -> Arc<SessionOptions> {
        if options.pool.is_some() { Arc::clone(options) } else { self.in_its_pool(options) }
    }

    /// The options that an input brings, in the pool to which the session is bound: a record of options binds it, and no
    /// input does.
    fn in_its_pool(&self, options: &Arc<SessionOptions>) -> Arc<SessionOptions> {
        let pool = &self.latest_options().pool;
        if options.pool == *pool {
            return Arc::clone(options);
        }
        Arc::new(SessionOptions { pool: pool.clone(), ..(**options).clone() })
    }

    pub(super) fn resume(&mut self, submission: &TurnId, reply: &str, replier: RunCaller, at: Millis) {
        // An input that waited behind the question is its reply.
        let waited = self.waiting.iter().position(|input| input.turn == *submission);
        let waited = waited.and_then(|at| self.waiting.remove(at));
        if let Some(options) = waited.and_then(|input| input.options.clone()) {
            self.next_options = Some(self.in_its_pool(&options));
        }
        let Some(turn) = &mut self.open else { return };
        // A reply that begins something else carries the id of the caller that received the question.
        let is_given_up = turn.submission == *submission;
        turn.submission = submission.clone();
        reply.clone_into(&mut turn.reply);
        // The first without either is the input's own; after a named one it belongs to another caller.
        if replier.request_id.is_some() || !replier.labels.is_empty() || !turn.repliers.is_empty() {
            turn.repliers.push(replier);
        }
        let suspended = turn.suspended.take();
        turn.steered.append(&mut self.notices);
        turn.started_at = at;
        match suspended.map(|suspended| suspended.reason) {
            Some(SuspendReason::AskUser) | None => {}
            // A decision about a call is no answer to a question beside it.
            Some(SuspendReason::ApprovalRequired) => return,
            Some(SuspendReason::ExternalWait) => {
                let mut calls = turn.step.iter_mut().flat_map(|step| &mut step.calls);
                let waiting = calls.find(|open| open.waits_outside()).filter(|_| !is_given_up);
                if let Some(outside) = waiting.and_then(|open| open.outside.as_mut()) {
                    outside.came = Some(reply.to_owned());
                }
                return;
            }
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

    pub(super) fn end(&mut self, ended: &Ended, at: Millis) {
        let Some(mut turn) = self.open.take() else { return };
        let denied = turn.denied(turn.input.mode.or(self.options.mode));
        let outcome = Arc::new(TurnOutcome { denied, ..outcome(&self.id, &turn, ended, at) });
        self.last_submission = Some(turn.submission.clone());
        self.submissions.remember(&turn.submission);
        if let Some(suspension) = &ended.suspended {
            turn.suspended = Some(suspension.clone());
            self.open = Some(turn);
            self.last = Some(outcome);
            return;
        }
        let left = self.tasks.turn_ended(&turn, ended.finish_reason);
        self.gives_up_all(left, false);
        // What the user said and no model call has had is not answered by the last words, so it is behind them.
        let mut unread = std::mem::take(&mut turn.steered);
        // The text of a turn ended by a guard, a cancel or an error belongs to the conversation too; it also keeps
        // the roles alternating, on which some providers insist.
        let spoke = matches!(self.history.last().map(Arc::as_ref), Some(Message::Assistant { .. }));
        if !spoke {
            self.history.push(said(&last_words(&turn, ended)));
        }
        self.history.append(&mut unread);
        self.history.append(&mut self.notices);
        self.turns += 1;
        self.forget_given_up();
        if let Some(options) = self.next_options.take() {
            self.options = options;
        }
        let repliers = turn.repliers.iter().map(|replier| &replier.request_id);
        let requests = std::iter::once(&turn.input.request_id).chain(repliers).flatten();
        for request in requests.filter(|request| !is_of_runtime(request, &turn.input.turn)) {
            let is_its = outcome.request_id.as_ref() == Some(request);
            let told = if is_its { Arc::clone(&outcome) } else { Arc::new(turn.outcome_for(request, &outcome)) };
            self.remember(request.clone(), told);
        }
        self.last = Some(outcome);
        self.forget();
    }
}

/// What the conversation has of the assistant where a turn ended without its answer.
fn last_words<'e>(turn: &OpenTurn, ended: &'e Ended) -> Cow<'e, str> {
    // The text beside the last calls is in the history already.
    let is_known = !turn.closed.is_empty() && !ended.content.trim().is_empty() && ended.content == turn.text;
    match (ended.partial, is_known) {
        (true, _) => format!("{}\n\n(interrupted)", ended.content).into(),
        (false, true) => "(interrupted)".into(),
        (false, false) => ended.content.as_str().into(),
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

/// The outcome that follows from a turn and its end, without the denied calls. The writer of the record decides about `saved`; here it is true,
/// as for any reader of the journal.
fn outcome(session: &SessionId, turn: &OpenTurn, ended: &Ended, at: Millis) -> TurnOutcome {
    let input = (&turn.input.request_id, &turn.input.labels);
    let (request_id, labels) = turn.repliers.last().map_or(input, |replier| (&replier.request_id, &replier.labels));
    TurnOutcome {
        session_id: session.clone(),
        turn_id: turn.input.turn.clone(),
        request_id: request_id.clone(),
        labels: labels.clone(),
        model: Some(turn.answered_by.as_ref().unwrap_or(&turn.model).clone()),
        finish_reason: ended.finish_reason,
        guard_reason: ended.guard_reason,
        content: ended.content.clone(),
        suspend_reason: ended.suspended.as_ref().map(|suspension| suspension.reason),
        question: ended.suspended.as_ref().map(|suspension| suspension.question.clone()),
        token: ended.suspended.as_ref().map(|suspension| suspension.token.clone()),
        stop_reason: turn.stop_reason,
        tool_transcript: turn.full_transcript(),
        usage: turn.usage,
        delegated: turn.delegated_so_far(),
        cost: turn.spent.cost.less(turn.delegated.as_ref().map_or(Cost::ZERO, |used| used.cost)),
        steps: turn.spent.steps,
        duration_ms: ended
            .duration_ms
            .unwrap_or_else(|| u64::try_from(at.saturating_sub(turn.started_at)).unwrap_or(0)),
        saved: true,
        unsaved: None,
        denied: Vec::new(),
        error: ended.error.clone(),
    }
}
