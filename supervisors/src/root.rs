//! The root of a runtime's tree.
//!
//! Owns the store, the model side, what else the configuration brings, the tools
//! supervisor and the sessions supervisor, in this order. Nobody supervises the
//! root: when a critical child dies too often it stops the tree in reverse order
//! and leaves word why. It never deals with a session, a turn or a tool.

use crate::family::{ChildSpec, Family, Next, SupervisorMessage};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the tree may take to stop when the root gives up.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(4);

/// How a tree ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEnd {
    /// It was asked to.
    Stopped,
    /// A child it cannot do without died too often. The other children were stopped
    /// in reverse order.
    GaveUp {
        /// Which child, and of what.
        reason: String,
    },
    /// The root was killed or failed itself, and its children were killed with it.
    Died,
}

/// Supervises everything in a runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct RootSupervisor;

/// What the root is started with.
#[derive(Debug)]
pub struct RootArguments {
    /// Its children, in start order.
    pub children: Vec<ChildSpec>,
    /// Where it leaves word how it ended. Empty once it has ended: it died.
    pub end: Arc<OnceLock<TreeEnd>>,
}

/// What the root keeps.
#[derive(Debug)]
pub struct RootState {
    family: Family,
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
        let mut family = Family::new(myself, arguments.children);
        family.start().await?;
        Ok(RootState { family, end: arguments.end, within: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        let next = state.family.attend(message);
        state.go_on(&myself, next);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        let next = state.family.event(event);
        state.go_on(&myself, next);
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<SupervisorMessage>,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        state.family.stop(state.within).await;
        // The first word stands: a root that gave up has left its own.
        let _given_up = state.end.set(TreeEnd::Stopped);
        Ok(())
    }
}

impl RootState {
    fn go_on(&mut self, myself: &ActorRef<SupervisorMessage>, next: Next) {
        match next {
            Next::GoOn => {}
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
