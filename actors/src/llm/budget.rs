//! The retry budget: in an outage all sessions of a provider together repeat only
//! so much, so that the repetitions do not become the next outage.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tower::retry::budget::TpsBudget;

/// For how long a first attempt pays for repetitions.
const WINDOW: Duration = Duration::from_secs(10);

/// Repetitions a second that cost nothing, so that a quiet provider can be retried at all.
const FREE_PER_SECOND: u32 = 10;

/// Beyond those, how many repetitions each first attempt pays for: a busy provider is
/// asked little more than a quiet one.
const SHARE: f32 = 0.05;

/// One budget per provider. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Budgets(Arc<Mutex<BTreeMap<String, Arc<TpsBudget>>>>);

impl Budgets {
    pub(super) fn of(&self, provider: &str) -> Arc<TpsBudget> {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match budgets.get(provider) {
            Some(budget) => Arc::clone(budget),
            None => {
                let budget = Arc::new(TpsBudget::new(WINDOW, FREE_PER_SECOND, SHARE));
                budgets.insert(provider.to_owned(), Arc::clone(&budget));
                budget
            }
        }
    }
}
