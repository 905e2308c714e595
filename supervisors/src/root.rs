//! The root supervisor of a runtime.
//!
//! Owns the store, the model side, further children of the configuration, the tools supervisor and the sessions
//! supervisor, in this order. The root has no supervisor: when a critical child dies too often, it stops the tree in
//! reverse order and records the reason. It never deals with a session, a turn or a tool.

use crate::children::{ChildSet, ChildSpec, Next, SupervisorMessage};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the tree may take to stop when the root gives up.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(4);

/// How a tree ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEnd {
    /// It was stopped on request.
    Stopped,
    /// A critical child died too often; the other children were stopped in reverse order.
    GaveUp {
        /// Names the child and the reason of its death.
        reason: String,
    },
    /// The root failed or was killed, and its children were killed with it.
    Died,
}

/// Supervises all actors of a runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct RootSupervisor;

/// The arguments of a [`RootSupervisor`].
#[derive(Debug)]
pub struct RootArguments {
    /// The children in start order.
    pub children: Vec<ChildSpec>,
    /// Records how the tree ended. If it is empty after the end, the root died.
    pub end: Arc<OnceLock<TreeEnd>>,
}

/// The state of a [`RootSupervisor`].
#[derive(Debug)]
pub struct RootState {
    children: ChildSet,
    end: Arc<OnceLock<TreeEnd>>,
    within: Option<Duration>,
}

impl Actor for RootSupervisor {
    type Msg = SupervisorMessage;
    type State = RootState;
    type Arguments = RootArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMessage>,
        arguments: RootArguments,
    ) -> Result<RootState, ActorProcessingErr> {
        let mut children = ChildSet::new(myself, arguments.children);
        children.start().await?;
        Ok(RootState { children, end: arguments.end, within: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        let next = state.children.handle(message);
        state.go_on(&myself, next);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        let next = state.children.handle_event(event);
        state.go_on(&myself, next);
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<SupervisorMessage>,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        state.children.stop(state.within).await;
        // A root that gave up has already set the reason.
        let _given_up = state.end.set(TreeEnd::Stopped);
        Ok(())
    }
}

impl RootState {
    fn go_on(&mut self, myself: &ActorRef<SupervisorMessage>, next: Next) {
        match next {
            Next::Continue => {}
            Next::Stop { within } => {
                self.within = Some(within);
                myself.stop(None);
            }
            Next::Escalate { reason } => {
                tracing::error!(reason, "the root gives up and stops the tree");
                let _first_word = self.end.set(TreeEnd::GaveUp { reason: reason.clone() });
                self.within = Some(GIVE_UP_LIMIT);
                myself.stop(Some(reason));
            }
        }
    }
}
