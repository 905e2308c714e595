//! `sessions take`: a session is taken from its owner and left to whichever process claims it next.

use bob::SessionId;
use bob::store::SessionStore;
use serde_json::json;

use crate::exit::Failure;
use crate::terminal::print;

/// Takes a session, and prints from whom. Errors: there is no such session; the store cannot take it.
pub(super) async fn take(store: &dyn SessionStore, id: &SessionId, as_json: bool) -> Result<(), Failure> {
    let taken = store.take(id).await?;
    // A worker may have it before anything is written to it.
    if taken.is_none() && store.load_part(id, bob::store::Part::Latest).await?.is_empty() {
        return Err(super::no_such(id));
    }
    match (as_json, &taken) {
        (true, _) => {
            let from = taken.map(|owner| json!({ "name": owner.name, "node": owner.node, "address": owner.address }));
            print::json(&json!({ "session_id": id, "taken_from": from }))?;
        }
        (false, Some(owner)) => print::note(&format!("took {id} from {owner}; any process may claim it now")),
        (false, None) => print::note(&format!("no process owns {id}; nothing was changed")),
    }
    Ok(())
}
