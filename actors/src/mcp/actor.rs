//! The actor of one tool server.
//!
//! It publishes what its server offers on its shelf of the tool plane, and answers the
//! same questions as the actor of this process's own tools ([`ToolsMessage`]). While the server starts,
//! questions are held: two seconds at most, and until the startup deadline when the
//! server has never been ready. Then they are answered without it. When the server
//! ends, so does the actor, with an error that says how; calls in flight were answered
//! before.

use super::desk::{Desk, Offer};
use super::elicit::Elicit;
use super::keeper::Keeper;
use super::spec::{ServerSpec, Start};
use crate::child::{Ladder, Watcher};
use crate::tape::Recorder;
use crate::tools::grant::RoomKey;
use crate::tools::host::Host;
use crate::tools::plane::Shelf;
use crate::tools::policy::Rules;
use crate::tools::{Policy, ToolPort};
use bob_messages::chat::CallStatus;
use bob_messages::mcp::McpMessage;
use bob_messages::tools::{ToolReturn, ToolsMessage, Verdict};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// How long a question waits for a server that is started again.
const AWAY_LIMIT: Duration = Duration::from_secs(2);

/// A list of tools this old is read again when somebody uses it.
const LIST_IS_OLD: Duration = Duration::from_secs(60);

/// Hosts the tools of one server.
#[derive(Debug, Clone, Copy, Default)]
pub struct McpServerActor;

/// What the actor is started with. A supervisor makes one per server and hands clones
/// of the same one to each successor, so that two processes of one server never
/// overlap.
#[derive(Clone)]
pub struct McpServerArguments {
    /// The server.
    pub spec: ServerSpec,
    /// The rules over its tools.
    pub policy: Policy,
    /// Ends its process when this program cannot.
    pub watcher: Watcher,
    /// How its process is stopped.
    pub ladder: Ladder,
    /// Who answers what it asks a person; without one, every question is declined.
    pub elicit: Option<Arc<dyn Elicit>>,
    /// Where its tools are published.
    pub shelf: Option<Shelf>,
    /// What writes its calls down, if anything does.
    pub recorder: Option<Recorder>,
    pub(super) place: Arc<Place>,
}

/// What the successors of one server's actor share.
#[derive(Default)]
pub(super) struct Place {
    /// Held by the keeper whose server lives.
    pub(super) taken: Arc<tokio::sync::Mutex<()>>,
    was_ready: AtomicBool,
    /// What seals their grants: a call that was allowed before a restart may run after it.
    key: OnceLock<RoomKey>,
}

impl McpServerArguments {
    /// A server under a policy, without anybody to answer what it asks.
    pub fn new(spec: ServerSpec, policy: Policy, watcher: Watcher) -> Self {
        let (elicit, shelf, recorder) = (None, None, None);
        Self { spec, policy, watcher, ladder: Ladder::default(), elicit, shelf, recorder, place: Arc::default() }
    }

    /// The same in the place of another server, whose process ends before this one's
    /// starts.
    #[must_use]
    pub fn in_place_of(self, before: &Self) -> Self {
        let place = Place { taken: Arc::clone(&before.place.taken), ..Place::default() };
        Self { place: Arc::new(place), ..self }
    }

    /// Whether nothing of this server is left for which one in its place would wait.
    pub fn is_vacant(&self) -> bool {
        self.place.taken.try_lock().is_ok()
    }

    fn patience(&self) -> Duration {
        match self.place.was_ready.load(Ordering::Relaxed) {
            true => AWAY_LIMIT,
            false => self.spec.startup_timeout(),
        }
    }
}

impl fmt::Debug for McpServerArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerArguments")
            .field("spec", &self.spec)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// What the actor keeps.
pub struct McpServerState {
    arguments: Arc<McpServerArguments>,
    host: Host,
    desk: Arc<Desk>,
    phase: Phase,
    /// Oldest first; all have the same patience.
    waiting: VecDeque<(Instant, ToolsMessage)>,
}

impl fmt::Debug for McpServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerState")
            .field("server", &self.arguments.spec.id)
            .field("phase", &self.phase)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

/// How far the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has asked for it.
    Asleep,
    /// Its keeper is at it.
    Starting,
    /// Its tools can be called.
    Ready {
        /// When its list was read.
        since: Instant,
    },
    /// It was ready and has ended; what comes now is for the successor.
    Ending,
}

