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

/// How many files are named to the model.
const MOST_TOLD: usize = 50;

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
    let names = files.iter().take(MOST_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match files.len().saturating_sub(MOST_TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let notice = format!("(The user has undone your changes of these files: {names}{more})");
    (!files.is_empty()).then(|| OptionsPatch { notice: Some(notice.into()), ..OptionsPatch::default() })
}
