//! The tool servers that a runtime should run.
//!
//! A restarted supervisor reads this list; a running one is sent each change.

use crate::children::{ChildSpec, SupervisorMessage};
use bob_actors::address::Address;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Child specifications in order. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct DesiredServers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    children: Mutex<Vec<ChildSpec>>,
    supervisor: Address<SupervisorMessage>,
}

impl DesiredServers {
    /// Creates the list.
    pub fn of(children: Vec<ChildSpec>) -> Self {
        Self(Arc::new(Inner { children: Mutex::new(children), supervisor: Address::default() }))
    }

    pub(crate) fn supervisor(&self) -> &Address<SupervisorMessage> {
        &self.0.supervisor
    }

    pub(crate) fn children(&self) -> Vec<ChildSpec> {
        self.list().clone()
    }

    pub(crate) fn all_down(&self) {
        for child in self.children() {
            (child.on_down)();
        }
    }

    /// Replaces the child with this name, or appends `by`; `None` removes the child. Does not wait for the supervisor.
    pub fn replace(&self, name: &str, by: Option<ChildSpec>) {
        let mut children = self.list();
        let place = children.iter().position(|child| child.name == name);
        match (place, by.clone()) {
            (Some(place), Some(child)) => children[place] = child,
            (Some(place), None) => drop(children.remove(place)),
            (None, Some(child)) => children.push(child),
            (None, None) => return,
        }
        // Sent under the lock, so that changes reach the supervisor in order. A starting supervisor reads the list.
        self.0.supervisor.tell(SupervisorMessage::Replace { name: name.to_owned(), successor: by.map(Box::new) });
    }

    fn list(&self) -> MutexGuard<'_, Vec<ChildSpec>> {
        self.0.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
