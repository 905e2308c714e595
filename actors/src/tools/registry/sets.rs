use crate::tools::policy::Names;
use bob_messages::tools::{ToolDescriptor, ToolSet};
use std::collections::HashMap;
use std::sync::Arc;

/// How many different session lists are remembered; more are made anew.
const REMEMBERED_LISTS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Sets {
    /// What had been published when they were made.
    published: u64,
    everything: Option<Arc<ToolSet>>,
    lists: HashMap<Key, Arc<ToolSet>>,
}

/// The serial numbers of the hosts only some sessions see, and what a session is limited to.
type Key = (Vec<u64>, Option<Arc<[String]>>);

impl Sets {
    /// The tools a session with these hosts of its own and this list may use, out of `all`.
    pub(super) fn get(
        &mut self,
        published: u64,
        own: Vec<u64>,
        allow: Option<&Arc<[String]>>,
        all: impl FnOnce() -> Vec<Arc<ToolDescriptor>>,
    ) -> Arc<ToolSet> {
        if self.published != published {
            *self = Self { published, ..Self::default() };
        }
        if own.is_empty() && allow.is_none() {
            return Arc::clone(self.everything.get_or_insert_with(|| Arc::new(ToolSet::from(all()))));
        }
        let key = (own, allow.cloned());
        if let Some(set) = self.lists.get(&key) {
            return Arc::clone(set);
        }
        let mut tools = match &self.everything {
            Some(everything) if key.0.is_empty() => everything.tools().to_vec(),
            Some(_) | None => all(),
        };
        if let Some(allow) = &key.1 {
            let names = Names::of_session(allow);
            tools.retain(|tool| names.contain(&tool.id));
        }
        let set = Arc::new(ToolSet::from(tools));
        if self.lists.len() >= REMEMBERED_LISTS {
            self.lists.clear();
        }
        self.lists.insert(key, Arc::clone(&set));
        set
    }
}
