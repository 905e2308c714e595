//! `sessions export --markdown`: a conversation to be read or passed on.

use std::fmt::Write as _;
use std::sync::Arc;

use bob::SessionId;
use bob::model::ToolResult;
use bob::sessions::FinishReason;
use bob::store::Fact;
use bob::store::{Glance, Record};
use bob::tools::CallStatus;
use serde_json::Value;

use super::rows;
use crate::terminal::diff;

/// The conversation: every message, call and result of the journal, also those that are condensed in the prompts of
/// later turns. Results are whole, and what they changed of files is shown as a difference.
pub(super) fn of(id: &SessionId, records: &[Arc<Record>]) -> String {
    let mut glance = Glance::default();
    records.iter().for_each(|record| glance.note(record));
    let title = glance.title.as_deref().unwrap_or("Conversation");
    let mut text = format!("# {title}\n\nSession `{id}`");
    if let Some(at) = glance.created_at {
        say(&mut text, &format!(", begun {}", rows::time(at)));
    }
    text.push('\n');
    for record in records {
        add(&mut text, &record.fact);
    }
    text
}

fn add(text: &mut String, fact: &Fact) {
    match fact {
        Fact::Input(input) => said(text, "You", &words(input.parts.iter().map(|part| part.as_text()))),
        Fact::Steered { parts, .. } => {
            said(text, "You, during the turn", &words(parts.iter().map(|part| part.as_text())));
        }
        Fact::Resumed { reply, .. } => said(text, "You", reply),
        Fact::Started { model, .. } => say(text, &format!("\n## {model}\n")),
        Fact::Answered(answered) => {
            if !answered.text.trim().is_empty() {
                say(text, &format!("\n{}\n", answered.text.trim()));
            }
            for call in &answered.calls {
                say(text, &format!("\n**{}**\n", call.name));
                fenced(text, "json", &pretty(&call.arguments));
            }
        }
        Fact::Result(result) => returned(text, result),
        Fact::Outcome(ended) => {
            // Any other content is that of a message.
            if ended.partial && !ended.content.trim().is_empty() {
                say(text, &format!("\n{}\n", ended.content.trim()));
            }
            match ended.finish_reason {
                FinishReason::Cancelled => say(text, "\n*The turn was cancelled.*\n"),
                FinishReason::GuardExceeded if !ended.partial => say(text, &format!("\n*{}*\n", ended.content.trim())),
                FinishReason::GuardExceeded => say(text, "\n*The turn reached a limit.*\n"),
                FinishReason::Final | FinishReason::Suspended | FinishReason::Error => {}
            }
            if let Some(error) = &ended.error {
                say(text, &format!("\n*The turn failed: {error}*\n"));
            }
        }
        Fact::Condensed(_) => say(text, "\n*From here on the model has a summary of the messages above.*\n"),
        _not_said => {}
    }
}

fn said(text: &mut String, who: &str, words: &str) {
    say(text, &format!("\n## {who}\n\n{}\n", words.trim()));
}

fn returned(text: &mut String, result: &ToolResult) {
    let status = match result.status {
        CallStatus::Ok => "ok",
        CallStatus::Error => "error",
        CallStatus::Denied => "denied",
        CallStatus::Unknown => "interrupted; it may have had effects",
        CallStatus::Cancelled => "cancelled",
    };
    say(text, &format!("\nResult of {} ({status}):\n", result.name));
    fenced(text, "text", &result.output.plain());
    let changed: String = result.output.changes.iter().map(diff::unified).collect();
    if !changed.is_empty() {
        fenced(text, "diff", &changed);
    }
}

/// A block of code between fences that are longer than any in it.
fn fenced(text: &mut String, language: &str, content: &str) {
    let longest = content.lines().map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    say(text, &format!("\n{fence}{language}\n{}\n{fence}\n", content.trim_end()));
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_always_writable| value.to_string())
}

fn words(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("\n\n")
}

fn say(text: &mut String, more: &str) {
    let _writing_to_a_string_cannot_fail = text.write_str(more);
}
