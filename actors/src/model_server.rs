//! Model servers of this machine, as supervised children.
//!
//! A provider with a start command has a [`ModelServerActor`]. Its process starts with the first question and further
//! questions wait for that start. A start that fails is an answer, and the next question tries again; a running
//! server that ends is the actor's death, and its supervisor starts the actor again, whose first question starts the
//! process. The process ends with its actor, however the actor ends.
//!
//! The actor never waits for its process: a keeper task does. A model server of another program on the port is used as
//! it is and never stopped. When something else listens there, the command is started with another port, if it takes one.

mod keeper;
mod probe;

#[cfg(test)]
#[path = "model_server_tests.rs"]
mod tests;

pub use probe::{Endpoint, InvalidEndpoint};

use crate::address::Address;
use crate::child::{ChildSpec, Ladder, Watcher};
use crate::llm::Readiness;
use bob_messages::llm::{LlmError, LlmErrorKind};
use bob_messages::reply::Reply;
use futures_util::future::BoxFuture;
use keeper::Keeper;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedSender};

/// How long a provider's actor may be away while it is started again.
const AWAY_LIMIT: Duration = Duration::from_secs(5);

/// What stands for the port in the arguments of a start command.
pub const PORT: &str = "{port}";

/// What a line of output begins with that tells where an installation is, and that the next such line replaces.
pub const STATE: &str = "~ ";

type Answer = Reply<Result<Port, LlmError>>;

/// The port where a server is ready, if it is another than that of its endpoint.
type Port = Option<u16>;

/// Receives a server's output until it is ready, such as the progress of an installation: the provider, and one line
/// without control characters. Lines that begin with [`STATE`] are many and short. Must not block.
pub type ProgressListener = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// The mailbox of a [`ModelServerActor`].
#[derive(Debug)]
pub enum ModelServerMessage {
    /// Start the server if it does not run; the answer comes when it is ready, or
    /// cannot be: it ended, or said nothing for its ready timeout.
    Ensure {
        /// Where the answer goes: the port, if another one had to be taken. Abandoning it stops nothing.
        reply: Reply<Result<Option<u16>, LlmError>>,
    },
    /// The running process ended; sent by the actor's keeper task.
    Ended {
        /// How it ended, with its last output.
        why: String,
    },
}

/// Shared state of a provider's [`ModelServerActor`]s. A supervisor creates one per provider and passes clones to
/// each successor, so that two processes of one provider never overlap.
#[derive(Clone)]
pub struct ModelServerSpec {
    provider: String,
    /// Its stdin is empty and both its outputs are drained; these settings are overridden.
    command: ChildSpec,
    endpoint: Endpoint,
    ready_timeout: Duration,
    ladder: Ladder,
    watcher: Watcher,
    progress: Option<ProgressListener>,
    /// Held by the keeper that has a process.
    place: Arc<tokio::sync::Mutex<()>>,
}

impl ModelServerSpec {
    /// A server of this provider: how it is started, where it then listens, and how long it may take to be ready. Each
    /// line of its output begins that time anew, so that a long installation is no failure; 20 times as long is. Of the
    /// arguments [`PORT`] is replaced by the endpoint's port, or by a free one where another program has that.
    pub fn new(
        provider: impl Into<String>,
        command: ChildSpec,
        endpoint: Endpoint,
        ready_timeout: Duration,
        watcher: Watcher,
    ) -> Self {
        Self {
            provider: provider.into(),
            command,
            endpoint,
            ready_timeout,
            ladder: Ladder::default(),
            watcher,
            progress: None,
            place: Arc::default(),
        }
    }

    /// Whose server it is.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Sets the receiver of the server's output until it is ready.
    #[must_use]
    pub fn with_progress(mut self, progress: ProgressListener) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for ModelServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServerSpec")
            .field("provider", &self.provider)
            .field("command", &self.command)
            .field("endpoint", &self.endpoint)
            .field("ready_timeout", &self.ready_timeout)
            .finish_non_exhaustive()
    }
}

/// Owns the model server of one provider.
#[derive(Debug, Clone, Copy)]
pub struct ModelServerActor;