impl Actor for McpServerActor {
    type Msg = McpMessage;
    type State = McpServerState;
    type Arguments = McpServerArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<McpMessage>,
        arguments: McpServerArguments,
    ) -> Result<McpServerState, ActorProcessingErr> {
        let rules = Rules::new(arguments.policy.clone())?.with_timeout_ms(arguments.spec.tool_timeout_ms);
        let eager = arguments.spec.start == Start::Eager;
        let progress = arguments.shelf.as_ref().map(Shelf::progress).unwrap_or_default();
        let host = Host::empty(rules, &arguments.place.key)?.telling(progress);
        let mut state = McpServerState {
            arguments: Arc::new(arguments),
            host,
            desk: Arc::default(),
            phase: Phase::Asleep,
            waiting: VecDeque::new(),
        };
        if eager {
            state.wake(&myself);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<McpMessage>,
        message: McpMessage,
        state: &mut McpServerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            McpMessage::Tools(question) => state.attend(question, &myself),
            McpMessage::Wake => state.wake(&myself),
            McpMessage::Refresh => state.refresh(),
            McpMessage::Offered => {
                state.offered(&myself)?;
            }
            McpMessage::Lost { why } => state.lost(&why),
            McpMessage::Ending => state.ending(),
            McpMessage::Ended { why } => {
                state.leave(&why, &myself);
                return Err(why.into());
            }
            McpMessage::Waited => state.waited(&myself),
        }
        Ok(())
    }
}

impl McpServerState {
    fn attend(&mut self, question: ToolsMessage, myself: &ActorRef<McpMessage>) {
        match self.phase {
            Phase::Ready { .. } => {
                self.refresh();
                self.host.attend(question, &myself.get_cell());
            }
            Phase::Asleep | Phase::Starting | Phase::Ending => {
                self.wake(myself);
                let until = Instant::now() + self.arguments.patience();
                if self.waiting.is_empty() {
                    tell_at(myself, until);
                }
                self.waiting.push_back((until, question));
            }
        }
    }

    fn wake(&mut self, myself: &ActorRef<McpMessage>) {
        if self.phase == Phase::Asleep {
            self.phase = Phase::Starting;
            if let Some(shelf) = &self.arguments.shelf {
                shelf.starting();
            }
            let (arguments, desk) = (Arc::clone(&self.arguments), Arc::clone(&self.desk));
            tokio::spawn(Keeper::new(arguments, desk, myself.clone()).keep());
        }
    }

    fn refresh(&self) {
        match self.phase {
            Phase::Ready { since } if since.elapsed() >= LIST_IS_OLD => self.desk.look_again.notify_one(),
            Phase::Ready { .. } | Phase::Starting | Phase::Asleep | Phase::Ending => {}
        }
    }

    /// The list was read. Without an offer on the desk it is as it was.
    fn offered(&mut self, myself: &ActorRef<McpMessage>) -> Result<(), ActorProcessingErr> {
        self.phase = Phase::Ready { since: Instant::now() };
        self.arguments.place.was_ready.store(true, Ordering::Relaxed);
        if let Some(Offer { port, server }) = self.desk.take() {
            let port: Arc<dyn ToolPort> = port;
            let port = match &self.arguments.recorder {
                Some(recorder) => recorder.tools(port),
                None => port,
            };
            self.host.renew(vec![port])?;
            if let Some(shelf) = &self.arguments.shelf {
                shelf.offer(self.host.offered(), server);
            }
        }
        for (_until, question) in std::mem::take(&mut self.waiting) {
            self.host.attend(question, &myself.get_cell());
        }
        Ok(())
    }

    fn lost(&mut self, why: &str) {
        tracing::warn!(target: "bob::mcp", server = %self.arguments.spec.id, why, "the connection to a tool server is made anew");
        self.phase = Phase::Starting;
    }

    /// Whoever waits for a server that never came back hears why it did not.
    fn ending(&mut self) {
        match self.phase {
            Phase::Ready { .. } => self.phase = Phase::Ending,
            Phase::Asleep | Phase::Starting | Phase::Ending => {}
        }
    }

    /// Answers what waits for a server that did not start. What came behind the end of one
    /// that was ready goes to the successor.
    fn leave(&mut self, why: &str, myself: &ActorRef<McpMessage>) {
        if let (Phase::Ending, Some(shelf)) = (self.phase, &self.arguments.shelf) {
            let questions = self.waiting.drain(..).map(|(_until, question)| question).collect();
            shelf.hand_on(questions, myself.get_cell());
        }
        self.turn_away(why, self.waiting.len());
    }

    fn waited(&mut self, myself: &ActorRef<McpMessage>) {
        let now = Instant::now();
        let due = self.waiting.iter().take_while(|(until, _)| *until <= now).count();
        self.turn_away(&format!("the tool server `{}` is not ready yet; try again later", self.arguments.spec.id), due);
        if let Some((until, _)) = self.waiting.front() {
            tell_at(myself, *until);
        }
    }

    /// Answers the oldest questions without the server.
    fn turn_away(&mut self, why: &str, how_many: usize) {
        for (_until, question) in self.waiting.drain(..how_many) {
            match question {
                ToolsMessage::Check { reply, .. } => {
                    reply.send(Verdict::Invalid { complaint: format!("not run: {why}") });
                }
                ToolsMessage::Call { reply, .. } => {
                    reply.send(ToolReturn::note(CallStatus::Error, format!("not run: {why}")));
                }
            }
        }
    }
}

/// Has the actor look at its waiting questions then. An actor that has ended by then
/// has none.
fn tell_at(actor: &ActorRef<McpMessage>, at: Instant) {
    actor.send_after(at.saturating_duration_since(Instant::now()), || McpMessage::Waited);
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
