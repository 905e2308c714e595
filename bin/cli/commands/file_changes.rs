//! What a session changed of files, and the way back: for `sessions diff`, `sessions undo`, `/diff` and `/undo`, and for
//! outcomes.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use bob::SessionId;
use bob::sessions::TurnOutcome;
use bob::store::{Artifact, ArtifactId, Fact, Part, Record, SessionStore, StoreError};
use bob::tools::FileChange;
use bob::tools::file_changes::{Originals, SessionChanges, TurnChanges, Undone, in_order, together, undo};
use bob_config::Config;

use crate::exit::Failure;
use crate::terminal::diff::{coloured, unified};
use crate::terminal::print;
use crate::terminal::screen::look::Look;

/// Said where a person may expect more than there is.
pub(crate) const OTHERS: &str = "changes made by shell commands and tool servers are not recorded";

/// The largest file of which an edit keeps what was before, in bytes.
const MOST_KEPT: u64 = 1024 * 1024;

/// The changes of one turn, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Of the last turn that changed files.
    Last,
    /// Of this turn of the session, the first being 1.
    Turn(u64),
    /// Of all turns behind this one.
    Behind(u64),
    All,
}

/// What files held before these turns that were no text or too large for the journal, as far as it was kept.
pub(crate) async fn originals(
    store: &dyn SessionStore,
    changes: &SessionChanges,
    which: Which,
    workspace: &[String],
) -> Originals {
    let mut originals = Originals::new();
    let Some(port) = store.artifacts() else { return originals };
    let turns = match which {
        Which::Last => standing(&changes.turns, workspace).last().map_or(&[][..], std::slice::from_ref),
        // A turn that is not there is refused where the changes are taken back.
        Which::All | Which::Turn(_) | Which::Behind(_) => picked(&changes.turns, which).unwrap_or_default(),
    };
    for original in together(&in_order(turns)).iter().filter_map(|change| change.original.as_deref()) {
        for session in &changes.sessions {
            if originals.contains_key(&original.id) {
                break;
            }
            match port.get(session, &original.id, 0..u64::MAX).await {
                Ok(Some(bytes)) => drop(originals.insert(original.id.clone(), bytes)),
                Ok(None) => {}
                Err(error) => print::note(&format!("warning: the previous content of a file cannot be read: {error}")),
            }
        }
    }
    originals
}

/// What this session changed, from its records and those of its sub-agents.
pub(crate) async fn of_session(
    store: &dyn SessionStore,
    session: &SessionId,
    records: &[Arc<Record>],
) -> SessionChanges {
    let changes = bob::tools::file_changes::of_session(store, session, records).await;
    for (child, why) in &changes.unknown {
        print::note(&format!("warning: what the sub-agent's session {child} changed is unknown: {why}"));
    }
    changes
}

/// What the file tools changed in the turn of an outcome, also those of sub-agents: what the journal has of it.
pub(crate) async fn of_outcome(store: &dyn SessionStore, outcome: &TurnOutcome) -> Vec<FileChange> {
    // Without a call nothing was changed.
    if outcome.tool_transcript.is_empty() {
        return Vec::new();
    }
    let session = &outcome.session_id;
    match around(store, outcome).await {
        Ok(records) => of_session(store, session, &records).await.of_turn(&outcome.turn_id),
        Err(error) => {
            print::note(&format!("warning: what the turn changed of files is unknown: {error}"));
            Vec::new()
        }
    }
}

/// Of the records of a session, those that tell what the turn of an outcome changed: a session may be long, and have many
/// sub-agents.
async fn around(store: &dyn SessionStore, outcome: &TurnOutcome) -> Result<Vec<Arc<Record>>, StoreError> {
    let session = &outcome.session_id;
    let is_its = |record: &Arc<Record>| record.turn.as_ref() == Some(&outcome.turn_id);
    let begins = |record: &Arc<Record>| is_its(record) && matches!(record.fact, Fact::Started { .. });
    let mut records = match store.load_part(session, Part::Latest).await? {
        newest if newest.iter().any(begins) => newest,
        _it_began_before_the_last_snapshot => store.load(session).await?,
    };
    // Of other turns only what works in the background may have changed something while this turn ran.
    let is_of_others = |fact: &Fact| matches!(fact, Fact::Answered(_) | Fact::Result(_) | Fact::Waits { .. });
    records.retain(|record| is_its(record) || !is_of_others(&record.fact));
    Ok(records)
}

