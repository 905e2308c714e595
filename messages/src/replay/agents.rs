//! Reconstructs the sub-agents of a journal: which calls are of one, and how many worked beside each other.

use crate::agent::{Agent, NAMESPACE};
use crate::chat::CallStatus;
use crate::ids::CallId;
use crate::store::{Fact, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sub-agents that were called, and the most of them that worked for a turn at a time. What they were given is not
/// compared: each may have all that is left.
pub(super) fn of(journal: &[Arc<Record>]) -> (Arc<[Agent]>, usize) {
    let mut called: BTreeMap<&CallId, &str> = BTreeMap::new();
    let (mut working, mut most) = (BTreeMap::new(), 1);
    for record in journal {
        match &record.fact {
            Fact::Answered(answered) => called.extend(answered.calls.iter().filter_map(|call| {
                let name = call.name.as_str().strip_prefix(NAMESPACE)?;
                (!Agent::is_taken(name)).then_some((&call.id, name))
            })),
            Fact::Intent { call, task, .. } if called.contains_key(call) => {
                // One in the background has two results, and works until the second one.
                working.insert(call, if task.is_some() { 2 } else { 1 });
                most = most.max(working.len());
            }
            Fact::Result(result) => {
                if let Some(left) = working.get_mut(&result.call) {
                    *left -= 1;
                    // The outcome of its child.
                    let is_whole = result.output.delegated.is_some() || result.status != CallStatus::Ok;
                    working.retain(|call, left| *left > 0 && !(is_whole && **call == result.call));
                }
            }
            Fact::Outcome(_) => working.clear(),
            _another => {}
        }
    }
    let names: BTreeSet<_> = called.into_values().collect();
    (names.into_iter().map(|name| Agent::new(name).budget_ratio(1.0)).collect(), most)
}
