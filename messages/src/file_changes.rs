//! What the turns of a session changed of files, from its journal. Pure.
//!
//! Only tools that say what they changed are in it: those that write and edit files. What a shell command or a tool server
//! changed is not known.

use crate::Millis;
use crate::agent::{NAMESPACE, child_of};
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

/// A session of a sub-agent, at any level below the one that is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRecords {
    /// The turn of the session that is asked about, for which it worked.
    pub turn: TurnId,
    /// The records of the sub-agent's session.
    pub records: Vec<Arc<Record>>,
}

/// The changes of each turn that made some, oldest first. See [`with_children`] for those of sub-agents.
pub fn of_records<'r>(session: &SessionId, records: impl IntoIterator<Item = &'r Arc<Record>>) -> Vec<TurnChanges> {
    with_children(session, records, &[])
}

/// The changes of each turn that made some, oldest first; a change of a sub-agent is one of the turn that called it. The
/// changes of a turn are in the order of their times.
pub fn with_children<'r>(
    session: &SessionId,
    records: impl IntoIterator<Item = &'r Arc<Record>>,
    children: &[ChildRecords],
) -> Vec<TurnChanges> {
    let mut session = Session::new(session.clone());
    let mut turns: Vec<(TurnChanges, Vec<(Millis, &FileChange)>)> = Vec::new();
    for record in records {
        let own = changes_of(record);
        if let Some(turn) = &record.turn {
            let known = turns.iter().position(|(known, _)| known.turn == *turn);
            let of_children = || children.iter().filter(|child| child.turn == *turn).flat_map(|child| &child.records);
            let begins = || own.is_some() || of_children().any(|record| changes_of(record).is_some());
            let at = match known {
                Some(at) => Some(at),
                // An input may wait behind another turn.
                None if !matches!(record.fact, Fact::Input(_)) && begins() => {
                    let roots = session.options.folders().map(str::to_owned).collect();
                    let (number, changes) = (session.turns + 1, Vec::new());
                    let begun = TurnChanges { turn: turn.clone(), number, at: record.at, roots, changes };
                    let below = of_children().flat_map(|record| timed(record)).collect();
                    turns.push((begun, below));
                    Some(turns.len() - 1)
                }
                None => None,
            };
            if let Some((_, changes)) = at.and_then(|at| turns.get_mut(at)) {
                changes.extend(timed(record));
            }
        }
        session.apply(record);
    }
    let ordered = turns.into_iter().map(|(turn, mut changes)| {
        changes.sort_by_key(|(at, _)| *at);
        let at = changes.first().map_or(turn.at, |(at, _)| *at);
        TurnChanges { at, changes: changes.into_iter().map(|(_, change)| change.clone()).collect(), ..turn }
    });
    ordered.collect()
}

fn changes_of(record: &Record) -> Option<&[FileChange]> {
    match &record.fact {
        Fact::Result(result) if !result.output.changes.is_empty() => Some(&result.output.changes),
        _another => None,
    }
}

fn timed(record: &Record) -> impl Iterator<Item = (Millis, &FileChange)> {
    changes_of(record).into_iter().flatten().map(|change| (record.at, change))
}

/// The sessions of the sub-agents that a session called, each with the turn that called it. One may never have begun.
pub fn children<'r>(
    session: &SessionId,
    records: impl IntoIterator<Item = &'r Arc<Record>>,
) -> Vec<(TurnId, SessionId)> {
    let mut all: Vec<(TurnId, SessionId)> = Vec::new();
    for record in records {
        let Some(turn) = &record.turn else { continue };
        let child = match &record.fact {
            Fact::Intent { task: Some(task), .. } => Some(task.session.clone()),
            Fact::Waits { child: Some(below), .. } => Some(below.child.session.clone()),
            // In a copy of a session the children are those of the original, which the result names.
            Fact::Result(result) if result.name.as_str().starts_with(NAMESPACE) => {
                let told = result.output.structured.as_ref().and_then(|told| told.get("session"));
                let told = told.and_then(serde_json::Value::as_str).and_then(|told| SessionId::parse(told).ok());
                told.or_else(|| child_of(session, turn, &result.call).map(|(child, _)| child))
            }
            _another => None,
        };
        all.extend(child.map(|child| (turn.clone(), child)).filter(|child| !all.contains(child)));
    }
    all
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
