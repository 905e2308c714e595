//! Large parts of records, kept beside the journals.
//!
//! - [`port`](ArtifactStorePort): what a store of artifacts can do
//! - `memory`, `folder`: those of the stores that come with Bob
//! - `marks`: the files that say which artifacts no record names yet
//! - `spill`: large parts go out; `whole`: what a model is sent comes back
//! - `sweep`: what processes left behind that ended between an artifact and its record

mod folder;
mod marks;
mod memory;
mod port;
mod spill;
mod sweep;
mod whole;

#[cfg(test)]
mod folder_tests;
#[cfg(test)]
mod spill_tests;

pub use folder::FolderArtifacts;
#[cfg(feature = "sqlite")]
pub(super) use folder::beside;
pub use memory::MemoryArtifacts;
pub use port::{ArtifactStorePort, StoredArtifact, clipped};
pub(super) use sweep::sweep;

use std::fmt;
use std::sync::{Arc, OnceLock};

/// Where the large parts of a runtime's sessions go; nowhere, when its store keeps no artifacts. Clones share it.
#[derive(Clone, Default)]
pub struct Artifacts(Arc<OnceLock<Arc<dyn ArtifactStorePort>>>);

impl Artifacts {
    /// Those of this store.
    pub fn of(port: Arc<dyn ArtifactStorePort>) -> Self {
        Self(Arc::new(OnceLock::from(port)))
    }

    /// Sets the store. The first one stays.
    pub fn come_from(&self, port: Arc<dyn ArtifactStorePort>) {
        let _the_first_stays = self.0.set(port);
    }

    /// The store, if there is one.
    pub fn port(&self) -> Option<&Arc<dyn ArtifactStorePort>> {
        self.0.get()
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Artifacts").field(&self.0.get().is_some()).finish()
    }
}
