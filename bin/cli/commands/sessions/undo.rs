//! `sessions diff` and `sessions undo`, and what the model is told of files that were put back.

use std::sync::Arc;

use bob::SessionId;
use bob::sessions::OptionsPatch;
use bob::store::{Record, SessionStore};
use bob_config::Config;
use serde_json::json;

use super::change;
use crate::commands::file_changes::{self, Which, workspace};
use crate::exit::Failure;
use crate::terminal::print;

/// How many files are named to the model, and how many bytes of their names, far below what a notice may have.
const MOST_TOLD: usize = 50;
const MOST_TOLD_BYTES: usize = 16 * 1024;

/// `sessions diff`. Errors: as [`file_changes::show`].
pub(super) async fn diff(
    store: &dyn SessionStore,
    (session, records): (&SessionId, &[Arc<Record>]),
    config: &Config,
    which: Which,
    as_json: bool,
) -> Result<(), Failure> {
    let changes = file_changes::of_session(store, session, records).await;
    if !as_json {
        return file_changes::show(&changes.turns, which, &workspace(config));
    }
    let changes = file_changes::changed(&changes.turns, which, &workspace(config))?;
    print::json(&json!({ "session_id": session, "changes": changes }))?;
    Ok(())
}

/// `sessions undo`. The model of the session learns of it. Errors: as [`file_changes::take_back`].
pub(super) async fn undo(
    store: &Arc<dyn SessionStore>,
    (session, records): (&SessionId, &[Arc<Record>]),
    config: &Config,
    (which, overwrite): (Which, bool),
    as_json: bool,
) -> Result<(), Failure> {
    let changes = file_changes::of_session(&**store, session, records).await;
    let workspace = workspace(config);
    let originals = file_changes::originals(&**store, &changes, which, &workspace).await;
    let names = file_changes::take_back((&changes.turns, &originals), which, &workspace, overwrite)?;
    tell(store, session, &names).await;
    if as_json {
        print::json(&json!({ "session_id": session, "undone": names }))?;
    }
    Ok(())
}

/// Has the model of a session know that these files were put back, with its next message. A process that has the session
/// learns of it by its inbox.
pub(crate) async fn tell(store: &Arc<dyn SessionStore>, session: &SessionId, files: &[String]) {
    let Some(patch) = told(files) else { return };
    let told = match change::set(&**store, session, &patch).await {
        Err(failure) if failure.kind == "busy" => change::left(store, session, patch).await,
        told => told.map(drop),
    };
    if let Err(failure) = told {
        warn_untold(&failure);
    }
}

/// The files are as they were before; that their session could not be changed is no reason to stop.
pub(crate) fn warn_untold(failure: &Failure) {
    print::note(&format!("warning: the model does not know that files were put back: {failure}"));
}

/// The change of a session by which its model knows that these files were put back; `None` without files.
pub(crate) fn told(files: &[String]) -> Option<OptionsPatch> {
    let mut room = MOST_TOLD_BYTES;
    let fits = |name: &&String| match room.checked_sub(name.len()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let named: Vec<&str> = files.iter().take(MOST_TOLD).take_while(fits).map(String::as_str).collect();
    let more = match files.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let notice = format!("(The user has undone your changes of these files: {}{more})", named.join(", "));
    (!files.is_empty()).then(|| OptionsPatch { notice: Some(notice.into()), ..OptionsPatch::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_is_told_of_long_names_stays_short() {
        let files: Vec<String> = (0..60).map(|file| format!("{file:02}{}", "n".repeat(4_000))).collect();
        let notice = told(&files).and_then(|patch| patch.notice).unwrap();
        assert!(notice.len() < 17 * 1024 && notice.ends_with(" and 56 more)"), "{}", notice.len());
        let few = told(&files[..1]).and_then(|patch| patch.notice).unwrap();
        assert!(few.ends_with("n)"), "{few}");
    }
}
