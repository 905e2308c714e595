//! The tools of a server of which no process may run.

use bob_messages::tools::ToolDescriptor;
use std::sync::{Arc, Mutex, PoisonError};

/// The tools that a server offered when one of its processes was last asked. Prompts are made with them before the process
/// of a session is ready. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct KnownTools(Arc<Mutex<Option<Tools>>>);

type Tools = Arc<[Arc<ToolDescriptor>]>;

impl KnownTools {
    /// The list; `None` before a process was ready.
    pub fn get(&self) -> Option<Tools> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, tools: Tools) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tools);
    }

    pub(super) fn is_read(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
