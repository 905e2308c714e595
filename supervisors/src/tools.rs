//! The supervisor of the tools: the actor of the local tools, and one for each tool server.
//!
//! Children fail independently. One that failed too often is left down: its tools are not offered, and the rest of
//! the runtime continues. The list of servers is in [`DesiredServers`], which outlives the supervisor and may change
//! while it runs.

#[cfg(feature = "mcp")]
pub mod brought;
mod desired;
#[cfg(feature = "mcp")]
mod isolated;
#[cfg(feature = "mcp")]
mod pool;
#[cfg(feature = "mcp")]
mod registry;
#[cfg(feature = "mcp")]
pub mod servers;

pub use desired::DesiredServers;

use crate::children::{ChildEvent, ChildSet, ChildSpec, Next, SupervisorMessage};
use bob_actors::rooms::Rooms;
use bob_actors::tools::{Policy, ToolPort, ToolsActor, ToolsArguments};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::Arc;
use std::time::Duration;

/// Supervises the hosts of tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolsSupervisor;

/// The supervisor's arguments.
#[derive(Debug, Clone)]
pub struct ToolsSupervisorArguments {
    /// The actor with the tools of this process.
    pub local: ChildSpec,
    /// The tool servers.
    pub servers: DesiredServers,
}

/// The supervisor's state.
#[derive(Debug)]
pub struct ToolsSupervisorState {
    children: ChildSet,
    within: Option<Duration>,
}

/// Returns the child for the local tools. Its arguments are validated by its first start, so an invalid policy is
/// reported then.
pub fn local(rooms: &Rooms, ports: Vec<Arc<dyn ToolPort>>, policy: Policy) -> ChildSpec {
    // Created once: all starts share one key.
    let publisher = Some(rooms.tools.local_publisher());
    let arguments = ToolsArguments { ports, policy, publisher, ..ToolsArguments::default() };
    let core = ChildSpec::core("local", rooms.tools.local().clone(), move || (ToolsActor, arguments.clone()));
    let publisher = rooms.tools.local_publisher();
    let tell = move |event: ChildEvent<'_>| match event {
        // It is back within milliseconds, also when its supervisor is restarted; its tools stay on offer.
        ChildEvent::Restarting { .. } | ChildEvent::Restarted { .. } | ChildEvent::Stopped => {}
        ChildEvent::GaveUp { why } => publisher.gave_up(why.to_owned()),
    };
    ChildSpec { critical: false, shutdown_ms: 1_000, ..core }.observed_by(tell)
}

impl Actor for ToolsSupervisor {
    type Msg = SupervisorMessage;
    type State = ToolsSupervisorState;
    type Arguments = ToolsSupervisorArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMessage>,
        arguments: ToolsSupervisorArguments,
    ) -> Result<ToolsSupervisorState, ActorProcessingErr> {
        let ToolsSupervisorArguments { local, servers } = arguments;
        // Before the list is read, so that a later change is received as a message and not lost.
        servers.supervisor().fill(myself.clone());
        let mut children = ChildSet::new(myself, std::iter::once(local).chain(servers.children()).collect());
        children.start().await?;
        Ok(ToolsSupervisorState { children, within: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut ToolsSupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let next = state.children.handle(message);
        state.go_on(&myself, next);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut ToolsSupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let next = state.children.handle_event(event);
        state.go_on(&myself, next);
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<SupervisorMessage>,
        state: &mut ToolsSupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        state.children.stop(state.within).await;
        Ok(())
    }
}

impl ToolsSupervisorState {
    fn go_on(&mut self, myself: &ActorRef<SupervisorMessage>, next: Next) {
        match next {
            Next::Continue => {}
            Next::Stop { within } => {
                self.within = Some(within);
                myself.stop(None);
            }
            // Its own supervisor handles it like any other failure.
            Next::Escalate { reason } => myself.stop(Some(reason)),
        }
    }
}
