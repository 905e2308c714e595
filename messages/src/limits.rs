//! The limits of a turn: maximum values, usage, and the guard that was reached.
//!
//! Counts are checked here; the sessions supervisor enforces times.

use crate::chat::{CallStatus, Delegated, GuardReason, ToolCall};
use crate::cost::Cost;
use crate::trace::Fnv64;
use serde::{Deserialize, Serialize};

/// The bounds of one turn.
#[doc(alias = "TurnPolicy")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Model calls.
    pub max_steps: u32,
    /// Tool calls; one more ends the turn.
    pub max_tool_calls: u32,
    /// Tool errors, timeouts and denials in a row.
    pub max_consecutive_errors: u32,
    /// Identical calls in a row; one more is not run.
    pub max_identical_calls: u32,
    /// Tokens, as the provider counts them; 0 means no bound.
    pub max_total_tokens: u64,
    /// What the model calls may cost, in the currency of the model's price; nothing means no bound. A model without a
    /// known price is refused.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub max_cost: Cost,
    /// How long the turn may take, in milliseconds.
    pub turn_timeout_ms: u64,
    /// How long the turn may take without progress, in milliseconds; 0 means no bound. Progress is a piece of an answer,
    /// output of a tool, or a result.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub progress_timeout_ms: u64,
    /// How long one tool call may take, in milliseconds.
    pub tool_timeout_ms: u64,
    /// How long a person may take to decide about a call, in milliseconds.
    pub approval_timeout_ms: u64,
    /// How long a suspended turn can be resumed by its token, in milliseconds; 0 means for ever.
    #[serde(default = "a_week")]
    pub suspend_timeout_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Default validity of a token, in milliseconds.
const fn a_week() -> u64 {
    7 * 24 * 3_600_000
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 12,
            max_tool_calls: 8,
            max_consecutive_errors: 2,
            max_identical_calls: 3,
            max_total_tokens: 0,
            max_cost: Cost::ZERO,
            turn_timeout_ms: 90_000,
            progress_timeout_ms: 0,
            tool_timeout_ms: 15_000,
            approval_timeout_ms: 600_000,
            suspend_timeout_ms: a_week(),
        }
    }
}

impl Limits {
    /// Limits for a person at work: a turn may take many steps and hours, and ends when it makes no progress.
    pub const fn terminal() -> Self {
        Self {
            max_steps: 100,
            max_tool_calls: 200,
            max_consecutive_errors: 10,
            max_identical_calls: 10,
            max_total_tokens: 0,
            max_cost: Cost::ZERO,
            turn_timeout_ms: 24 * 3_600_000,
            progress_timeout_ms: 600_000,
            tool_timeout_ms: 120_000,
            approval_timeout_ms: 600_000,
            suspend_timeout_ms: a_week(),
        }
    }

    /// How long one wait of a turn may take that has this much of its time left, in milliseconds.
    pub fn longest_wait_ms(&self, left_ms: u64) -> u64 {
        match self.progress_timeout_ms {
            0 => left_ms,
            quiet_ms => left_ms.min(quiet_ms),
        }
    }

    /// Adds another portion of this limit: as much as `portions` has of it. What counts in a row begins anew, and a time
    /// without progress needs nothing.
    pub(crate) fn raise(&mut self, guard: GuardReason, portions: &Self, spent: &mut Spent) {
        match guard {
            GuardReason::MaxSteps => self.max_steps = self.max_steps.saturating_add(portions.max_steps),
            GuardReason::MaxToolCalls => {
                self.max_tool_calls = self.max_tool_calls.saturating_add(portions.max_tool_calls);
            }
            GuardReason::MaxConsecutiveErrors => spent.consecutive_errors = 0,
            GuardReason::MaxIdenticalCalls => (spent.identical_calls, spent.last_call) = (0, None),
            // The last model call may have taken more than was left.
            GuardReason::MaxTotalTokens => {
                let used = self.max_total_tokens.max(spent.all_tokens());
                self.max_total_tokens = used.saturating_add(portions.max_total_tokens);
            }
            GuardReason::MaxCost => {
                let used = if spent.cost > self.max_cost { spent.cost } else { self.max_cost };
                self.max_cost = used.plus(portions.max_cost);
            }
            GuardReason::TurnTimeout | GuardReason::NoProgress => {}
        }
    }

