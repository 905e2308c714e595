//! The way from a call to the runtime that makes it.

use crate::store::{Artifacts, SessionStore};
use bob_messages::ids::SessionId;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

/// A weak handle to the runtime of a call, with the store of its artifacts. Clones share it; it keeps no runtime alive.
#[derive(Clone, Default)]
pub struct RuntimeHandle {
    runtime: Arc<OnceLock<Weak<dyn Any + Send + Sync>>>,
    artifacts: Artifacts,
    store: Arc<OnceLock<Weak<dyn SessionStore>>>,
}

impl RuntimeHandle {
    /// Sets the runtime. The first one stays.
    pub fn set(&self, runtime: Weak<dyn Any + Send + Sync>) {
        let _the_first_stays = self.runtime.set(runtime);
    }

    /// Where large parts of what the tools return are kept.
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Sets the store that says how long the sessions of this process are its own. The first one stays.
    pub fn owned_by(&self, store: &Arc<dyn SessionStore>) {
        let _the_first_stays = self.store.set(Arc::downgrade(store));
    }

    /// Whether a side effect may start in a session: it is this process's own at this moment.
    pub fn holds_lease(&self, session: &SessionId) -> bool {
        let store = self.store.get().and_then(Weak::upgrade);
        store.is_none_or(|store| store.lease(session).is_held(Instant::now()))
    }

    /// The runtime, if it is a `T` and has not ended.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.runtime.get()?.upgrade()?.downcast().ok()
    }
}

impl fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuntimeHandle")
    }
}
