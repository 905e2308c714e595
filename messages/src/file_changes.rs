//! What the turns of a session changed of files, from its journal. Pure.
//!
//! Only tools that say what they changed are in it: those that write and edit files. What a shell command or a tool server
//! changed is not known.

use crate::Millis;
use crate::agent::{NAMESPACE, child_of};
use crate::chat::FileChange;
use crate::ids::{CallId, SessionId, TurnId};
use crate::session_state::Session;
use crate::store::{Fact, Record};
use std::sync::Arc;

/// The file changes of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnChanges {
    /// The turn.
    pub turn: TurnId,
    /// Which turn of the session it is, from 1.
    pub number: u64,
    /// When the first file was changed.
    pub at: Millis,
    /// The folders its paths are in, the first one for relative paths; empty when they are those of the runtime.
    pub roots: Vec<String>,
    /// The changes, in the order in which they were made.
    pub changes: Vec<FileChange>,
    /// When each of them was made.
    pub times: Vec<Millis>,
}

/// A sub-agent that a session called. Its session may never have begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The turn that called it.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// The turn of its session that the call began, if it is known; else that is the first one.
    pub called: Option<TurnId>,
    /// Whether the result of the call names the session, which has records then.
    pub has_result: bool,
    /// Whether it works in the background, and so perhaps after the turn that called it.
    pub in_background: bool,
}

/// What a sub-agent recorded for the call, at any level below the session that is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRecords {
    /// The turn of the session that is asked about, for which it worked.
    pub turn: TurnId,
    /// The records of the sub-agent's turn.
    pub records: Vec<Arc<Record>>,
    /// Whether it, or one above it, worked in the background.
    pub in_background: bool,
}

impl ChildRecords {
    /// Of the records of the sub-agent's session, those of the turn that was called: the session may have been continued.
    pub fn of(child: &Child, mut records: Vec<Arc<Record>>) -> Self {
        let first = records.iter().find_map(|record| record.turn.clone());
        let called = child.called.clone().or(first);
        records.retain(|record| record.turn == called);
        Self { turn: child.turn.clone(), records, in_background: child.in_background }
    }
}

/// The changes of each turn that made some, oldest first. See [`with_children`] for those of sub-agents.
pub fn of_records<'r>(session: &SessionId, records: impl IntoIterator<Item = &'r Arc<Record>>) -> Vec<TurnChanges> {
    with_children(session, records, &[])
}

/// The changes of each turn that made some, oldest first. A change of a sub-agent is one of the turn that called it, or, of
/// one in the background, of the later turn that had begun by then. The changes of a turn are in the order of their times,
/// those of one time so that each follows on the one before it. Where the clock of the machine went back, a record has the
/// time of the latest one before it in its journal, whose order is the one that is certain.
pub fn with_children<'r>(
    session: &SessionId,
    records: impl IntoIterator<Item = &'r Arc<Record>>,
    children: &[ChildRecords],
) -> Vec<TurnChanges> {
    let mut session = Session::new(session.clone());
    let mut turns: Vec<Begun> = Vec::new();
    let mut clock = Millis::MIN;
    for record in records {
        clock = clock.max(record.at);
        let number = session.turns + 1;
        session.apply(record);
        let Some(turn) = &record.turn else { continue };
        let own: Vec<_> = timed(record, clock).collect();
        if own.is_empty() && !matches!(record.fact, Fact::Started { .. }) {
            continue;
        }
        let known = turns.iter().position(|begun| begun.turn == *turn).unwrap_or_else(|| {
            turns.push(Begun { turn: turn.clone(), number, at: clock, roots: Vec::new(), changes: Vec::new() });
            turns.len() - 1
        });
        if let Some(begun) = turns.get_mut(known) {
            begun.roots = session.options.folders().map(str::to_owned).collect();
            begun.changes.extend(own);
        }
    }
    for child in children {
        let Some(caller) = turns.iter().position(|begun| begun.turn == child.turn) else { continue };
        let mut clock = Millis::MIN;
        for record in &child.records {
            clock = clock.max(record.at);
            // At the very time at which a turn begins, a change is one of the turn before it.
            let later = turns.iter().rposition(|begun| child.in_background && begun.at < clock);
            let during = later.map_or(caller, |later| later.max(caller));
            turns[during].changes.extend(timed(record, clock));
        }
    }
    turns.into_iter().filter(|begun| !begun.changes.is_empty()).map(Begun::told).collect()
}

/// A turn that began, and its changes with their times.
struct Begun {
    turn: TurnId,
    number: u64,
    at: Millis,
    roots: Vec<String>,
    changes: Vec<(Millis, FileChange)>,
}

