//! What the turns of a session changed of files, from its journal. Pure.
//!
//! Only tools that say what they changed are in it: those that write and edit files. What a shell command or a tool server
//! changed is not known.

use crate::Millis;
use crate::chat::FileChange;
use crate::ids::{SessionId, TurnId};
use crate::session_state::Session;
use crate::store::{Fact, Record};
use std::sync::Arc;

/// The file changes of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnChanges {
    /// The turn.
    pub turn: TurnId,
    /// Which turn of the session it is, from 1.
    pub number: u64,
    /// When it changed the first file.
    pub at: Millis,
    /// The folders its paths are in, the first one for relative paths; empty when they are those of the runtime.
    pub roots: Vec<String>,
    /// The changes, in the order in which they were made.
    pub changes: Vec<FileChange>,
}

/// The changes of each turn that made some, oldest first.
pub fn of_records<'r>(session: &SessionId, records: impl IntoIterator<Item = &'r Arc<Record>>) -> Vec<TurnChanges> {
    let mut session = Session::new(session.clone());
    let mut turns: Vec<TurnChanges> = Vec::new();
    for record in records {
        if let (Fact::Result(result), Some(turn)) = (&record.fact, &record.turn)
            && !result.output.changes.is_empty()
        {
            let changes = &result.output.changes;
            match turns.last_mut().filter(|last| last.turn == *turn) {
                Some(last) => last.changes.extend_from_slice(changes),
                None => turns.push(TurnChanges {
                    turn: turn.clone(),
                    number: session.turns + 1,
                    at: record.at,
                    roots: session.options.folders().map(str::to_owned).collect(),
                    changes: changes.clone(),
                }),
            }
        }
        session.apply(record);
    }
    turns
}

/// What several changes come to: one for each file that is not as it was before the first of them, in the order in which
/// the files were first changed.
pub fn together<'c>(changes: impl IntoIterator<Item = &'c FileChange>) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    for change in changes {
        match files.iter_mut().find(|file| file.path == change.path) {
            Some(file) => file.after.clone_from(&change.after),
            None => files.push(change.clone()),
        }
    }
    files.retain(|file| file.is_rough || file.before != file.after);
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> FileChange {
        let text = |text: Option<&str>| text.map(str::to_owned);
        FileChange { path: path.to_owned(), before: text(before), after: text(after), is_rough: false }
    }

    #[test]
    fn several_changes_of_a_file_are_one_and_those_that_come_to_nothing_none() {
        let changes = [
            change("a", Some("1"), Some("2")),
            change("b", None, Some("x")),
            change("c", Some("same"), Some("other")),
            change("a", Some("2"), Some("3")),
            change("c", Some("other"), Some("same")),
            change("b", Some("x"), None),
        ];
        assert_eq!(together(&changes), [change("a", Some("1"), Some("3"))]);
    }
}
