//! The lines of sub-agents: what they call, indented by how deep they are below the turn.

use bob::events::{AgentEvent, CallState};
use bob::sessions::ParentTurn;

use super::{Piece, Show, called};
use crate::terminal::diff;

impl Show {
    pub(crate) fn below(&mut self, parent: &ParentTurn, event: &AgentEvent) -> Vec<Piece> {
        let mut changed = Vec::new();
        let line = match event {
            AgentEvent::ToolCalled { call, state: CallState::Running, .. } => called(call),
            AgentEvent::ToolCompleted { result, .. } => {
                // The advice at the end is about the turn's own calls.
                let has_denied = self.has_denied;
                let line = format!("{} {}", result.name, self.returned(result));
                self.has_denied = has_denied;
                changed = diff::beside(&result.output.changes);
                line
            }
            _others_are_not_shown => return Vec::new(),
        };
        let agent = parent.line.as_ref().and_then(|line| line.agents.last()).map_or("agent", String::as_str);
        let indent = "  ".repeat(parent.depth as usize);
        let mut pieces = self.note(format!("{indent}{agent}: {line}"));
        pieces.extend(changed.into_iter().map(|line| Piece::Change(format!("{indent}{line}"))));
        pieces
    }
}