    /// The limit behind a reason; that of the cost in millionths.
    pub fn of(&self, guard: GuardReason) -> u64 {
        match guard {
            GuardReason::MaxSteps => u64::from(self.max_steps),
            GuardReason::MaxToolCalls => u64::from(self.max_tool_calls),
            GuardReason::MaxConsecutiveErrors => u64::from(self.max_consecutive_errors),
            GuardReason::MaxIdenticalCalls => u64::from(self.max_identical_calls),
            GuardReason::MaxTotalTokens => self.max_total_tokens,
            GuardReason::MaxCost => self.max_cost.micros(),
            GuardReason::TurnTimeout => self.turn_timeout_ms,
            GuardReason::NoProgress => self.progress_timeout_ms,
        }
    }

    /// The answer of a turn that reached this guard without text of its own.
    pub fn sentence(&self, guard: GuardReason) -> String {
        let limit = self.of(guard);
        match guard {
            GuardReason::MaxSteps => format!("Stopped: the turn used its {limit} model calls (max_steps)."),
            GuardReason::MaxToolCalls => format!("Stopped: the turn used its {limit} tool calls (max_tool_calls)."),
            GuardReason::MaxConsecutiveErrors => {
                format!("Stopped: {limit} tool calls in a row failed (max_consecutive_errors).")
            }
            GuardReason::MaxIdenticalCalls => {
                format!("Stopped: the model repeated the same call more than {limit} times (max_identical_calls).")
            }
            GuardReason::MaxTotalTokens => format!("Stopped: the turn used its {limit} tokens (max_total_tokens)."),
            GuardReason::MaxCost => format!("Stopped: the turn cost its {} (max_cost).", self.max_cost),
            GuardReason::TurnTimeout => format!("Stopped: the turn took longer than {limit} ms (turn_timeout_ms)."),
            GuardReason::NoProgress => {
                format!("Stopped: the turn made no progress for {limit} ms (progress_timeout_ms).")
            }
        }
    }
}

/// What is left of the limits of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Left {
    /// Model calls.
    pub steps: u32,
    /// Tool calls that may still be requested, without those of the step that is under way.
    pub tool_calls: u32,
    /// Tokens; `None` without a bound.
    pub tokens: Option<u64>,
    /// Money; `None` without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Time, in milliseconds.
    pub time_ms: u64,
}

impl Left {
    /// An equal part of what is left, as the limits of another turn. Its time is that of these limits.
    pub(crate) fn part(&self, among: u32, limits: &Limits) -> Limits {
        let among = among.max(1);
        Limits {
            max_steps: self.steps / among,
            max_tool_calls: self.tool_calls / among,
            // 0 is no bound.
            max_total_tokens: self.tokens.map_or(0, |tokens| (tokens / u64::from(among)).max(1)),
            max_cost: self.cost.map_or(Cost::ZERO, |cost| Cost::from_nanos((cost.nanos() / u64::from(among)).max(1))),
            ..*limits
        }
    }

    /// Takes away what a child with these limits may use.
    pub fn hold(&mut self, held: &Limits) {
        self.steps = self.steps.saturating_sub(held.max_steps);
        self.tool_calls = self.tool_calls.saturating_sub(held.max_tool_calls);
        self.tokens = self.tokens.map(|tokens| tokens.saturating_sub(held.max_total_tokens));
        self.cost = self.cost.map(|cost| cost.less(held.max_cost));
    }
}

/// Usage of a turn. Never exceeds its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Model calls.
    pub steps: u32,
    /// Tool calls that were taken up.
    pub tool_calls: u32,
    /// Failed calls since the last success.
    pub consecutive_errors: u32,
    /// How often the last call was made in a row.
    pub identical_calls: u32,
    /// Hash of the last call.
    pub last_call: Option<u64>,
    /// Tokens.
    pub tokens: u64,
    /// What the model calls cost, with those of other sessions for its calls, as far as it is known.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
    /// What other sessions used for its calls, as far as it counts.
    #[serde(default, skip_serializing_if = "Below::is_none")]
    pub below: Below,
}

