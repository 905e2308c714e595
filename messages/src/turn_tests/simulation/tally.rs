//! The guards, counted a second time from what the journal says: exactly at its limit
//! each of them ends the turn, and none before.

use crate::chat::{CallStatus, GuardReason, Usage};
use crate::limits::Limits;
use serde_json::Value;

/// What a turn has used, by an account of our own.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    limits: Limits,
    /// How much of each a person adds with a yes.
    portions: Limits,
    steps: u32,
    calls: u32,
    errors: u32,
    /// Whether there were too many of them in a row.
    too_many: bool,
    tokens: u64,
    last: Option<(String, String)>,
    repeated: u32,
    forbidden: Option<GuardReason>,
    /// The limit that the calls of a closed step have met.
    met: Option<GuardReason>,
    /// Replies in a row that were no action.
    pub(super) malformed: u32,
}

impl Tally {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            portions: limits,
            steps: 0,
            calls: 0,
            errors: 0,
            too_many: false,
            tokens: 0,
            last: None,
            repeated: 0,
            forbidden: None,
            met: None,
            malformed: 0,
        }
    }

    /// The model has answered; it must have been allowed to be asked.
    pub(super) fn model_call(&mut self, usage: Option<Usage>) -> Result<(), String> {
        if let Some(guard) = self.tripped() {
            return Err(format!("the model is asked although {guard:?} has tripped"));
        }
        if self.malformed >= 2 {
            return Err("the model is asked again after two malformed replies".to_owned());
        }
        self.steps += 1;
        self.tokens += usage.map_or(0, |usage| usage.total_tokens);
        Ok(())
    }

    /// A summary was asked for: it costs tokens and is no step.
    pub(super) fn summary(&mut self, usage: Option<Usage>) -> Result<(), String> {
        if let Some(guard) = self.tripped() {
            return Err(format!("a summary is written although {guard:?} has tripped"));
        }
        self.tokens += usage.map_or(0, |usage| usage.total_tokens);
        Ok(())
    }

    /// Whether the model's next call may run. Behind one that may not none may.
    pub(super) fn may_call(&mut self, name: &str, arguments: &Value) -> bool {
        if self.forbidden.is_some() {
            return false;
        }
        let call = Some((name.to_owned(), arguments.to_string()));
        let repeated = if self.last == call { self.repeated + 1 } else { 1 };
        if self.calls == self.limits.max_tool_calls {
            self.forbidden = Some(GuardReason::MaxToolCalls);
        } else if repeated > self.limits.max_identical_calls {
            self.forbidden = Some(GuardReason::MaxIdenticalCalls);
        } else {
            (self.calls, self.last, self.repeated) = (self.calls + 1, call, repeated);
        }
        self.forbidden.is_none()
    }

    pub(super) fn result(&mut self, status: Option<CallStatus>) {
        match status {
            Some(CallStatus::Ok) => self.errors = 0,
            Some(CallStatus::Error | CallStatus::Denied | CallStatus::Unknown) => self.errors += 1,
            Some(CallStatus::Cancelled) | None => {}
        }
        let most = self.limits.max_consecutive_errors;
        self.too_many |= most > 0 && self.errors >= most;
    }

    pub(super) fn close_step(&mut self) {
        self.met = self.forbidden;
    }

    /// The limit that a person is asked about now: a call that is one too many, or the next model call.
    pub(super) fn reached(&self) -> Option<GuardReason> {
        self.forbidden.or_else(|| self.tripped())
    }

    /// A person added another portion.
    pub(super) fn raise(&mut self, guard: GuardReason) {
        self.forbidden = None;
        match guard {
            GuardReason::MaxSteps => self.limits.max_steps += self.portions.max_steps,
            GuardReason::MaxToolCalls => self.limits.max_tool_calls += self.portions.max_tool_calls,
            GuardReason::MaxConsecutiveErrors => (self.errors, self.too_many) = (0, false),
            GuardReason::MaxIdenticalCalls => (self.last, self.repeated) = (None, 0),
            GuardReason::MaxTotalTokens => {
                self.limits.max_total_tokens =
                    self.tokens.max(self.limits.max_total_tokens) + self.portions.max_total_tokens;
            }
            GuardReason::MaxCost | GuardReason::TurnTimeout | GuardReason::NoProgress => {}
        }
    }

    /// The guard that ends the turn now.
    pub(super) fn tripped(&self) -> Option<GuardReason> {
        let limits = &self.limits;
        let bounds = [
            (self.too_many, GuardReason::MaxConsecutiveErrors),
            (self.steps >= limits.max_steps, GuardReason::MaxSteps),
            (limits.max_total_tokens > 0 && self.tokens >= limits.max_total_tokens, GuardReason::MaxTotalTokens),
        ];
        self.met.or_else(|| bounds.into_iter().find(|(met, _)| *met).map(|(_, guard)| guard))
    }
}
