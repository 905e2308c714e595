//! The store of a run, and the folder it is in.

use crate::arguments::Arguments;
use bob::store::{FileStore, MemoryStore, SessionStore, StoreOptions};
use std::sync::Arc;

/// Opens a new store of the requested kind. Its folder is not removed, so that removal is not measured; `TMPDIR`
/// selects the disk.
pub(crate) fn open(arguments: &Arguments) -> Arc<dyn SessionStore> {
    let folder = || tempfile::Builder::new().prefix("race-").tempdir().unwrap().keep();
    match arguments.store.as_str() {
        "memory" => MemoryStore::new(),
        "json" => FileStore::open(&folder(), StoreOptions::default()).unwrap(),
        #[cfg(feature = "sqlite")]
        "sqlite" => bob::store::SqliteStore::open(&folder().join("sessions.db"), StoreOptions::default()).unwrap(),
        #[cfg(feature = "postgres")]
        "postgres" => {
            let url = std::env::var("DATABASE_URL").expect("DATABASE_URL names an empty database");
            bob::store::PostgresStore::open(&url, StoreOptions::default()).unwrap()
        }
        other => {
            panic!("the store {other:?} is not known: use memory, json, or sqlite and postgres with their features")
        }
    }
}