/// What other sessions used of the limits of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Below {
    /// Model calls.
    pub steps: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub tokens: u64,
}

impl Below {
    /// Whether nothing was used.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Spent {
    /// Which bound forbids another model call, if one does.
    pub fn forbids_step(&self, limits: &Limits) -> Option<GuardReason> {
        if self.too_many_errors(limits) {
            return Some(GuardReason::MaxConsecutiveErrors);
        }
        if self.steps.saturating_add(self.below.steps) >= limits.max_steps {
            return Some(GuardReason::MaxSteps);
        }
        let spent_all = limits.max_total_tokens > 0 && self.all_tokens() >= limits.max_total_tokens;
        if spent_all {
            return Some(GuardReason::MaxTotalTokens);
        }
        let is_dear = !limits.max_cost.is_zero() && self.cost >= limits.max_cost;
        is_dear.then_some(GuardReason::MaxCost)
    }

    /// What is left of these limits; `time_ms` is what is left of the time.
    pub fn left_of(&self, limits: &Limits, time_ms: u64) -> Left {
        let tokens = (limits.max_total_tokens > 0).then(|| limits.max_total_tokens.saturating_sub(self.all_tokens()));
        let steps = limits.max_steps.saturating_sub(self.steps).saturating_sub(self.below.steps);
        let tool_calls = limits.max_tool_calls.saturating_sub(self.tool_calls).saturating_sub(self.below.tool_calls);
        let cost = (!limits.max_cost.is_zero()).then(|| limits.max_cost.less(self.cost));
        Left { steps, tool_calls, tokens, cost, time_ms }
    }

    /// Counts what other sessions used for a call. A call that a limit of theirs refused is not counted beyond the
    /// limits here.
    pub fn delegate(&mut self, used: &Delegated, limits: &Limits) {
        let left = self.left_of(limits, 0);
        self.below.steps += used.steps.min(left.steps);
        self.below.tool_calls += used.tool_calls.min(left.tool_calls);
        self.below.tokens = self.below.tokens.saturating_add(used.usage.total_tokens);
        self.cost = self.cost.plus(used.cost);
    }

    fn all_tokens(&self) -> u64 {
        self.tokens.saturating_add(self.below.tokens)
    }

    /// Counts one more call, or returns the guard that forbids it.
    ///
    /// # Errors
    /// Returns the guard that was reached; then nothing is counted.
    pub fn take_call(&mut self, call: &ToolCall, limits: &Limits) -> Result<(), GuardReason> {
        let hash = call_hash(call);
        let identical = if self.last_call == Some(hash) { self.identical_calls + 1 } else { 1 };
        if self.tool_calls.saturating_add(self.below.tool_calls) >= limits.max_tool_calls {
            return Err(GuardReason::MaxToolCalls);
        }
        if identical > limits.max_identical_calls {
            return Err(GuardReason::MaxIdenticalCalls);
        }
        self.tool_calls += 1;
        self.identical_calls = identical;
        self.last_call = Some(hash);
        Ok(())
    }

    /// Counts a call that has its result.
    pub fn count_result(&mut self, status: CallStatus, limits: &Limits) {
        match status {
            // A success after too many failures in one step has no effect: the turn ends when all its results are in.
            CallStatus::Ok if self.too_many_errors(limits) => {}
            CallStatus::Ok => self.consecutive_errors = 0,
            CallStatus::Error | CallStatus::Denied | CallStatus::Unknown => {
                self.consecutive_errors = (self.consecutive_errors + 1).min(limits.max_consecutive_errors);
            }
            // Not run, or no longer wanted: neither a success nor a failure of the tool.
            CallStatus::Cancelled => {}
        }
    }

    fn too_many_errors(&self, limits: &Limits) -> bool {
        limits.max_consecutive_errors > 0 && self.consecutive_errors >= limits.max_consecutive_errors
    }
}

fn call_hash(call: &ToolCall) -> u64 {
    let mut hash = Fnv64::default().with(call.name.as_str().as_bytes()).with(b"\n");
    // Arguments were JSON and a hash takes every byte, so they are written without fail.
    let _never_fails = serde_json::to_writer(&mut hash, &call.arguments);
    hash.0
}
