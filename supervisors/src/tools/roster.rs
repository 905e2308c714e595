//! Which tool servers a runtime has now.
//!
//! The roster is the truth about them: a supervisor that is started again reads it, and
//! one that lives is told of each change.

use crate::children::{ChildSpec, SupervisorMessage};
use bob_actors::address::Address;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tool servers as children, in their order. Clones are the same roster.
#[derive(Debug, Clone, Default)]
pub struct Roster(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    children: Mutex<Vec<ChildSpec>>,
    supervisor: Address<SupervisorMessage>,
}

impl Roster {
    /// A roster of these children.
    pub fn of(children: Vec<ChildSpec>) -> Self {
        Self(Arc::new(Inner { children: Mutex::new(children), supervisor: Address::default() }))
    }

    /// Where the supervisor of the tools is found.
    pub(crate) fn supervisor(&self) -> &Address<SupervisorMessage> {
        &self.0.supervisor
    }

    /// Who is wanted now.
    pub(crate) fn children(&self) -> Vec<ChildSpec> {
        self.list().clone()
    }

    /// Whoever the supervisor had is down with it.
    pub(crate) fn all_down(&self) {
        for child in self.children() {
            (child.on_down)();
        }
    }

    /// Puts a child in the place of the one with this name, or last; without a
    /// successor the one with this name leaves. Nobody is waited for.
    pub fn replace(&self, name: &str, by: Option<ChildSpec>) {
        let mut children = self.list();
        let place = children.iter().position(|child| child.name == name);
        match (place, by.clone()) {
            (Some(place), Some(child)) => children[place] = child,
            (Some(place), None) => drop(children.remove(place)),
            (None, Some(child)) => children.push(child),
            (None, None) => return,
        }
        // Still under the lock, so that two changes reach the supervisor in their order.
        // One that is being started again reads the roster.
        self.0.supervisor.tell(SupervisorMessage::Replace { name: name.to_owned(), successor: by.map(Box::new) });
    }

    fn list(&self) -> MutexGuard<'_, Vec<ChildSpec>> {
        self.0.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
