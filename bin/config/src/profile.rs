//! The limits that hold where a configuration sets none.

use bob::config::Limits;

use super::tree::{self, Table};

/// Messages of history that a prompt takes along at most: a turn of many steps is bounded by the model's context.
const TERMINAL_HISTORY: usize = 1_000;

/// The limits of the profile `terminal`, as a document. Those of `strict` are the defaults of the schema.
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
         max_history_messages = {TERMINAL_HISTORY}\n"
    )
}

/// Sets what the configuration leaves out to the limits of its profile. `terminal` is the text of that profile.
pub(super) fn fill<'t>(root: &mut Table<'t>, terminal: &'t str) {
    if tree::get(root, "runtime.profile").and_then(tree::text) != Some("strict") {
        tree::fill(root, tree::parse(terminal).0);
    }
}
