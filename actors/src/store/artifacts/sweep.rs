//! What a process left behind that ended between an artifact and its record, or during a deletion.
//!
//! The journal decides: what a record names is kept, the rest is removed. So much at a start, and the rest at the next one.

use crate::store::SessionStore;
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many artifacts are looked for at one start.
const MOST: usize = 1_000;

/// Looks for what was left behind, and removes what no record names.
pub(in crate::store) async fn sweep(store: Arc<dyn SessionStore>) {
    let Some(artifacts) = store.artifacts() else { return };
    let found = match artifacts.unrecorded(MOST).await {
        Ok(found) => found,
        Err(error) => return tracing::warn!(%error, "artifacts that no record names were not looked for"),
    };
    for (session, ids) in found {
        if let Err(error) = settle(&*store, &session, &ids).await {
            tracing::warn!(%session, %error, "artifacts that no record may name are kept until the next start");
        }
    }
}

async fn settle(store: &dyn SessionStore, session: &SessionId, ids: &[ArtifactId]) -> Result<(), StoreError> {
    let Some(artifacts) = store.artifacts() else { return Ok(()) };
    let records = store.load(session).await?;
    let named: BTreeSet<&ArtifactId> =
        records.iter().flat_map(|record| record.fact.artifacts()).map(|artifact| &artifact.id).collect();
    let (named, others): (Vec<_>, Vec<_>) = ids.iter().cloned().partition(|id| named.contains(id));
    artifacts.recorded(session, &named).await;
    artifacts.delete_unrecorded(session, &others).await
}
