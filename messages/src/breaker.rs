//! The circuit breaker: whether calls to a failing service are attempted.
//!
//! While closed, all calls pass. After consecutive failures over some time it opens: calls are refused at once,
//! except for one probe at a time. A successful probe closes it; a failed one keeps it open for another interval.
//! Time is passed in as milliseconds of a monotonic clock.

/// When a breaker opens, and how often it lets a probe through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// It opens after at least this many failures in a row.
    pub failures: u32,
    /// And only when the first and the last of them are at least this far apart, in
    /// milliseconds: a hiccup that fails many callers at once is for their repetitions.
    pub lasting_ms: u64,
    /// From opening, or from a failed probe, to the next probe, in milliseconds.
    pub probe_every_ms: u64,
}

/// The breaker of one service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breaker(State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// `failures` in a row, the first at `since_ms`.
    Closed { failures: u32, since_ms: u64 },
    /// Failing since `since_ms`; the next call at or after `probe_at_ms` is the probe.
    Open { since_ms: u64, probe_at_ms: u64 },
    /// Failing since `since_ms`; the probe is on its way.
    Probing { since_ms: u64 },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0, since_ms: 0 }
    }
}

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Attempt it; report the result if there is one.
    Free,
    /// Attempt it as the only probe; the result, or its abandonment, must be reported.
    Probe,
    /// Do not ask.
    Refused(Down),
}

/// How a service fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Down {
    /// For how long it has failed, in milliseconds.
    pub for_ms: u64,
    /// In how many milliseconds the next probe may go; `None` while one is on its way.
    pub next_try_in_ms: Option<u64>,
}

impl Breaker {
    /// Decides about a call at `now_ms`. Returns [`Passage::Probe`] to one caller only, until it reports its result.
    pub fn pass(&mut self, now_ms: u64) -> Passage {
        match (self.down(now_ms), self.0) {
            (None, _) => Passage::Free,
            (Some(_), State::Open { since_ms, probe_at_ms }) if now_ms >= probe_at_ms => {
                self.0 = State::Probing { since_ms };
                Passage::Probe
            }
            (Some(down), _) => Passage::Refused(down),
        }
    }

    /// Whether all may pass, at any time.
    pub fn is_closed(&self) -> bool {
        matches!(self.0, State::Closed { .. })
    }

    /// How it fails at `now_ms`; `None` while the breaker is closed. Changes nothing.
    pub fn down(&self, now_ms: u64) -> Option<Down> {
        let down = |since_ms, next_try_in_ms| Some(Down { for_ms: now_ms.saturating_sub(since_ms), next_try_in_ms });
        match self.0 {
            State::Closed { .. } => None,
            State::Open { since_ms, probe_at_ms } => down(since_ms, Some(probe_at_ms.saturating_sub(now_ms))),
            State::Probing { since_ms } => down(since_ms, None),
        }
    }

    /// Reports a success. If the breaker is not closed, only the probe counts: other calls began earlier.
    pub fn succeeded(&mut self, was_probe: bool) {
        match self.0 {
            State::Closed { .. } => self.0 = State::default(),
            State::Open { .. } | State::Probing { .. } if was_probe => self.0 = State::default(),
            State::Open { .. } | State::Probing { .. } => {}
        }
    }

    /// A caller failed at `now_ms`.
    pub fn failed(&mut self, was_probe: bool, now_ms: u64, policy: BreakerPolicy) {
        let open = |since_ms| State::Open { since_ms, probe_at_ms: now_ms.saturating_add(policy.probe_every_ms) };
        self.0 = match self.0 {
            State::Closed { failures, since_ms } => {
                let since_ms = if failures == 0 { now_ms } else { since_ms };
                let failures = failures.saturating_add(1);
                let lasts = now_ms.saturating_sub(since_ms) >= policy.lasting_ms;
                if failures >= policy.failures.max(1) && lasts {
                    open(since_ms)
                } else {
                    State::Closed { failures, since_ms }
                }
            }
            State::Probing { since_ms } if was_probe => open(since_ms),
            state @ (State::Open { .. } | State::Probing { .. }) => state,
        };
    }

    /// The probe was let go before it knew anything: the next caller is the probe.
    pub fn let_go(&mut self, now_ms: u64) {
        if let State::Probing { since_ms } = self.0 {
            self.0 = State::Open { since_ms, probe_at_ms: now_ms };
        }
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