/// State of a [`ModelServerActor`]: the channel to its keeper.
#[derive(Debug)]
pub struct ModelServerState {
    spec: Arc<ModelServerSpec>,
    /// Unbounded, and still no longer than there are turns under way: each waits for one answer.
    keeper: Option<UnboundedSender<Answer>>,
}

impl Actor for ModelServerActor {
    type Msg = ModelServerMessage;
    type State = ModelServerState;
    type Arguments = ModelServerSpec;

    async fn pre_start(
        &self,
        _myself: ActorRef<ModelServerMessage>,
        spec: ModelServerSpec,
    ) -> Result<ModelServerState, ActorProcessingErr> {
        Ok(ModelServerState { spec: Arc::new(spec), keeper: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<ModelServerMessage>,
        message: ModelServerMessage,
        state: &mut ModelServerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ModelServerMessage::Ensure { reply } => {
                state.ask_keeper(reply, myself);
                Ok(())
            }
            ModelServerMessage::Ended { why } => Err(why.into()),
        }
    }
}

impl ModelServerState {
    /// Hands the question on to the keeper, or to a new one when there is none or it has finished.
    fn ask_keeper(&mut self, reply: Answer, myself: ActorRef<ModelServerMessage>) {
        let reply = match &self.keeper {
            None => reply,
            Some(keeper) => match keeper.send(reply) {
                Ok(()) => return,
                Err(mpsc::error::SendError(reply)) => reply,
            },
        };
        let (ask, asked) = mpsc::unbounded_channel();
        // The receiver is in hand, so this cannot fail.
        drop(ask.send(reply));
        self.keeper = Some(ask);
        tokio::spawn(Keeper { spec: Arc::clone(&self.spec), actor: myself }.keep(asked));
    }
}

/// The model servers of one runtime, by provider.
#[derive(Debug, Clone, Default)]
pub struct ModelServers(Arc<HashMap<String, Place>>);

#[derive(Debug, Default)]
struct Place {
    actor: Address<ModelServerMessage>,
    /// The port that was told last, if it is not the configured one; else 0.
    port: AtomicU16,
}

impl ModelServers {
    /// An empty address for each provider that has a start command; the supervisor fills them.
    pub fn new(providers: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(providers.into_iter().map(|provider| (provider, Place::default())).collect()))
    }

    /// Where a provider's actor lives; `None` for a provider without a server of ours.
    #[doc(hidden)]
    pub fn address(&self, provider: &str) -> Option<&Address<ModelServerMessage>> {
        self.0.get(provider).map(|place| &place.actor)
    }

    /// Waits until the provider accepts requests: immediately for a provider without a local server, else until its
    /// start has succeeded or failed. The actor is looked up on each call. Cancel-safe: abandoning it stops nothing.
    ///
    /// # Errors
    /// An [`LlmError`] with the reason and advice; [`LlmErrorKind::Gone`] when the actor ended, where a retry helps.
    pub async fn ready(&self, provider: &str) -> Result<(), LlmError> {
        let Some(place) = self.0.get(provider) else { return Ok(()) };
        let gone = || {
            let text = format!("the model server of `{provider}` ended and is being restarted; try again");
            LlmError::new(LlmErrorKind::Gone, text)
        };
        let actor = place.actor.wait_for_actor_within(AWAY_LIMIT).await.ok_or_else(gone)?;
        let (reply, answer) = Reply::channel();
        // A refused message is dropped, and its reply with it: the answer is `None`.
        drop(actor.send_message(ModelServerMessage::Ensure { reply }));
        let port = answer.await.unwrap_or_else(|| Err(gone()))?;
        place.port.store(port.unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// The port where a provider's server was ready last, if another program had its own.
    pub fn port(&self, provider: &str) -> Option<u16> {
        self.0.get(provider).map(|place| place.port.load(Ordering::Relaxed)).filter(|port| *port != 0)
    }
}

impl Readiness for ModelServers {
    fn ready<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>> {
        Box::pin(Self::ready(self, provider))
    }

    fn starts(&self, provider: &str) -> bool {
        self.address(provider).is_some()
    }

    fn port(&self, provider: &str) -> Option<u16> {
        Self::port(self, provider)
    }
}
