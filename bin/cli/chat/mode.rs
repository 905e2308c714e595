//! The permission mode of the conversation: `/mode`, and its prompt.

use bob::approvals::PermissionMode;

use super::{Chat, PROMPT};
use crate::exit::Failure;
use crate::terminal::print;

/// The prompt for a message: the mode, where it is not the usual one.
pub(super) fn prompt(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "plan> ",
        PermissionMode::Ask => PROMPT,
        PermissionMode::Edits => "edits> ",
        PermissionMode::Auto => "auto> ",
    }
}

/// `/mode`: shows the mode, or sets it from the next message on.
///
/// # Errors
/// When there is no mode of this name.
pub(super) fn obey(chat: &mut Chat, name: &str) -> Result<(), Failure> {
    if !name.is_empty() {
        let name_of_none = print::first_line(name, 20);
        let unknown = || Failure::usage(format!("there is no mode {name_of_none}; usage: /mode plan|ask|edits|auto"));
        chat.mode = PermissionMode::named(name).ok_or_else(unknown)?;
    }
    print::note(&format!("mode {}: {}", chat.mode, means(chat.mode)));
    Ok(())
}

/// What a mode means, in a few words.
pub(super) fn means(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "tools that only read run, all others are denied",
        PermissionMode::Ask => "what changes something asks",
        PermissionMode::Edits => "file tools change files in the workspace, the rest asks",
        PermissionMode::Auto => "everything the policy allows runs without asking",
    }
}
