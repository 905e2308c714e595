//! The wrapper around an actor that marks the beginning and the end of each handler.
//!
//! It also calls the hook of a test.

use super::{Hook, Kill, Kinds, Monitor};
use futures_util::future::{Either, FutureExt};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

/// The kind of a supervision event, beyond those of all mailboxes.
pub(super) const SUPERVISION: u8 = 254;

/// An actor whose handlers are watched. It has the mailbox, the state and the arguments of the actor inside.
#[derive(Debug)]
pub struct Watched<A> {
    actor: A,
    monitor: Monitor,
}

impl<A: Actor<Msg: Kinds>> Watched<A> {
    pub(super) fn new(actor: A, monitor: Monitor) -> Self {
        Self { actor, monitor }
    }

    /// Handles a message between two calls of the hook.
    async fn hooked(
        &self,
        hook: &dyn Hook,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        let (path, kind, cell) = (&self.monitor.stamp.path, message.kind_name(), myself.get_cell());
        let mut handled = hook.before(path, kind);
        if handled.is_ok() {
            handled = self.actor.handle(myself, message, state).await.and_then(|()| hook.after(path, kind));
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

impl<A: Actor<Msg: Kinds>> Actor for Watched<A> {
    type Msg = A::Msg;
    type State = A::State;
    type Arguments = A::Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        arguments: A::Arguments,
    ) -> Result<A::State, ActorProcessingErr> {
        self.monitor.before("Starting")?;
        self.actor.pre_start(myself, arguments).await
    }

    async fn post_start(&self, myself: ActorRef<A::Msg>, state: &mut A::State) -> Result<(), ActorProcessingErr> {
        self.actor.post_start(myself, state).await
    }

    /// Not an `async fn`: its future would have room for the message, for all the time that the actor lives.
    fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let busy = self.monitor.enter(message.kind());
        let handled = match &self.monitor.hook {
            None => Either::Left(self.actor.handle(myself, message, state)),
            // Boxed, so that the usual future stays small.
            Some(hook) => Either::Right(Box::pin(self.hooked(&**hook, myself, message, state))),
        };
        handled.map(move |handled| {
            drop(busy);
            handled
        })
    }

    /// In a box, since it is rare and each actor has room for its largest future all the time.
    fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        state: &mut A::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        Box::pin(async move {
            let _busy = self.monitor.enter(SUPERVISION);
            self.monitor.before("SupervisionEvent")?;
            self.actor.handle_supervisor_evt(myself, event, state).await
        })
    }

    async fn post_stop(&self, myself: ActorRef<A::Msg>, state: &mut A::State) -> Result<(), ActorProcessingErr> {
        self.monitor.before("Stopping")?;
        self.actor.post_stop(myself, state).await
    }
}
