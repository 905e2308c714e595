//! Normalisation of journals: removes ids and times, so that two recordings can be compared.
//!
//! Two journals are equal up to a consistent renaming of ids. Times, durations, traces, formats and epochs are left
//! out, and so are request ids that the runtime generated from a turn's id.

use super::compare::{leave_out_what_one_lacks, without_running_time};
use super::{Difference, first_difference};
use crate::store::{Fact, Record};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys whose values are generated ids.
const NAMES: [&str; 4] = ["turn", "submission", "token", "approval"];

/// Keys whose values are times, derived from times (a prompt contains the run time of an interrupted call), or
/// describe the owner or the location, or are estimates that older journals do not have.
const TIMES: [&str; 11] = [
    "at",
    "expires_at",
    "id",
    "epoch",
    "session",
    "latency_ms",
    "duration_ms",
    "traceparent",
    "tracestate",
    "prompt_bytes",
    "estimated",
];

/// Where two journals differ first, apart from ids and times; `None` when they do not.
pub fn difference(one: &[Arc<Record>], other: &[Arc<Record>]) -> Option<Difference> {
    let (mut names, mut others) = (Names::default(), Names::default());
    for at in 0..one.len().max(other.len()) {
        let record = |journal: &[Arc<Record>]| journal.get(at).map(|record| Record::clone(record));
        let (mut here, mut there) = (record(one), record(other));
        if let (Some(here), Some(there)) = (&mut here, &mut there) {
            leave_out_what_one_lacks(here, there);
        }
        let expected = here.map_or(Value::Null, |record| names.plain(record));
        let got = there.map_or(Value::Null, |record| others.plain(record));
        let sides = ["one journal has", "the other has"];
        if let Some(what) = first_difference(sides, "record", &expected, &got) {
            return Some(Difference { record: at as u64 + 1, expected, got, what });
        }
    }
    None
}

#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn plain(&mut self, mut record: Record) -> Value {
        if let Fact::Result(result) = &mut record.fact {
            without_running_time(result);
        }
        let mut value = serde_json::to_value(record).unwrap_or_default();
        // A call id is a position in its session and identifies the call.
        let is_call = |path: &[&str]| path.len() > 1;
        if let Value::Object(fields) = &mut value {
            // Not `remove`, which moves the last field to the place of the removed one: names are given in their order.
            fields.retain(|key, _| key != "format");
        }
        self.rename(&mut value, &mut Vec::new(), &is_call);
        value
    }

    fn rename<'v>(&mut self, value: &'v mut Value, path: &mut Vec<&'static str>, is_call: &dyn Fn(&[&str]) -> bool) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| !TIMES.contains(&key.as_str()) || (key == "id" && is_call(path)));
                let submission = fields.get("submission").and_then(Value::as_str).unwrap_or_default().to_owned();
                let is_turns = |text: &str| text == submission || self.0.contains_key(&format!("turn {text}"));
                fields.retain(|key, field| {
                    key != "request_id" || !(field.is_null() || field.as_str().is_some_and(is_turns))
                });
                for (key, field) in fields.iter_mut() {
                    let name = NAMES.iter().find(|name| **name == key.as_str());
                    match (name, field) {
                        (Some(kind), Value::String(text)) => *text = self.name(kind, text),
                        (_, field) => {
                            path.push("in");
                            self.rename(field, path, is_call);
                            path.pop();
                        }
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item, path, is_call)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn name(&mut self, kind: &str, text: &str) -> String {
        // A generated submission id is equal to its turn's id.
        let kind = if kind == "submission" { "turn" } else { kind };
        let next = self.0.len() + 1;
        format!("{kind} {}", self.0.entry(format!("{kind} {text}")).or_insert(next))
    }
}
