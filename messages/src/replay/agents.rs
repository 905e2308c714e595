//! Reconstructs the sub-agents of a journal: which calls are of one, how many worked beside each other, and whether a
//! result was left to the next owner.

use super::driver::Driver;
use crate::agent::{Agent, NAMESPACE, is_result};
use crate::chat::CallStatus;
use crate::ids::CallId;
use crate::store::{Fact, Record};
use crate::turn::TurnMessage;
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

impl Driver<'_> {
    /// Tells a machine that is to begin no turn for the result of a task that its runtime ends: so it was if a result was
    /// left to the next owner, and otherwise it changes nothing.
    pub(super) fn drain(&mut self) {
        if self.ahead().any(brings_result) {
            return;
        }
        let at = self.next().map_or(0, |record| record.at);
        if let Some(owner) = &mut self.owner {
            let _nothing_follows = owner.turn.apply(at, TurnMessage::Draining);
        }
    }

    /// The machine wrote this record: if it was the last one that brought a result, no other begins a turn.
    pub(super) fn drain_behind(&mut self, written: &Record) {
        if brings_result(written) && self.next().is_some() {
            self.drain();
        }
    }
}

fn brings_result(record: &Record) -> bool {
    matches!(&record.fact, Fact::Input(input) if is_result(input))
}
