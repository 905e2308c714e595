//! `sessions rewind` and what `/rewind` shares with it: back to the end of a turn.

use std::collections::HashMap;
use std::sync::Arc;

use bob::SessionId;
use bob::model::ContentPart;
use bob::sessions::TurnId;
use bob::store::{Fact, Record, SessionStore};
use bob_config::Config;
use serde_json::json;

use crate::arguments::Part;
use crate::commands::file_changes::{self, Which};
use crate::commands::sessions::fork;
use crate::commands::sessions::undo;
use crate::exit::Failure;
use crate::terminal::print;

/// How much of a message is shown in a list of turns.
const MOST_SHOWN: usize = 60;

/// The first line of the message of each turn that is over, in order.
pub(crate) fn turns(records: &[Arc<Record>]) -> Vec<String> {
    let mut said: HashMap<&TurnId, String> = HashMap::new();
    let mut turns = Vec::new();
    for record in records {
        match (&record.fact, &record.turn) {
            (Fact::Input(input), _) => {
                // What follows is attached, or in records of older versions tells the model what was undone.
                let text = input.parts.first().map(ContentPart::as_text).unwrap_or_default();
                said.insert(&input.turn, print::first_line(&text, MOST_SHOWN));
            }
            (Fact::Outcome(ended), Some(turn)) if ended.suspended.is_none() => {
                turns.push(said.remove(turn).unwrap_or_default());
            }
            _another => {}
        }
    }
    turns
}

pub(crate) fn listed(turns: &[String]) -> String {
    (1..).zip(turns).map(|(number, said)| format!("{number:>4}  {said}\n")).collect()
}

pub(crate) fn check(session: &SessionId, at: usize, turns: usize) -> Result<(), Failure> {
    match at > turns {
        true => {
            let has = print::counted(turns, "turn");
            Err(Failure::usage(format!("the session {session} has {has} that ended; there is no turn {at}")))
        }
        false => Ok(()),
    }
}

/// `sessions rewind`. Files are put back first: when one is in the way, nothing is changed.
/// Errors: when there is no such turn, or a file was changed since; errors of the store.
pub(crate) async fn rewind(
    store: &Arc<dyn SessionStore>,
    (session, records): (&SessionId, &[Arc<Record>]),
    config: &Config,
    (at, part): (usize, Option<Part>),
    (overwrite, as_json): (bool, bool),
) -> Result<(), Failure> {
    check(session, at, turns(records).len())?;
    if at == 0 && part != Some(Part::Files) {
        return Err(Failure::usage("a conversation of no turns is a new session; --only files puts the files back"));
    }
    let mut undone = Vec::new();
    if part != Some(Part::Conversation) {
        let changes = file_changes::of_session(&**store, session, records).await;
        let (which, workspace) = (Which::Behind(at as u64), file_changes::workspace(config));
        let originals = file_changes::originals(&**store, &changes, which, &workspace).await;
        undone = file_changes::take_back((&changes.turns, &originals), which, &workspace, overwrite)?;
        if undone.is_empty() {
            print::note("no file was changed after that turn");
        }
        undo::tell(store, session, &undone).await;
    }
    let forked = match part {
        Some(Part::Files) => None,
        Some(Part::Conversation) | None => Some(fork::fork(&**store, session, records, Some(at)).await?.id),
    };
    match (as_json, forked) {
        (true, forked) => print::json(&json!({ "session_id": forked, "of": session, "undone": undone }))?,
        (false, Some(forked)) => {
            print::line(forked.as_str())?;
            print::note(&format!("cli-agent chat --resume {forked} continues behind turn {at}"));
        }
        (false, None) => {}
    }
    Ok(())
}
