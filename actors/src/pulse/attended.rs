//! The wrapper around an actor: it marks when a handler begins and ends.
//!
//! With the feature `drill` it is also where the actor meets a trap.

#[cfg(feature = "drill")]
use super::Place;
use super::{Kinds, Pulse};
#[cfg(feature = "drill")]
use crate::drill::traps::{Edge, Snared};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

/// The kind of a supervision event, beyond those of all mailboxes.
pub(super) const SUPERVISION: u8 = 254;

/// An actor whose every message leaves a mark. It has the mailbox, the state and the
/// arguments of the one it holds.
#[derive(Debug)]
pub struct Attended<A> {
    actor: A,
    pulse: Pulse,
}

impl<A: Actor<Msg: Kinds>> Attended<A> {
    pub(super) fn new(actor: A, pulse: Pulse) -> Self {
        Self { actor, pulse }
    }
}

impl<A: Actor<Msg: Kinds>> Actor for Attended<A> {
    type Msg = A::Msg;
    type State = A::State;
    type Arguments = A::Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        arguments: A::Arguments,
    ) -> Result<A::State, ActorProcessingErr> {
        // A session's actor is started by sending to it, and nobody waits for a start that cannot fail.
        #[cfg(feature = "drill")]
        if matches!(self.pulse.stamp.place, Place::Room(_)) {
            self.pass(Edge::Before("Starting"))?;
        }
        self.actor.pre_start(myself, arguments).await
    }

    async fn post_start(&self, myself: ActorRef<A::Msg>, state: &mut A::State) -> Result<(), ActorProcessingErr> {
        self.actor.post_start(myself, state).await
    }

    #[cfg(not(feature = "drill"))]
    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let _busy = self.pulse.beat(message.kind());
        self.actor.handle(myself, message, state).await
    }

    #[cfg(feature = "drill")]
    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let _busy = self.pulse.beat(message.kind());
        let name = message.kind_name();
        let cell = myself.get_cell();
        let mut handled = self.pass(Edge::Before(name));
        if handled.is_ok() {
            handled = self.actor.handle(myself, message, state).await.and_then(|()| self.pass(Edge::After(name)));
        }
        match handled {
            Err(error) if error.is::<Snared>() => Box::pin(Snared::killed(cell)).await,
            handled => handled,
        }
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let _busy = self.pulse.beat(SUPERVISION);
        #[cfg(feature = "drill")]
        self.pass(Edge::Before("SupervisionEvent"))?;
        self.actor.handle_supervisor_evt(myself, event, state).await
    }

    async fn post_stop(&self, myself: ActorRef<A::Msg>, state: &mut A::State) -> Result<(), ActorProcessingErr> {
        #[cfg(feature = "drill")]
        self.pass(Edge::Before("Stopping"))?;
        self.actor.post_stop(myself, state).await
    }
}

#[cfg(feature = "drill")]
impl<A> Attended<A> {
    /// Passes an edge, unless there is a trap.
    fn pass(&self, edge: Edge) -> Result<(), ActorProcessingErr> {
        self.pulse.traps.pass(&self.pulse.stamp.place, edge)
    }
}
