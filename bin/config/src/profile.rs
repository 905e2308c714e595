//! The limits and the policy that hold where a configuration sets none.

use bob::config::Limits;
use bob::tools::Policy;

use super::tree::{self, Table};

/// Messages of history that a prompt takes along at most: a turn of many steps is bounded by the model's context.
const TERMINAL_HISTORY: usize = 1_000;

pub(super) fn policy(is_strict: bool) -> Policy {
    if is_strict { Policy::default() } else { Policy::terminal() }
}

/// What the profile `terminal` sets, as a document. The values of `strict` are the defaults of the schema.
pub(super) fn terminal() -> String {
    let Limits {
        max_steps,
        max_tool_calls,
        max_consecutive_errors,
        max_identical_calls,
        max_total_tokens,
        max_cost,
        turn_timeout_ms,
        progress_timeout_ms,
        tool_timeout_ms,
        approval_timeout_ms,
        suspend_timeout_ms,
    } = Limits::terminal();
    let Policy { deny_tools, deny_commands, ask_commands, .. } = policy(false);
    let list = |values: &[String]| {
        format!("[{}]", values.iter().map(|value| tree::quoted(value)).collect::<Vec<_>>().join(", "))
    };
    let (deny_tools, deny_commands, ask_commands) = (list(&deny_tools), list(&deny_commands), list(&ask_commands));
    format!(
        "[runtime]\n\
         max_steps = {max_steps}\n\
         max_tool_calls = {max_tool_calls}\n\
         max_consecutive_errors = {max_consecutive_errors}\n\
         max_identical_calls = {max_identical_calls}\n\
         max_total_tokens = {max_total_tokens}\n\
         max_cost = {max_cost}\n\
         turn_timeout_ms = {turn_timeout_ms}\n\
         progress_timeout_ms = {progress_timeout_ms}\n\
         tool_timeout_ms = {tool_timeout_ms}\n\
         approval_timeout_ms = {approval_timeout_ms}\n\
         suspend_timeout_ms = {suspend_timeout_ms}\n\
         max_history_messages = {TERMINAL_HISTORY}\n\
         [policy]\n\
         deny_tools = {deny_tools}\n\
         deny_commands = {deny_commands}\n\
         ask_commands = {ask_commands}\n"
    )
}

/// Sets what the configuration leaves out to what its profile says. `terminal` is the text of that profile.
pub(super) fn fill<'t>(root: &mut Table<'t>, terminal: &'t str) {
    if !is_strict(root) {
        tree::fill(root, tree::parse(terminal).0);
    }
}

/// Whether this layer, or all of them together, chooses the profile `strict`.
pub(super) fn is_strict(root: &Table<'_>) -> bool {
    tree::get(root, "runtime.profile").and_then(tree::text) == Some("strict")
}