impl Begun {
    fn told(self) -> TurnChanges {
        let Self { turn, number, at, roots, changes } = self;
        let (times, changes): (Vec<_>, Vec<_>) = ordered(changes).into_iter().unzip();
        TurnChanges { turn, number, at: times.first().copied().unwrap_or(at), roots, changes, times }
    }
}

/// By time; of those of one time each follows on the one before it, as far as their texts tell.
fn ordered(mut changes: Vec<(Millis, FileChange)>) -> Vec<(Millis, FileChange)> {
    changes.sort_by_key(|(at, _)| *at);
    for at in 0..changes.len() {
        let (before, rest) = changes.split_at_mut(at);
        let same = rest.iter().take_while(|(time, _)| *time == rest[0].0).count();
        let rest = &mut rest[..same];
        let follows = |change: &FileChange| {
            let last = before.iter().rev().find(|(_, earlier)| earlier.path == change.path);
            let is_after =
                |(_, other): &(Millis, FileChange)| other.path == change.path && other.after == change.before;
            last.map_or_else(|| !rest.iter().any(is_after), |(_, last)| last.after == change.before)
        };
        if let Some(next) = rest.iter().position(|(_, change)| follows(change)) {
            rest[..=next].rotate_right(1);
        }
    }
    changes
}

fn timed(record: &Record, at: Millis) -> impl Iterator<Item = (Millis, FileChange)> {
    let changes = match &record.fact {
        Fact::Result(result) => &result.output.changes[..],
        _another => &[],
    };
    changes.iter().map(move |change| (at, change.clone()))
}

/// The sub-agents that a session called, each once.
pub fn children<'r>(session: &SessionId, records: impl IntoIterator<Item = &'r Arc<Record>>) -> Vec<Child> {
    let mut all: Vec<Child> = Vec::new();
    for record in records {
        let Some(turn) = &record.turn else { continue };
        let of_call = |call: &CallId| child_of(session, turn, call).map(|(child, called)| (child, Some(called)));
        let (found, has_result): (Vec<_>, bool) = match &record.fact {
            // The turn may have been interrupted before the call had a result.
            Fact::Answered(answered) => {
                let calls = answered.calls.iter().filter(|call| call.name.as_str().starts_with(NAMESPACE));
                (calls.filter_map(|call| of_call(&call.id)).collect(), false)
            }
            Fact::Intent { task: Some(task), .. } => {
                (vec![(task.session.clone(), Some(task.input.turn.clone()))], false)
            }
            Fact::Waits { call, child: Some(below), .. } => {
                let named = of_call(call).filter(|(child, _)| *child == below.child.session);
                (vec![named.unwrap_or_else(|| (below.child.session.clone(), None))], false)
            }
            // In a copy of a session the children are those of the original, which the result names.
            Fact::Result(result) if result.name.as_str().starts_with(NAMESPACE) => {
                let told = result.output.structured.as_ref().and_then(|told| told.get("session"));
                let told = told.and_then(serde_json::Value::as_str).and_then(|told| SessionId::parse(told).ok());
                let named = of_call(&result.call);
                let has_result = told.is_some();
                let of_told = |told| named.clone().filter(|(child, _)| *child == told).or(Some((told, None)));
                (told.map_or_else(|| named.clone(), of_told).into_iter().collect(), has_result)
            }
            _another => continue,
        };
        let in_background = matches!(record.fact, Fact::Intent { task: Some(_), .. });
        for (child, called) in found {
            match all.iter_mut().find(|known| known.session == child) {
                Some(known) => {
                    known.has_result |= has_result;
                    known.in_background |= in_background;
                }
                None => all.push(Child { turn: turn.clone(), session: child, called, has_result, in_background }),
            }
        }
    }
    all
}

/// The changes of several turns, in the order in which they were made: those of a sub-agent in the background may be among
/// those of later turns.
pub fn in_order(turns: &[TurnChanges]) -> Vec<FileChange> {
    let timed = |turn: &TurnChanges| turn.times.iter().copied().zip(turn.changes.iter().cloned()).collect::<Vec<_>>();
    ordered(turns.iter().flat_map(timed).collect()).into_iter().map(|(_, change)| change).collect()
}

/// What several changes come to: one for each file that is not as it was before the first of them, in the order in which
/// the files were first changed.
pub fn together<'c>(changes: impl IntoIterator<Item = &'c FileChange>) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    for change in changes {
        match files.iter_mut().find(|file| file.path == change.path) {
            Some(file) => {
                file.after.clone_from(&change.after);
                file.encoding_after = change.encoding_after;
            }
            None => files.push(change.clone()),
        }
    }
    let is_changed = |file: &FileChange| file.before != file.after || file.encoding_before != file.encoding_after;
    files.retain(|file| file.is_rough || is_changed(file));
    files
}

#[cfg(test)]
#[path = "file_changes_tests.rs"]
mod tests;
