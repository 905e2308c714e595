//! The actor of a tool server, with an observer of its end in place of a supervisor. Shared with other test crates:
//! the including file imports what its crate names differently.

use super::{Address, McpServerActor, McpServerArguments, ToolRegistry};
use bob_messages::mcp::McpMessage;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::mpsc;

/// An actor, and its supervisor's state.
pub(crate) struct Watched {
    pub(crate) actor: ActorRef<McpMessage>,
    pub(crate) address: Address<McpMessage>,
    pub(crate) arguments: McpServerArguments,
    /// The error of each actor of this server.
    pub(crate) ends: mpsc::UnboundedReceiver<String>,
    pub(crate) witness: ActorRef<()>,
}

impl Watched {
    pub(crate) async fn join(registry: &ToolRegistry, mut arguments: McpServerArguments) -> Self {
        let address = Address::default();
        arguments.publisher = Some(registry.join(&arguments.spec, address.clone()));
        let (tell, ends) = mpsc::unbounded_channel();
        let (witness, _ends) = Actor::spawn(None, Witness(address.clone()), tell).await.expect("the witness starts");
        let actor = spawn(&arguments, &address, &witness).await;
        Self { actor, address, arguments, ends, witness }
    }

    /// Restarts the actor, as a supervisor would.
    pub(crate) async fn start_again(&mut self) {
        self.actor = spawn(&self.arguments, &self.address, &self.witness).await;
    }
}

async fn spawn(
    arguments: &McpServerArguments,
    address: &Address<McpMessage>,
    witness: &ActorRef<()>,
) -> ActorRef<McpMessage> {
    let linked = McpServerActor::spawn_linked(None, McpServerActor, arguments.clone(), witness.get_cell()).await;
    let (actor, _ends) = linked.expect("the actor starts");
    address.fill(actor.clone());
    actor
}

/// Observes the ends of its child actors, whose address it clears as a supervisor does.
struct Witness(Address<McpMessage>);

impl Actor for Witness {
    type Msg = ();
    type State = mpsc::UnboundedSender<String>;
    type Arguments = mpsc::UnboundedSender<String>;

    async fn pre_start(
        &self,
        _myself: ActorRef<()>,
        tell: mpsc::UnboundedSender<String>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(tell)
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<()>,
        event: SupervisionEvent,
        tell: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(ended, _) | SupervisionEvent::ActorTerminated(ended, ..) = &event {
            // The test may have started the next one.
            self.0.clear_of(ended.get_id());
        }
        match event {
            SupervisionEvent::ActorFailed(_, error) => drop(tell.send(error.to_string())),
            SupervisionEvent::ActorTerminated(_, _, reason) => drop(tell.send(reason.unwrap_or_default())),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}
