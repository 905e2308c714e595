//! Limits of tenants, and what they spent today.

use crate::Millis;
use crate::cost::Cost;
use crate::ids::TenantId;
use crate::store::{Fact, Record};
use std::collections::BTreeMap;

#[cfg(test)]
#[path = "tenants_tests.rs"]
mod tests;

/// The length of a day, in milliseconds.
const DAY_MS: Millis = 24 * 3_600_000;

/// The limits of one tenant. Zero is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// The most turns that run at once; further ones wait. Those of sub-agents run in the place of the turn that waits for
    /// them and do not count.
    pub max_concurrent_turns: usize,
    /// The most tokens a day, by UTC: input and output of all model calls, those of sub-agents and summaries included.
    pub max_tokens_per_day: u64,
    /// The most that model calls may cost a day, by UTC, in the currency of the prices. Calls without a price cost nothing.
    pub max_cost_per_day: Cost,
}

/// The limits of all tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantRules {
    /// Those of every tenant that has none of its own.
    pub all: TenantLimits,
    /// Those of single tenants.
    pub own: BTreeMap<TenantId, TenantLimits>,
}

impl TenantRules {
    /// The limits of a tenant; requests without a tenant have none.
    pub fn of(&self, tenant: Option<&TenantId>) -> TenantLimits {
        let limits = tenant.map(|tenant| self.own.get(tenant).unwrap_or(&self.all));
        limits.copied().unwrap_or_default()
    }
}

impl TenantLimits {
    /// Whether there is a limit a day.
    pub fn is_daily(&self) -> bool {
        self.max_tokens_per_day > 0 || !self.max_cost_per_day.is_zero()
    }
}

/// What model calls used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens, of input and output.
    pub tokens: u64,
    /// What they cost, as far as it is known.
    pub cost: Cost,
}

impl Spent {
    /// What a record says that a model call used.
    pub fn of(record: &Record) -> Self {
        let (usage, cost) = match &record.fact {
            Fact::Answered(answered) => (answered.cost.usage.as_ref(), answered.cost.cost),
            Fact::Malformed { cost, .. } => (cost.usage.as_ref(), cost.cost),
            Fact::Condensed(condensed) => (condensed.usage.as_ref(), condensed.cost),
            _no_model_call => (None, None),
        };
        Self { tokens: usage.map_or(0, |usage| usage.total_tokens), cost: cost.unwrap_or_default() }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost.plus(other.cost) }
    }
}

/// What is left of a day's limits; `None` without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftToday {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<Cost>,
}

/// A day's limit is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UsedUp {
    /// Which limit of which tenant, and when it ends.
    pub text: String,
    /// When the next day begins, in milliseconds from now.
    pub retry_after_ms: u64,
}

/// What each tenant spent on the day that was last written down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayBook {
    /// Days since the Unix epoch, by UTC.
    day: Millis,
    spent: BTreeMap<TenantId, Spent>,
}

impl DayBook {
    /// Adds what a tenant spent at a time. What was spent on an earlier day than the last one is left out.
    pub fn add(&mut self, tenant: &TenantId, at: Millis, spent: Spent) {
        let day = day(at);
        if day > self.day {
            *self = Self { day, spent: BTreeMap::new() };
        }
        if day == self.day && spent != Spent::default() {
            let sum = self.spent.entry(tenant.clone()).or_default();
            *sum = sum.plus(spent);
        }
    }

    /// What a tenant spent on the day of `now`.
    pub fn spent(&self, tenant: &TenantId, now: Millis) -> Spent {
        let is_now = day(now) == self.day;
        self.spent.get(tenant).filter(|_| is_now).copied().unwrap_or_default()
    }

    /// What is left of these limits of a tenant on the day of `now`.
    ///
    /// # Errors
    /// Which one is used up.
    pub fn left(&self, tenant: &TenantId, limits: &TenantLimits, now: Millis) -> Result<LeftToday, UsedUp> {
        let Spent { tokens, cost } = self.spent(tenant, now);
        let (most_tokens, most_cost) = (limits.max_tokens_per_day, limits.max_cost_per_day);
        let used_up = |what: String| {
            let retry_after_ms = u64::try_from(DAY_MS - now.rem_euclid(DAY_MS)).unwrap_or_default();
            let text = format!("the tenant {tenant} has used up its {what} a day; the next day begins at 00:00 UTC");
            Err(UsedUp { text, retry_after_ms })
        };
        if most_tokens > 0 && tokens >= most_tokens {
            return used_up(format!("{most_tokens} tokens"));
        }
        if !most_cost.is_zero() && cost >= most_cost {
            return used_up(format!("budget of {}", most_cost.amount()));
        }
        Ok(LeftToday {
            tokens: (most_tokens > 0).then(|| most_tokens - tokens),
            cost: (!most_cost.is_zero()).then(|| most_cost.less(cost)),
        })
    }
}

/// When the day of this time began.
pub fn day_began(at: Millis) -> Millis {
    day(at) * DAY_MS
}

fn day(at: Millis) -> Millis {
    at.div_euclid(DAY_MS)
}
