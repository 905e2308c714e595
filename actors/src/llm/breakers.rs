//! One breaker per provider: a provider that is down is asked by few calls.
//!
//! Shared by the tasks of all calls, as the places and the budgets are. A call that
//! was let through holds a [`Pass`]; its drop gives a probe's place back, so that a
//! call that was abandoned or panicked cannot keep a provider closed for ever.

use bob_messages::breaker::{Breaker, BreakerPolicy, Down, Passage};
use bob_messages::llm::{LlmError, LlmErrorKind, ProviderState};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// When a provider counts as down, and how often it is tried then.
pub const DEFAULT_BREAKER: BreakerPolicy = BreakerPolicy { failures: 5, lasting_ms: 2_000, probe_every_ms: 5_000 };

/// The breakers of all providers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Breakers {
    policy: BreakerPolicy,
    /// What their milliseconds are counted from.
    began: Instant,
    lines: Arc<Mutex<BTreeMap<String, Line>>>,
}

/// What is known of one provider.
#[derive(Debug, Default)]
struct Line {
    breaker: Breaker,
    last_error: String,
}

/// The permission of one attempt. Dropping it untold lets a probe's place go.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    breakers: &'a Breakers,
    provider: &'a str,
    is_probe: bool,
}

/// What the end of an attempt says of its provider, as opposed to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Alive,
    Failing,
    Nothing,
}

impl Breakers {
    pub(super) fn new(policy: BreakerPolicy) -> Self {
        Self { policy, began: Instant::now(), lines: Arc::default() }
    }

    /// Lets an attempt through, or says how long the provider has failed.
    pub(super) fn pass<'a>(&'a self, provider: &'a str) -> Result<Pass<'a>, LlmError> {
        let mut lines = self.lines();
        if !lines.contains_key(provider) {
            lines.insert(provider.to_owned(), Line::default());
        }
        let failing = lines.get_mut(provider).filter(|line| !line.breaker.is_closed());
        let passage = failing.map_or(Passage::Free, |line| line.breaker.pass(self.now_ms()));
        let is_probe = match passage {
            Passage::Free => false,
            Passage::Probe => true,
            Passage::Refused(down) => return Err(refusal(provider, lines.get(provider), down)),
        };
        Ok(Pass { breakers: self, provider, is_probe })
    }

    /// Whether [`pass`](Self::pass) would refuse now; nothing changes.
    pub(super) fn look(&self, provider: &str) -> Result<(), LlmError> {
        let lines = self.lines();
        let line = lines.get(provider).filter(|line| !line.breaker.is_closed());
        match line.and_then(|line| line.breaker.down(self.now_ms())) {
            None | Some(Down { next_try_in_ms: Some(0), .. }) => Ok(()),
            Some(down) => Err(refusal(provider, line, down)),
        }
    }

    pub(super) fn states(&self) -> Vec<ProviderState> {
        let now_ms = self.now_ms();
        let state = |(provider, line): (&String, &Line)| ProviderState {
            provider: provider.clone(),
            down: line.breaker.down(now_ms),
            last_error: (!line.last_error.is_empty()).then(|| line.last_error.clone()),
        };
        self.lines().iter().map(state).collect()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    pub(super) fn tell<T>(mut self, result: &Result<T, LlmError>) {
        let Self { breakers, provider, is_probe } = &self;
        let mut lines = breakers.lines();
        let Some(line) = lines.get_mut(*provider) else { return };
        if let Err(error) = result {
            line.last_error.clone_from(&error.message);
        }
        match sign(result) {
            Sign::Alive => line.breaker.succeeded(*is_probe),
            Sign::Failing => line.breaker.failed(*is_probe, breakers.now_ms(), breakers.policy),
            Sign::Nothing => return,
        }
        drop(lines);
        self.is_probe = false;
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.is_probe {
            return;
        }
        let now_ms = self.breakers.now_ms();
        if let Some(line) = self.breakers.lines().get_mut(self.provider) {
            line.breaker.let_go(now_ms);
        }
    }
}

/// A provider that refuses a request is there; one that breaks off or says nothing
/// may be down; and what we made of an answer says nothing of it.
fn sign<T>(result: &Result<T, LlmError>) -> Sign {
    match result.as_ref().map_err(|error| error.kind) {
        Ok(_)
        | Err(
            LlmErrorKind::RateLimited
            | LlmErrorKind::QuotaExhausted
            | LlmErrorKind::Unauthorized
            | LlmErrorKind::UnknownModel
            | LlmErrorKind::ContextExceeded
            | LlmErrorKind::Rejected,
        ) => Sign::Alive,
        Err(LlmErrorKind::Unavailable | LlmErrorKind::Timeout) => Sign::Failing,
        Err(_of_the_configuration_or_of_ours) => Sign::Nothing,
    }
}

fn refusal(provider: &str, line: Option<&Line>, down: Down) -> LlmError {
    let seconds = |ms: u64| ms.div_ceil(1_000);
    let next = match down.next_try_in_ms {
        Some(ms) => format!("next try in {} s", seconds(ms)),
        None => "it is being tried now".to_owned(),
    };
    let last = line.map_or("", |line| &line.last_error);
    let text = format!("provider {provider} has been down for {} s: {next} (last: {last})", seconds(down.for_ms));
    LlmError::new(LlmErrorKind::Unavailable, text)
}

#[cfg(test)]
#[path = "breakers_tests.rs"]
mod tests;