/// The difference that these turns made, file by file; an empty one if there is none. Turns that were undone last are not
/// part of that of all turns.
pub(crate) fn diff(turns: &[TurnChanges], which: Which, workspace: &[String]) -> Result<String, Failure> {
    Ok(changed(turns, which, workspace)?.iter().map(unified).collect())
}

pub(crate) fn changed(turns: &[TurnChanges], which: Which, workspace: &[String]) -> Result<Vec<FileChange>, Failure> {
    let picked = match which {
        Which::All | Which::Last => picked(standing(turns, workspace), which)?,
        Which::Turn(_) | Which::Behind(_) => picked(turns, which)?,
    };
    Ok(together(&in_order(picked)))
}

/// The turns without the last ones whose files are all as they were before.
fn standing<'t>(turns: &'t [TurnChanges], workspace: &[String]) -> &'t [TurnChanges] {
    let is_undone = |turn: &TurnChanges| {
        let roots = if turn.roots.is_empty() { workspace } else { &turn.roots };
        together(&turn.changes).iter().all(|change| {
            let mut files = roots.iter().map(|root| content(&Path::new(root).join(&change.path)));
            let now = files.find(|now| *now != Content::Absent).unwrap_or(Content::Absent);
            match &change.original {
                Some(original) => roots.iter().any(|root| is_original(&Path::new(root).join(&change.path), original)),
                None => !change.is_rough && change.content_before().is_ok_and(|before| now.is(before.as_deref())),
            }
        })
    };
    let kept = turns.iter().rposition(|turn| !is_undone(turn)).map_or(0, |last| last + 1);
    &turns[..kept]
}

/// What is at a path.
#[derive(PartialEq)]
enum Content {
    Absent,
    File(Vec<u8>),
    /// A file that cannot be read or is larger than what is kept of one, or no file.
    Other,
}

impl Content {
    fn is(&self, content: Option<&[u8]>) -> bool {
        match (self, content) {
            (Self::Absent, None) => true,
            (Self::File(now), Some(content)) => now == content,
            (_, _) => false,
        }
    }
}

/// Whether a file holds this again.
fn is_original(path: &Path, original: &Artifact) -> bool {
    let has_its_size = |found: std::fs::Metadata| found.is_file() && found.len() == original.bytes;
    std::fs::symlink_metadata(path).is_ok_and(has_its_size)
        && std::fs::read(path).is_ok_and(|bytes| ArtifactId::of(&bytes) == original.id)
}

fn content(path: &Path) -> Content {
    let is_kept = |found: &std::fs::Metadata| found.is_file() && found.len() <= MOST_KEPT;
    match std::fs::symlink_metadata(path) {
        Ok(found) if is_kept(&found) => std::fs::read(path).map_or(Content::Other, Content::File),
        Err(error) if error.kind() == ErrorKind::NotFound => Content::Absent,
        Ok(_) | Err(_) => Content::Other,
    }
}

pub(crate) fn show(turns: &[TurnChanges], which: Which, workspace: &[String]) -> Result<(), Failure> {
    let diff = diff(turns, which, workspace)?;
    match diff.is_empty() {
        true => print::note(&format!("no changes of files; {OTHERS}")),
        false => print::cleaned(&coloured(&diff, Look::now()))?,
    }
    Ok(())
}

impl Which {
    /// As it is written behind `/diff` and `/undo`: nothing, `all`, or the number of a turn.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match (text, text.parse()) {
            ("", _) => Ok(Self::Last),
            ("all", _) => Ok(Self::All),
            (_, Ok(number)) => Ok(Self::Turn(number)),
            (_, Err(_)) => Err(Failure::usage(format!("{text:?} is neither `all` nor the number of a turn"))),
        }
    }
}

