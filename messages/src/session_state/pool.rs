//! The pool of machines to which a session is bound, read without folding most journals.

use super::Session;
use crate::ids::{PoolName, SessionId};
use crate::store::{Fact, Glance, Record};
use serde::Deserialize;
use std::sync::Arc;

/// The pool to which a session is bound, by its records: all of them, or those from the last snapshot on. Only records of
/// options bind it; an input that names a pool does not.
pub fn pool_of(session: &SessionId, records: &[Arc<Record>]) -> Option<PoolName> {
    let mut newest = records.iter().rev();
    if let Some(options) = newest.find_map(|record| Glance::options_set_by(&record.fact)) {
        return options.pool.clone();
    }
    match records.first().map(|first| &first.fact) {
        // Most snapshots have none, and are not read for it. In a text of the session, quotes are escaped.
        Some(Fact::Snapshot(snapshot)) if snapshot.session.contains(KEY) => {
            match Session::fold_latest(session.clone(), None, records) {
                Some(session) => session.latest_options().pool.clone(),
                // The machine reads the whole journal then, and is to have the session only in its pool.
                None => named_in(&snapshot.session),
            }
        }
        _of_a_session_without_options => None,
    }
}

const KEY: &str = "\"pool\":";

/// The pool that a snapshot names which cannot be used: by its options, or, where they cannot be read, the first name in it.
fn named_in(text: &str) -> Option<PoolName> {
    #[derive(Deserialize)]
    struct Bound {
        options: Options,
        #[serde(default)]
        next_options: Option<Options>,
    }
    #[derive(Deserialize)]
    struct Options {
        #[serde(default)]
        pool: Option<PoolName>,
    }
    if let Ok(Bound { options, next_options }) = serde_json::from_str(text) {
        return next_options.unwrap_or(options).pool;
    }
    let quoted = text.split(KEY).skip(1).filter_map(|behind| behind.trim_start().strip_prefix('"')?.split('"').next());
    quoted.filter_map(|name| PoolName::parse(name).ok()).next()
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
