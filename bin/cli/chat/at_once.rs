//! The commands that are obeyed during a turn although they change something: the title, tool servers, and the mode of the
//! next message.

use std::cell::Cell;

use bob::approvals::PermissionMode;

use super::inform::View;
use super::{commands, mode};
use crate::exit::Failure;
use crate::runtime::origin::Origin;
use crate::terminal::print;

#[derive(Clone, Copy)]
pub(super) struct AtOnce<'a> {
    pub(super) view: View<'a>,
    pub(super) origin: &'a Origin,
    /// The mode of the turns from the next one on.
    pub(super) next_mode: &'a Cell<PermissionMode>,
}

impl AtOnce<'_> {
    /// Obeys a command; `None` if it is no such command.
    /// Errors: what is wrong with its argument; errors of the store and of the configuration.
    pub(super) async fn obey(self, line: &str) -> Option<Result<(), Failure>> {
        let View { opened, session, mode: of_turn, .. } = self.view;
        let (command, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        Some(match (command, argument.trim()) {
            ("/mode", name) => mode::chosen(self.next_mode.get(), name).map(|next| {
                self.next_mode.set(next);
                let told = mode::told(next);
                match next == of_turn {
                    true => print::note(&told),
                    false => print::note(&format!("{told}; from the next turn on, this answer continues in {of_turn}")),
                }
            }),
            ("/rename", title) => commands::rename(opened, session, title).await,
            ("/mcp", argument) => commands::servers(opened, || self.origin.read_quietly(), argument).await,
            _another_command => return None,
        })
    }
}
