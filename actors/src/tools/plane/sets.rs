//! The tool sets of sessions, made once and shared.

use crate::tools::policy::Names;
use bob_messages::tools::{ToolDescriptor, ToolSet};
use std::collections::HashMap;
use std::sync::Arc;

/// How many different session lists are remembered; more are made anew.
const REMEMBERED_LISTS: usize = 256;

/// The sets of one moment.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// What had been published when they were made.
    published: u64,
    everything: Option<Arc<ToolSet>>,
    lists: HashMap<Arc<[String]>, Arc<ToolSet>>,
}

impl Sets {
    /// The tools a session with this list may use, out of `all`.
    pub(super) fn get(
        &mut self,
        published: u64,
        allow: Option<&Arc<[String]>>,
        all: impl FnOnce() -> Vec<Arc<ToolDescriptor>>,
    ) -> Arc<ToolSet> {
        if self.published != published {
            *self = Self { published, ..Self::default() };
        }
        let everything = Arc::clone(self.everything.get_or_insert_with(|| Arc::new(ToolSet::from(all()))));
        let Some(allow) = allow else { return everything };
        if let Some(set) = self.lists.get(allow) {
            return Arc::clone(set);
        }
        let names = Names::of_session(allow);
        let tools: Vec<_> = everything.tools().iter().filter(|tool| names.contain(&tool.id)).cloned().collect();
        let set = Arc::new(ToolSet::from(tools));
        if self.lists.len() >= REMEMBERED_LISTS {
            self.lists.clear();
        }
        self.lists.insert(Arc::clone(allow), Arc::clone(&set));
        set
    }
}
