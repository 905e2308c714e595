//! One of the connections that write, and what is known of the sessions that are written on it.

use super::link::Link;
use super::node::Node;
use crate::store::{Ledger, StoreOptions};
use bob_messages::ids::SessionId;
use std::collections::{HashMap, HashSet};

pub(super) struct Writer {
    pub(super) link: Link,
    pub(super) node: Node,
    pub(super) options: StoreOptions,
    /// What is known of the sessions that are written here. The database decides whether it still holds.
    pub(super) known: HashMap<SessionId, Ledger>,
    /// What was claimed here by a store that takes over: it is not taken over again.
    pub(super) taken: HashSet<SessionId>,
}

impl Writer {
    pub(super) fn new(link: Link, node: Node, options: StoreOptions) -> Self {
        Self { link, node, options, known: HashMap::new(), taken: HashSet::new() }
    }
}
