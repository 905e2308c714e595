//! Limits of tenants: what a request may still spend, and what a tenant has used.

use super::builder::RuntimeBuilder;
use super::runtime::Runtime;
use super::tenant::TenantRuntime;
use bob_actors::clock;
use bob_messages::Millis;
use bob_messages::cost::Cost;
use bob_messages::error::AgentError;
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::limits::Limits;
use bob_messages::reply::Reply;
use bob_messages::store::{Part, SessionFilter, StoreMessage};
use bob_messages::submission::SessionsMessage;
use bob_messages::tenants::{Spent, TenantLimits, day_began};

/// How many records are read at a time, from the end of a journal on.
const PAGE: u64 = 500;

/// What a tenant uses now, and used today, by UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantUse {
    /// Turns that run.
    pub running_turns: usize,
    /// Inputs that wait for a turn to end.
    pub waiting_turns: usize,
    /// Tokens of today's model calls, of input and output. Without a limit a day, those of this process.
    pub tokens_today: u64,
    /// What they cost, as far as it is known, in the currency of the prices.
    pub cost_today: Cost,
}

impl RuntimeBuilder {
    /// Limits every tenant that has no [limits of its own](Self::limits_of_tenant). Requests without a tenant have none.
    #[must_use]
    pub fn tenant_limits(mut self, limits: TenantLimits) -> Self {
        self.tenants.all = limits;
        self
    }

    /// Limits one tenant.
    #[must_use]
    pub fn limits_of_tenant(mut self, tenant: impl Into<TenantId>, limits: TenantLimits) -> Self {
        self.tenants.own.insert(tenant.into(), limits);
        self
    }
}

impl TenantRuntime {
    /// What the tenant uses now, and used today.
    ///
    /// # Errors
    /// Errors of the store, from which the sum of a day is read once.
    pub async fn usage(&self) -> Result<TenantUse, AgentError> {
        self.runtime().usage_of(self.id()).await
    }
}

impl Runtime {
    async fn usage_of(&self, tenant: &TenantId) -> Result<TenantUse, AgentError> {
        self.settle_tenant(Some(tenant)).await?;
        let (reply, load) = Reply::channel();
        self.0.tree.rooms.sessions.tell(SessionsMessage::TenantLoad { tenant: tenant.clone(), reply });
        let load = load.await.unwrap_or_default();
        let Spent { tokens, cost } = self.0.tree.rooms.tenants.spent(tenant, clock::now());
        Ok(TenantUse {
            running_turns: load.running,
            waiting_turns: load.waiting,
            tokens_today: tokens,
            cost_today: cost,
        })
    }

    /// The limits of a turn of this tenant: within what is left of the day.
    /// Errors: `Overloaded` when a limit of the day is used up, with the time until the next day.
    pub(super) fn within_day(&self, tenant: Option<&TenantId>, limits: Limits) -> Result<Limits, AgentError> {
        let Some(tenant) = tenant else { return Ok(limits) };
        let left = self.0.tree.rooms.tenants.left(tenant, clock::now());
        let left = left.map_err(|used_up| {
            let text = format!("{used_up}; nothing was kept of this input");
            AgentError::overloaded_for(text, Some(used_up.retry_after_ms))
        })?;
        let tokens = [limits.max_total_tokens, left.tokens.unwrap_or_default()];
        let cost = [limits.max_cost, left.cost.unwrap_or_default()];
        Ok(Limits {
            // Zero is no bound.
            max_total_tokens: tokens.into_iter().filter(|most| *most > 0).min().unwrap_or_default(),
            max_cost: cost.into_iter().filter(|most| !most.is_zero()).min().unwrap_or_default(),
            ..limits
        })
    }

    /// Reads what the tenant spent today before this process knew it, once, if it has a limit a day.
    pub(super) async fn settle_tenant(&self, tenant: Option<&TenantId>) -> Result<(), AgentError> {
        let Some(tenant) = tenant else { return Ok(()) };
        let tenants = self.0.tree.rooms.tenants.clone();
        // Boxed, since it is rare and its future is large.
        tenants.settled(tenant, async || Box::pin(self.spent_today(tenant)).await).await
    }

    /// The tenant of a session whose suspended turn is resumed, if its limits have to be known.
    /// Errors of the store; `Overloaded` when a limit of the day is used up.
    pub(super) async fn limited(&self, session: &SessionId) -> Result<(Option<TenantId>, Limits), AgentError> {
        if !self.0.tree.rooms.tenants.has_limits() {
            return Ok((None, self.0.limits));
        }
        let tenant = self.tenant_of(session).await?;
        self.settle_tenant(tenant.as_ref()).await?;
        let limits = self.within_day(tenant.as_ref(), self.0.limits)?;
        Ok((tenant, limits))
    }

    /// What the journals of a tenant say of today.
    async fn spent_today(&self, tenant: &TenantId) -> Result<Vec<(Millis, Spent)>, AgentError> {
        let since = day_began(clock::now());
        let filter = SessionFilter { tenant: Some(tenant.clone()), ..SessionFilter::default() };
        let (mut spent, mut cursor) = (Vec::new(), None);
        loop {
            let filter = filter.clone();
            let page = self.ask_store(move |reply| StoreMessage::List { filter, cursor, reply }).await?;
            for summary in page.sessions {
                // The newest come first.
                if summary.updated_at < since {
                    return Ok(spent);
                }
                self.spent_of(&summary.session, since, &mut spent).await?;
            }
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(spent);
            }
        }
    }

    async fn spent_of(
        &self,
        session: &SessionId,
        since: Millis,
        spent: &mut Vec<(Millis, Spent)>,
    ) -> Result<(), AgentError> {
        let mut records = self.part(session.clone(), Part::Latest).await?;
        loop {
            spent.extend(
                records.iter().filter(|record| record.at >= since).map(|record| (record.at, Spent::of(record))),
            );
            let Some(first) = records.first().filter(|first| first.at >= since && first.version > 1) else {
                return Ok(());
            };
            let before = first.version - 1;
            let behind = before.saturating_sub(PAGE);
            let most = usize::try_from(before - behind).unwrap_or(usize::MAX);
            records = self.part(session.clone(), Part::Page { behind, most }).await?;
        }
    }
}
