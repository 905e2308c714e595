//! The actor that hosts the tools of this process.
//!
//! It publishes what there is on its publisher of the tool registry; turns ask it what may
//! run ([`ToolsMessage::Check`](bob_messages::tools::ToolsMessage::Check)) and to run it
//! ([`ToolsMessage::Call`](bob_messages::tools::ToolsMessage::Call)). Each call runs
//! in a task of its own, so the mailbox never waits for a tool, and nothing a tool
//! does ends the actor. A port whose tools change is listed again by a task of the actor.

use super::caught::caught;
use super::grant::KeyPlace;
use super::host::Host;
use super::policy::Policy;
use super::port::ToolPort;
use super::registry::Publisher;
use bob_messages::tools::{LocalToolsMessage, ToolDescriptor};
use futures_util::FutureExt;
use futures_util::future::join_all;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::fmt;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a port may take to list its tools: less than the supervisor lets the actor take to start.
const LISTS_WITHIN: Duration = Duration::from_secs(10);

/// How long after a list the next one is read at the earliest: a port that changes all the time is not listed all the time.
const BETWEEN_LISTS: Duration = Duration::from_millis(100);

/// Hosts the tools of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolsActor;

/// What the actor is started with; the same again after a crash.
#[derive(Clone, Default)]
pub struct ToolsArguments {
    /// Where the tools come from, in the order they are offered.
    pub ports: Vec<Arc<dyn ToolPort>>,
    /// The rules over them.
    pub policy: Policy,
    /// Where they are published.
    pub publisher: Option<Publisher>,
    /// What seals their grants: a call that was allowed before a restart may run after it.
    pub key: KeyPlace,
    /// What the ports listed last. After a restart that is what is offered until they have listed again.
    pub last: LastLists,
}

/// The tools of each port as they were listed last. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LastLists(Arc<Mutex<Vec<Vec<ToolDescriptor>>>>);

impl LastLists {
    fn get(&self) -> Vec<Vec<ToolDescriptor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, lists: Vec<Vec<ToolDescriptor>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lists;
    }
}

impl fmt::Debug for ToolsArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsArguments").field("ports", &self.ports.len()).field("policy", &self.policy).finish()
    }
}

/// What the actor keeps.
#[derive(Debug)]
pub struct ToolsState {
    host: Host,
    lists: LastLists,
    publisher: Option<Publisher>,
}

impl Actor for ToolsActor {
    type Msg = LocalToolsMessage;
    type State = ToolsState;
    type Arguments = ToolsArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<LocalToolsMessage>,
        arguments: ToolsArguments,
    ) -> Result<ToolsState, ActorProcessingErr> {
        let ToolsArguments { ports, policy, publisher, key, last } = arguments;
        let ports: Vec<_> = ports.into_iter().map(caught).collect();
        // What changes while the lists are made is listed again.
        let changes: Vec<_> = ports.iter().map(|port| port.changes()).collect();
        let known = last.get();
        // A restart waits for no port, and no list that was refused before takes the tools of the others away.
        let is_known = known.len() == ports.len();
        let lists = match is_known {
            true => known,
            false => join_all(ports.iter().map(|port| listed(&**port))).await.into_iter().collect::<Result<_, _>>()?,
        };
        let watched = ports.clone().into_iter().zip(changes).enumerate();
        let host = Host::new(ports.into_iter().zip(lists.iter().cloned()).collect(), policy, &key)?;
        last.set(lists);
        for (at, (port, changes)) in watched.filter_map(|(at, (port, changes))| Some((at, (port, changes?)))) {
            tokio::spawn(list_again(at, port, changes, is_known, myself.clone()));
        }
        let progress = publisher.as_ref().map(Publisher::progress).unwrap_or_default();
        if let Some(publisher) = &publisher {
            publisher.offer(host.offered(), None);
        }
        Ok(ToolsState { host: host.telling(progress), lists: last, publisher })
    }

    fn handle(
        &self,
        myself: ActorRef<LocalToolsMessage>,
        message: LocalToolsMessage,
        state: &mut ToolsState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        match message {
            LocalToolsMessage::Tools(question) => state.host.attend(question, &myself.get_cell()),
            LocalToolsMessage::Listed { port, tools } => state.relist(port, tools),
        }
        ready(Ok(()))
    }
}

impl ToolsState {
    /// A port has another list. One that cannot stand beside the others changes nothing.
    fn relist(&mut self, port: usize, tools: Vec<ToolDescriptor>) {
        let mut lists = self.lists.get();
        let Some(list) = lists.get_mut(port) else { return };
        if *list == tools {
            return;
        }
        *list = tools;
        if let Err(error) = self.host.relist(lists.clone()) {
            tracing::warn!(target: "bob::tools", %error, "a changed list of tools is not taken");
            return;
        }
        self.lists.set(lists);
        if let Some(publisher) = &self.publisher {
            publisher.offer(self.host.offered(), None);
        }
    }
}

/// Why a port has no list.
#[derive(Debug, thiserror::Error)]
enum Unlisted {
    #[error("the tools of a port were not listed within {LISTS_WITHIN:?}")]
    TooSlow,
    #[error("a port of tools panicked while it listed them")]
    Panicked,
}

async fn listed(port: &dyn ToolPort) -> Result<Vec<ToolDescriptor>, Unlisted> {
    let listing = AssertUnwindSafe(async { port.list_tools().await }).catch_unwind();
    timeout(LISTS_WITHIN, listing).await.map_err(|_elapsed| Unlisted::TooSlow)?.map_err(|_panic| Unlisted::Panicked)
}

/// Sends the list of a port to the actor after each change, as long as both are there; at once where it may have changed.
async fn list_again(
    at: usize,
    port: Arc<dyn ToolPort>,
    mut changes: watch::Receiver<u64>,
    has_changed: bool,
    actor: ActorRef<LocalToolsMessage>,
) {
    if has_changed {
        changes.mark_changed();
    }
    loop {
        let listed = async {
            changes.changed().await.ok()?;
            Some(listed(&*port).await)
        };
        let listed = tokio::select! {
            biased;
            _ = actor.wait(None) => return,
            listed = listed => listed,
        };
        match listed {
            None => return,
            Some(Ok(tools)) => drop(actor.cast(LocalToolsMessage::Listed { port: at, tools })),
            Some(Err(error)) => tracing::warn!(target: "bob::tools", %error, "a changed list of tools was not read"),
        }
        tokio::time::sleep(BETWEEN_LISTS).await;
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "actor_lists_tests.rs"]
mod lists_tests;
