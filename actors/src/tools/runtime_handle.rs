//! The way from a call to the runtime that makes it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// A weak handle to the runtime of a call. Clones are one handle; it keeps no runtime alive.
#[derive(Clone, Default)]
pub struct RuntimeHandle(Arc<OnceLock<Weak<dyn Any + Send + Sync>>>);

impl RuntimeHandle {
    /// Sets the runtime. The first one stays.
    pub fn set(&self, runtime: Weak<dyn Any + Send + Sync>) {
        let _the_first_stays = self.0.set(runtime);
    }

    /// The runtime, if it is a `T` and has not ended.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.get()?.upgrade()?.downcast().ok()
    }
}

impl fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuntimeHandle")
    }
}
