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

/// `/mode next`, which is Shift-Tab during an answer.
pub(super) const NEXT: &str = "next";

/// `/mode`: shows the mode, or sets it from the next message on.
pub(super) fn obey(chat: &mut Chat, name: &str) -> Result<(), Failure> {
    chat.mode = chosen(chat.mode, name)?;
    print::note(&told(chat.mode));
    Ok(())
}

/// The mode that the argument of `/mode` names, without one the mode that is.
pub(super) fn chosen(now: PermissionMode, name: &str) -> Result<PermissionMode, Failure> {
    match name {
        "" => Ok(now),
        NEXT => Ok(now.next()),
        name => PermissionMode::named(name).ok_or_else(|| {
            let name = print::first_line(name, 20);
            Failure::usage(format!("there is no mode {name}; usage: /mode plan|ask|edits|auto"))
        }),
    }
}

pub(super) fn told(mode: PermissionMode) -> String {
    format!("mode {mode}: {}", means(mode))
}

pub(super) fn means(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Plan => "tools that only read run, all others are denied",
        PermissionMode::Ask => "what changes something asks",
        PermissionMode::Edits => "file tools change files in the workspace, the rest asks",
        PermissionMode::Auto => "everything the policy allows runs without asking",
    }
}