fn picked(turns: &[TurnChanges], which: Which) -> Result<&[TurnChanges], Failure> {
    match which {
        Which::All => Ok(turns),
        Which::Behind(number) => Ok(&turns[turns.partition_point(|turn| turn.number <= number)..]),
        Which::Last => Ok(turns.last().map_or(&[], std::slice::from_ref)),
        Which::Turn(number) => {
            let turn = turns.iter().find(|turn| turn.number == number);
            let those: Vec<_> = turns.iter().map(|turn| turn.number.to_string()).collect();
            let none = || match those.is_empty() {
                true => Failure::usage(format!("no turn changed a file; {OTHERS}")),
                false => Failure::usage(format!("turn {number} changed no file; these did: {}", those.join(", "))),
            };
            turn.map(std::slice::from_ref).ok_or_else(none)
        }
    }
}

/// The folders that a session's files are in when it has none of its own.
pub(crate) fn workspace(config: &Config) -> Vec<String> {
    let workspace = std::path::Path::new(&config.policy.workspace);
    let workspace = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_owned());
    vec![workspace.to_string_lossy().into_owned()]
}

/// Takes the changes of a turn back, and tells of each file; returns the names of those that are as before now.
///
/// The last turn is the last one of which something is left to take back. Behind a turn there may be nothing. Blocks on
/// the disk for the time that writing the files takes. Errors: when there is no such turn, and when something is in the
/// way: a file that was changed since, unless `overwrite`.
pub(crate) fn take_back(
    (turns, originals): (&[TurnChanges], &Originals),
    which: Which,
    workspace: &[String],
    overwrite: bool,
) -> Result<Vec<String>, Failure> {
    let roots = |turn: &TurnChanges| if turn.roots.is_empty() { workspace.to_vec() } else { turn.roots.clone() };
    let is_done = |done: &[(String, Undone)]| done.iter().all(|(_, how)| *how == Undone::Already);
    let mut undone = Vec::new();
    match which {
        Which::Last => {
            for turn in turns.iter().rev() {
                undone = undo(&roots(turn), &turn.changes, originals, overwrite);
                if !is_done(&undone) {
                    break;
                }
            }
        }
        Which::Turn(_) => {
            for turn in picked(turns, which)? {
                undone = undo(&roots(turn), &turn.changes, originals, overwrite);
            }
        }
        Which::All | Which::Behind(_) => {
            let turns = picked(turns, which)?;
            let all = in_order(turns);
            undone = turns.first().map_or_else(Vec::new, |turn| undo(&roots(turn), &all, originals, overwrite));
        }
    }
    if is_done(&undone) {
        if matches!(which, Which::Behind(_)) {
            return Ok(Vec::new());
        }
        return Err(Failure::usage(format!("there is nothing to undo; {OTHERS}")));
    }
    let in_the_way = |how: &Undone| matches!(how, Undone::Changed | Undone::NotKept | Undone::Failed(_));
    let is_lost = undone.iter().any(|(_, how)| matches!(how, Undone::NotKept));
    let is_refused = undone.iter().any(|(_, how)| in_the_way(how)) && !overwrite;
    let mut names = Vec::new();
    for (path, how) in undone {
        let (what, is_done) = match how {
            Undone::Already => continue,
            Undone::Restored | Undone::Removed if is_refused => continue,
            Undone::Restored => ("restored".to_owned(), true),
            Undone::Removed => ("removed".to_owned(), true),
            Undone::Changed => ("was changed since".to_owned(), false),
            Undone::NotKept => ("its previous content was not kept, or is no longer in the store".to_owned(), false),
            Undone::Failed(why) => (why, false),
        };
        print::note(&format!("{path}: {what}"));
        if is_done {
            names.push(path);
        }
    }
    match is_refused {
        true if is_lost => Err(Failure::usage(
            "nothing was undone, since what was not kept cannot be put back; `force` behind the command in a chat, and \
             --force elsewhere, undo the rest",
        )),
        true => Err(Failure::usage(
            "nothing was undone; --force, in a chat `force` behind the command, overwrites what was changed since",
        )),
        false => Ok(names),
    }
}
