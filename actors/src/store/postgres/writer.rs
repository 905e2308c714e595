//! One of the connections that write, and what is known of the sessions that are written on it.

use super::link::Link;
use super::node::Node;
use super::tables::Entry;
use super::together::Together;
use crate::store::{Ledger, StoreOptions};
use bob_messages::ids::SessionId;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use tokio::sync::Semaphore;

/// How many statements of claims and releases are sent at a time: an append on the connection is behind no more.
const BESIDE: usize = 32;

/// A claim on its way into a statement.
#[derive(Clone)]
pub(super) struct Claiming {
    pub(super) session: SessionId,
    pub(super) node: i32,
    pub(super) takes_over: bool,
}

/// The end of an ownership on its way into a statement.
#[derive(Clone)]
pub(super) struct Releasing {
    pub(super) session: SessionId,
    pub(super) epoch: u64,
    pub(super) node: i32,
}

/// The tasks of one connection share it. Nothing in it stays borrowed while one of them waits.
pub(super) struct Writer {
    pub(super) link: Link,
    pub(super) node: Node,
    pub(super) options: StoreOptions,
    /// What is known of the sessions that are written here. The database decides whether it still holds.
    pub(super) known: RefCell<HashMap<SessionId, Ledger>>,
    /// What was claimed here by a store that takes over: it is not taken over again.
    pub(super) taken: RefCell<HashSet<SessionId>>,
    /// Held while a claim or a release is sent and answered, and not between two attempts.
    pub(super) beside: Semaphore,
    pub(super) claims: Together<Claiming, Option<Entry>>,
    pub(super) releases: Together<Releasing, (bool, bool)>,
}

impl Writer {
    pub(super) fn new(link: Link, node: Node, options: StoreOptions) -> Self {
        let (known, taken, claims, releases) = Default::default();
        Self { link, node, options, known, taken, beside: Semaphore::new(BESIDE), claims, releases }
    }
}
