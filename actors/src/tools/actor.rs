//! The actor that hosts the tools of this process.
//!
//! It publishes what there is on its publisher of the tool registry; turns ask it what may
//! run ([`ToolsMessage::Check`]) and to run it ([`ToolsMessage::Call`]). Each call runs
//! in a task of its own, so the mailbox never waits for a tool, and nothing a tool
//! does ends the actor.

use super::grant::KeyPlace;
use super::host::Host;
use super::policy::Policy;
use super::port::ToolPort;
use super::registry::Publisher;
use bob_messages::tools::ToolsMessage;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::fmt;
use std::future::ready;
use std::sync::Arc;

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
}

impl Actor for ToolsActor {
    type Msg = ToolsMessage;
    type State = ToolsState;
    type Arguments = ToolsArguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<ToolsMessage>,
        arguments: ToolsArguments,
    ) -> Result<ToolsState, ActorProcessingErr> {
        let ToolsArguments { ports, policy, publisher, key } = arguments;
        let host = Host::new(ports, policy, &key)?;
        let progress = publisher.as_ref().map(Publisher::progress).unwrap_or_default();
        if let Some(publisher) = publisher {
            publisher.offer(host.offered(), None);
        }
        Ok(ToolsState { host: host.telling(progress) })
    }

    fn handle(
        &self,
        myself: ActorRef<ToolsMessage>,
        message: ToolsMessage,
        state: &mut ToolsState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        state.host.attend(message, &myself.get_cell());
        ready(Ok(()))
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
