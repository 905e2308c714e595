//! What people decided about a tool before, held against the tool as it is now.
//!
//! Pure. A decision is about a tool with its definition: where the definition is another
//! by now, nothing was decided, and the question shows the difference.

use super::clip::clip;
use bob_messages::approvals::{AskedTool, Standing};
use bob_messages::tools::{CheckRequest, ToolDescriptor, ToolKind};
use serde_json::Value;
use similar::{Algorithm, TextDiff};
use std::sync::Arc;
use std::time::Duration;

/// How much of a definition is kept with a question, in bytes.
const MOST_TEXT: usize = 32 * 1024;
/// How much of a difference is shown, in bytes.
const MOST_CHANGES: usize = 8 * 1024;
/// How long a difference may be looked for; after that it is found in larger pieces.
const DIFFER_WITHIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) enum Stands<'a> {
    /// Nothing that holds now.
    Nothing,
    /// A person allowed this very call, or calls like it.
    Allowed,
    /// A person denied calls like it.
    Denied(&'a str),
    /// The tool was denied, and is another one now.
    ChangedSinceDenied,
}

/// What holds for this call of a tool with this definition.
///
/// `like` says whether rules that were kept allow the call together.
pub(crate) fn stands<'a>(
    check: &'a CheckRequest,
    digest: impl Fn() -> String,
    like: impl Fn(&[String]) -> bool,
) -> Stands<'a> {
    if check.approved.is_none() && check.standing.is_empty() {
        return Stands::Nothing;
    }
    let digest = digest();
    // Who was asked about this very call has the last word.
    let shown = check.approved.as_ref().and_then(|approved| approved.tool.as_ref());
    if shown.is_some_and(|tool| tool.definition == digest) {
        return Stands::Allowed;
    }
    let about = || check.standing.iter().filter(|standing| standing.is_about(&check.call.arguments));
    let mut holds = about().filter(|standing| standing.definition == digest).peekable();
    match (holds.peek().is_some(), holds.find(|standing| !standing.allowed)) {
        (_, Some(denied)) => Stands::Denied(&denied.reason),
        (true, None) => Stands::Allowed,
        (false, None) if like(&rules_of(check, &digest)) => Stands::Allowed,
        (false, None) if about().any(|standing| !standing.allowed) => Stands::ChangedSinceDenied,
        (false, None) => Stands::Nothing,
    }
}

/// The rules of all yeses to calls of a tool with this definition.
fn rules_of(check: &CheckRequest, digest: &str) -> Vec<String> {
    let holds = check.standing.iter().filter(|standing| standing.allowed && standing.definition == digest);
    holds.flat_map(|standing| standing.like.iter().cloned()).collect()
}

/// Whether a person allowed exactly this call of a tool with this definition: this very call, or calls with just these
/// arguments. What was said of the tool as a whole does not count.
pub(crate) fn is_allowed_exactly(check: &CheckRequest, digest: &str) -> bool {
    let shown = check.approved.as_ref().and_then(|approved| approved.tool.as_ref());
    let exactly = |standing: &&Arc<Standing>| standing.arguments.as_ref() == Some(&check.call.arguments);
    shown.is_some_and(|tool| tool.definition == digest)
        || check.standing.iter().filter(exactly).any(|standing| standing.allowed && standing.definition == digest)
}

/// The tool as a person is shown it, with what changed since the last decision about it.
/// `like` are the rules that a lasting yes is kept as; without any, `exact` says whether it is about these arguments only.
pub(crate) fn shown(
    check: &CheckRequest,
    tool: &ToolDescriptor,
    definition: String,
    (like, exact): (Vec<String>, bool),
) -> Arc<AskedTool> {
    let text = clip(&described(tool), MOST_TEXT);
    let before = check.approved.as_ref().and_then(|approved| approved.tool.as_ref());
    let before = before.map(|tool| (&tool.definition, &tool.text));
    let about = |standing: &&Arc<Standing>| !standing.like.is_empty() || standing.is_about(&check.call.arguments);
    let last = || check.standing.iter().rev().find(about).map(|standing| (&standing.definition, &standing.text));
    let changed = before.or_else(last).filter(|(then, _)| **then != definition);
    let changes = changed.map(|(_, then)| difference(then, &text));
    // A line for a shell is a program of its own: what was said of one says nothing of another.
    let exact = tool.kind == ToolKind::Execute || exact && like.is_empty();
    Arc::new(AskedTool { definition, text, exact, like, changes })
}

fn described(tool: &ToolDescriptor) -> String {
    let word = |value: Result<Value, serde_json::Error>| value.map_or_else(|_| "?".to_owned(), |word| word.to_string());
    let schema = serde_json::to_string_pretty(&tool.schema).unwrap_or_default();
    format!(
        "title: {}\nkind: {}\nrisk: {}\nread only: {}\nidempotent: {}\nsource: {}\n{}\narguments: {schema}\n",
        tool.title,
        word(serde_json::to_value(tool.kind)),
        word(serde_json::to_value(tool.risk)),
        tool.read_only,
        tool.idempotent,
        word(serde_json::to_value(&tool.source)),
        tool.description,
    )
}

fn difference(then: &str, now: &str) -> String {
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(DIFFER_WITHIN).diff_lines(then, now);
    let lines = diff.unified_diff().context_radius(1).missing_newline_hint(false).to_string();
    if lines.is_empty() {
        return "what the tool says of itself differs in something that the rules here decide\n".to_owned();
    }
    let shown = clip(&lines, MOST_CHANGES);
    let cut = lines.len().saturating_sub(shown.len());
    if cut == 0 { shown } else { format!("{shown}\n[… {cut} bytes of the difference are not shown …]\n") }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
