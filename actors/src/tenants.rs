//! What the tenants of a runtime spent today, against their limits.
//!
//! Each turn notes what its records say that model calls used; a call of a tenant whose day is used up is refused. The
//! journals have the sum of a day, so it is read from there once in a process.

use crate::clock;
use bob_messages::Millis;
use bob_messages::ids::TenantId;
use bob_messages::llm::{LlmError, LlmErrorKind, LlmRequest};
use bob_messages::store::Record;
use bob_messages::tenants::{DayBook, LeftToday, Spent, TenantLimits, TenantRules, UsedUp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// The limits of the tenants of a runtime, and what they spent. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct Tenants(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rules: Arc<TenantRules>,
    book: Mutex<DayBook>,
    read: Mutex<HashMap<TenantId, Arc<OnceCell<()>>>>,
}

impl Tenants {
    /// Tenants with these limits, of whom nothing is known.
    pub fn limited_by(rules: TenantRules) -> Self {
        Self(Arc::new(Inner { rules: Arc::new(rules), ..Inner::default() }))
    }

    /// The limits.
    pub fn rules(&self) -> &Arc<TenantRules> {
        &self.0.rules
    }

    /// Whether any tenant has a limit.
    pub fn has_limits(&self) -> bool {
        *self.0.rules != TenantRules::default()
    }

    /// The limits of one tenant.
    pub fn limits(&self, tenant: Option<&TenantId>) -> TenantLimits {
        self.0.rules.of(tenant)
    }

    /// Adds what these records say that a tenant's model calls used.
    pub fn note<'a>(&self, tenant: &TenantId, records: impl IntoIterator<Item = &'a Arc<Record>>) {
        for record in records {
            let spent = Spent::of(record);
            if spent != Spent::default() {
                self.add(tenant, record.at, spent);
            }
        }
    }

    fn add(&self, tenant: &TenantId, at: Millis, spent: Spent) {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner).add(tenant, at, spent);
    }

    /// What a tenant spent on the day of `now`, as far as it is known in this process.
    pub fn spent(&self, tenant: &TenantId, now: Millis) -> Spent {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner).spent(tenant, now)
    }

    /// What is left of a tenant's limits on the day of `now`.
    ///
    /// # Errors
    /// Which one is used up.
    pub fn left(&self, tenant: &TenantId, now: Millis) -> Result<LeftToday, UsedUp> {
        let limits = self.limits(Some(tenant));
        if !limits.is_daily() {
            return Ok(LeftToday::default());
        }
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner).left(tenant, &limits, now)
    }

    /// Whether a model may be asked on behalf of the tenant of this request.
    pub(crate) fn allow(&self, request: &LlmRequest) -> Result<(), LlmError> {
        let Some(tenant) = request.context.as_ref().and_then(|context| context.tenant.as_ref()) else { return Ok(()) };
        match self.left(tenant, clock::now()) {
            Ok(_some) => Ok(()),
            Err(used_up) => {
                Err(LlmError::new(LlmErrorKind::QuotaExhausted, used_up.text)
                    .with_retry_after_ms(used_up.retry_after_ms))
            }
        }
    }

    /// Reads what a tenant spent before this process knew it, unless that was read, or it has no limit a day. Others that
    /// ask meanwhile wait. One that fails is tried again by the next.
    ///
    /// # Errors
    /// That of `read`.
    pub async fn settled<E>(
        &self,
        tenant: &TenantId,
        read: impl AsyncFnOnce() -> Result<Vec<(Millis, Spent)>, E>,
    ) -> Result<(), E> {
        if !self.limits(Some(tenant)).is_daily() {
            return Ok(());
        }
        let cell = {
            let mut known = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(tenant.clone()).or_default())
        };
        let settle = async || {
            for (at, spent) in read().await? {
                self.add(tenant, at, spent);
            }
            Ok(())
        };
        cell.get_or_try_init(settle).await.copied()
    }
}
