//! The pool of machines to which a session is bound, read without folding most journals.

use super::Session;
use crate::ids::{PoolName, SessionId};
use crate::store::{Fact, Glance, Record};
use std::sync::Arc;

/// The pool to which a session is bound, by its records: all of them, or those from the last snapshot on.
pub fn pool_of(session: &SessionId, records: &[Arc<Record>]) -> Option<PoolName> {
    let mut newest = records.iter().rev();
    if let Some(options) = newest.find_map(|record| Glance::options_told_by(&record.fact)) {
        return options.pool.clone();
    }
    match records.first().map(|first| &first.fact) {
        // Most snapshots have none, and are not read for it. In a text of the session, quotes are escaped.
        Some(Fact::Snapshot(snapshot)) if snapshot.session.contains("\"pool\":") => {
            Session::fold_latest(session.clone(), None, records)?.latest_options().pool.clone()
        }
        _of_a_session_without_options => None,
    }
}
