//! The supervisor of the tools: the actor that hosts those of this process, and one for
//! each tool server.
//!
//! Each child fails on its own. One that died too often is left down: its room is
//! empty, so its tools are not offered, and the rest of the runtime goes on. Which servers
//! there are is in the [`Roster`], so that it outlives the supervisor; it may change
//! while the runtime runs.

#[cfg(feature = "mcp")]
pub mod brought;
#[cfg(feature = "mcp")]
mod registry;
mod roster;
#[cfg(feature = "mcp")]
pub mod servers;

pub use roster::Roster;

use crate::children::{ChildEvent, ChildSet, ChildSpec, Next, SupervisorMessage};
use bob_actors::rooms::Rooms;
use bob_actors::tools::{Policy, ToolPort, ToolsActor, ToolsArguments};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::Arc;
use std::time::Duration;

/// Supervises whatever has tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolsSupervisor;

/// What the supervisor is started with.
#[derive(Debug, Clone)]
pub struct ToolsSupervisorArguments {
    /// The actor with the tools of this process.
    pub local: ChildSpec,
    /// The tool servers.
    pub servers: Roster,
}

/// What the supervisor keeps.
#[derive(Debug)]
pub struct ToolsSupervisorState {
    children: ChildSet,
    within: Option<Duration>,
}

/// The actor that hosts the tools of this process, as a child. What it is given is
/// checked when it first starts, so a wrong policy is told there and not later.
pub fn local(rooms: &Rooms, ports: Vec<Arc<dyn ToolPort>>, policy: Policy) -> ChildSpec {
    // Made once: each actor that follows is handed the same key.
    let shelf = Some(rooms.tools.local_shelf());
    let arguments = ToolsArguments { ports, policy, shelf, ..ToolsArguments::default() };
    let core = ChildSpec::core("local", rooms.tools.local().clone(), move || (ToolsActor, arguments.clone()));
    let shelf = rooms.tools.local_shelf();
    let tell = move |fate: ChildEvent<'_>| match fate {
        // It is back within milliseconds, also when its supervisor is started again; what
        // it offers stays on offer.
        ChildEvent::Restarting { .. } | ChildEvent::Restarted { .. } | ChildEvent::Stopped => {}
        ChildEvent::GaveUp { why } => shelf.gave_up(why.to_owned()),
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
        // Before the roster is read: a change that comes later is told, not lost.
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
            // Its own supervisor rules on it like on any other death.
            Next::Escalate { reason } => myself.stop(Some(reason)),
        }
    }
}
