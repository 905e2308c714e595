//! The wrapper around an actor: it marks when a handler begins and ends.
//!
//! It is also where the hook of a test is called.

use super::{Hook, Kill, Kinds, Pulse};
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

    /// Handles a message between two calls of the hook.
    async fn hooked(
        &self,
        hook: &dyn Hook,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let (place, kind, cell) = (&self.pulse.stamp.place, message.kind_name(), myself.get_cell());
        let mut handled = hook.before(place, kind);
        if handled.is_ok() {
            handled = self.actor.handle(myself, message, state).await.and_then(|()| hook.after(place, kind));
        }
        match handled {
            Err(error) if error.is::<Kill>() => {
                cell.kill();
                std::future::pending().await
            }
            handled => handled,
        }
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
        self.pulse.before("Starting")?;
        self.actor.pre_start(myself, arguments).await
    }

    async fn post_start(&self, myself: ActorRef<A::Msg>, state: &mut A::State) -> Result<(), ActorProcessingErr> {
        self.actor.post_start(myself, state).await
    }

    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let _busy = self.pulse.beat(message.kind());
        match &self.pulse.hook {
            None => self.actor.handle(myself, message, state).await,
            // Boxed: the usual way keeps its size.
            Some(hook) => Box::pin(self.hooked(&**hook, myself, message, state)).await,
        }
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let _busy = self.pulse.beat(SUPERVISION);
        self.pulse.before("SupervisionEvent")?;
        self.actor.handle_supervisor_evt(myself, event, state).await
    }

    async fn post_stop(&self, myself: ActorRef<A::Msg>, state: &mut A::State) -> Result<(), ActorProcessingErr> {
        self.pulse.before("Stopping")?;
        self.actor.post_stop(myself, state).await
    }
}
