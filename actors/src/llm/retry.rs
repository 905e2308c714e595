//! Whether a failed attempt is made again, by whom, and after how long. Pure: chance,
//! time and the budget come in as data.

use bob_messages::backoff::Backoff;
use bob_messages::llm::{LlmError, LlmErrorKind};

/// However long a provider asks us to wait, we wait no longer than this, in milliseconds.
pub const MOST_RETRY_AFTER_MS: u64 = 60_000;

/// How often a model is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Further attempts per model after the first.
    pub max: u32,
    /// How long to wait before each.
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max: 2, backoff: Backoff { first_ms: 1_000, most_ms: 20_000 } }
    }
}

/// What is known when an attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failure<'a> {
    /// How it failed.
    pub error: &'a LlmError,
    /// How often this model was asked again already.
    pub repeated: u32,
    /// What is left of the turn, in milliseconds.
    pub remaining_ms: u64,
    /// Uniform in `0.0..=1.0`.
    pub chance: f64,
    /// Whether there is another model to ask.
    pub has_fallback: bool,
    /// Whether the provider counts as down, so it is not asked again for now.
    pub is_down: bool,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Ask the same model again.
    Again {
        /// After this long, in milliseconds.
        delay_ms: u64,
    },
    /// Ask the next model, at once.
    Fallback,
    /// The call has failed.
    GiveUp,
}

impl RetryPolicy {
    /// Rules on a failure. `budget` is asked for one repetition only when everything else allows it.
    ///
    /// A wait that would outlast the turn is not begun: the caller hears the
    /// provider's reason now instead of a timeout later.
    #[doc(hidden)]
    pub fn rule(&self, failure: Failure<'_>, budget: impl FnOnce() -> bool) -> Verdict {
        if !failure.error.is_retryable() {
            return Verdict::GiveUp;
        }
        let asked_ms = failure.error.retry_after_ms.unwrap_or(0).min(MOST_RETRY_AFTER_MS);
        let delay_ms = self.backoff.delay_ms(failure.repeated + 1, failure.chance).max(asked_ms);
        let may_repeat = failure.repeated < self.max && !failure.is_down;
        if may_repeat && delay_ms < failure.remaining_ms && budget() {
            Verdict::Again { delay_ms }
        } else if failure.has_fallback && failure.remaining_ms > 0 && is_outage(failure.error.kind) {
            Verdict::Fallback
        } else {
            Verdict::GiveUp
        }
    }
}

/// Whether the provider is down or overrun, so that another one may do better.
fn is_outage(kind: LlmErrorKind) -> bool {
    match kind {
        LlmErrorKind::Unavailable | LlmErrorKind::RateLimited | LlmErrorKind::Timeout => true,
        _another_provider_would_do_no_better => false,
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
