//! The one way to a session store: the port, the actor in front of it, the stores.
//!
//! The [`StoreActor`] owns the order of what is asked of a store and the batches; a [`SessionStore`] owns the rules of
//! a journal (epochs, versions, record ids) and its durability. Turns and the sessions supervisor talk to the actor,
//! the actor alone talks to the store. Nothing here folds records into a session.

mod actor;
mod artifacts;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod encoded;
mod family;
#[cfg(test)]
mod fixtures_tests;
mod folder;
mod full;
mod future;
mod identity;
mod inbox;
mod json;
mod known_ids;
mod ledger;
mod line;
mod listing;
mod made;
mod memory;
mod name;
mod overview;
mod owners;
mod port;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod span;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(any(test, feature = "testing"))]
pub mod contract;

pub use actor::StoreActor;
pub use artifacts::{ArtifactStorePort, Artifacts, FolderArtifacts, MemoryArtifacts, StoredArtifact, clipped};
pub use family::below;
pub use future::StoreFuture;
pub use inbox::{Due, Inbox, StoreLease};
pub use json::FileStore;
pub use ledger::{Ledger, Ruling};
pub use listing::page_of;
pub use made::{Made, Marked, make_folder};
pub use memory::MemoryStore;
pub use overview::{EmptyPool, NodeFigures, StoreNode, StoreOverview};
pub use owners::StoreOptions;
pub use port::{SessionOwner, SessionStore, Stored};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
