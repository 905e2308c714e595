//! Reconstructs the sub-agents of a journal: which calls are of one, and how many worked beside each other.

use crate::agent::{Agent, NAMESPACE};
use crate::ids::CallId;
use crate::store::{Fact, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sub-agents that were called, and the most of them that worked for a turn at a time. What they were given is not
/// compared: each may have all that is left.
pub(super) fn of(journal: &[Arc<Record>]) -> (Arc<[Agent]>, usize) {
    let mut called: BTreeMap<&CallId, &str> = BTreeMap::new();
    let (mut working, mut most) = (BTreeSet::new(), 1);
    for record in journal {
        match &record.fact {
            Fact::Answered(answered) => called.extend(answered.calls.iter().filter_map(|call| {
                let name = call.name.as_str().strip_prefix(NAMESPACE)?;
                (!Agent::is_taken(name)).then_some((&call.id, name))
            })),
            Fact::Intent { call, .. } if called.contains_key(call) => {
                working.insert(call);
                most = most.max(working.len());
            }
            Fact::Result(result) => drop(working.remove(&result.call)),
            Fact::Outcome(_) => working.clear(),
            _another => {}
        }
    }
    let names: BTreeSet<_> = called.into_values().collect();
    (names.into_iter().map(|name| Agent::new(name).budget_ratio(1.0)).collect(), most)
}
