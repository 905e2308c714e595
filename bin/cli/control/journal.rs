use bob::store::{Fact, Record};
use serde::Serialize;

use super::wire::JournalEntry;
use crate::terminal::print;

/// How many characters of a record are sent.
const MOST: usize = 300;

pub(super) fn entry(record: &Record) -> JournalEntry {
    let (kind, text) = said(&record.fact);
    JournalEntry { at: record.at, kind: kind.to_owned(), text: print::on_one_line(&text, MOST) }
}

fn said(fact: &Fact) -> (&'static str, String) {
    match fact {
        Fact::Options(_) | Fact::Configured { .. } => ("options", String::new()),
        Fact::Input(input) => ("input", input.text()),
        Fact::Started { model, .. } => ("started", model.to_string()),
        Fact::Answered(answered) => {
            let calls = answered.calls.iter().map(|call| format!("> {} {}", call.name, call.arguments));
            let text = answered.text.trim().to_owned();
            let all: Vec<_> = Some(text).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
            ("answered", all.join(" "))
        }
        Fact::Malformed { complaint, .. } => ("malformed", complaint.clone()),
        Fact::Intent { call, .. } => ("intent", call.to_string()),
        Fact::ApprovalAsked { call, risk, .. } => ("approval_asked", format!("{call} {}", word(risk))),
        Fact::ApprovalDecided { allowed: true, .. } => ("approval_decided", "allowed".to_owned()),
        Fact::ApprovalDecided { reason, .. } => ("approval_decided", format!("denied: {reason}")),
        Fact::LimitAsked { guard, .. } => ("limit_asked", word(guard)),
        Fact::LimitDecided { goes_on, .. } => ("limit_decided", if *goes_on { "goes on" } else { "ends" }.to_owned()),
        Fact::Result(result) => {
            let output = result.output.plain();
            ("result", format!("{} {}: {output}", result.name, word(&result.status)))
        }
        Fact::Steered { parts, .. } => ("steered", parts.iter().map(|part| part.as_text()).collect()),
        Fact::Resumed { reply, .. } => ("resumed", reply.clone()),
        Fact::Condensed(condensed) => {
            let text = condensed.summary.as_deref().unwrap_or("without a summary");
            ("condensed", format!("to the newest {}: {text}", condensed.keeps))
        }
        Fact::Withdrawn => ("withdrawn", String::new()),
        Fact::Snapshot(snapshot) => ("snapshot", format!("{} bytes", snapshot.session.len())),
        Fact::Waits { call, what, child: _, server: _ } => ("waits", format!("{call} for {what}")),
        Fact::SkillsSelected(chosen) => {
            let names: Vec<_> = chosen.skills.iter().map(|skill| skill.name.as_str()).collect();
            ("skills_selected", names.join(" "))
        }
        Fact::SkillsReselected(again) => {
            let names: Vec<_> = again.skills.skills.iter().map(|skill| skill.name.as_str()).collect();
            let causes: Vec<_> = again.causes.iter().map(word).collect();
            ("skills_reselected", format!("{} ({})", names.join(" "), causes.join(", ")))
        }
        Fact::Outcome(ended) => {
            let guard = ended.guard_reason.map(|guard| format!(" ({})", word(&guard))).unwrap_or_default();
            let error = ended.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            ("outcome", format!("{}{guard}{error}", word(&ended.finish_reason)))
        }
    }
}

fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
