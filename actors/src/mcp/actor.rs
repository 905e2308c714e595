//! The actor of one tool server.
//!
//! It publishes its server's tools in the tool registry, and handles [`ToolsMessage`] like the actor of the local
//! tools. While the server starts, questions are held: for its usual start time and two seconds more, or until the
//! startup deadline if it has never been ready. Then they are answered without it. When the server ends, the actor
//! fails with an error that says how; calls in flight were answered before.

use super::arguments::McpServerArguments;
use super::keeper::Keeper;
use super::shared::{Offer, Shared};
use crate::tools::host::Host;
use crate::tools::policy::Rules;
use crate::tools::registry::{Publisher, not_sent};
use bob_messages::mcp::McpMessage;
use bob_messages::options::ServerStart;
use bob_messages::tools::ToolsMessage;
use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Age at which a tool list is refreshed when it is used.
const LIST_IS_OLD: Duration = Duration::from_secs(60);

/// Hosts the tools of one server.
#[derive(Debug, Clone, Copy, Default)]
pub struct McpServerActor;

/// State of the actor.
pub struct McpServerState {
    arguments: Arc<McpServerArguments>,
    host: Host,
    shared: Arc<Shared>,
    phase: Phase,
    /// Oldest first, each with when it is answered at the latest.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not needed so far.
    Asleep,
    /// Its keeper is at it.
    Starting,
    Ready {
        /// When its list was read.
        since: Instant,
    },
    /// It was ready and has ended; new messages are for the successor.
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
        let eager = arguments.spec.start == ServerStart::Eager;
        let progress = arguments.publisher.as_ref().map(Publisher::progress).unwrap_or_default();
        let rules = Arc::new(rules);
        if let Some(publisher) = &arguments.publisher {
            publisher.ruled_by(Arc::clone(&rules));
        }
        let host = Host::empty(rules, &arguments.place.key)?.telling(progress);
        let mut state = McpServerState {
            arguments: Arc::new(arguments),
            host,
            shared: Arc::default(),
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
                let until = Instant::now() + self.arguments.time_limit(&question);
                if self.waiting.iter().all(|(other, _)| *other > until) {
                    tell_at(myself, until);
                }
                self.waiting.push_back((until, question));
            }
        }
    }

    fn wake(&mut self, myself: &ActorRef<McpMessage>) {
        if self.phase == Phase::Asleep {
            self.phase = Phase::Starting;
            if let Some(publisher) = &self.arguments.publisher {
                publisher.starting();
            }
            let (arguments, shared) = (Arc::clone(&self.arguments), Arc::clone(&self.shared));
            tokio::spawn(Keeper::new(arguments, shared, myself.clone()).keep());
        }
    }

    fn refresh(&self) {
        match self.phase {
            Phase::Ready { since } if since.elapsed() >= LIST_IS_OLD => self.shared.look_again.notify_one(),
            Phase::Ready { .. } | Phase::Starting | Phase::Asleep | Phase::Ending => {}
        }
    }

    /// The list was read. Without an offer it is as it was.
    fn offered(&mut self, myself: &ActorRef<McpMessage>) -> Result<(), ActorProcessingErr> {
        self.phase = Phase::Ready { since: Instant::now() };
        self.arguments.place.was_ready.store(true, Ordering::Relaxed);
        if let Some(Offer { port, server, protocol }) = self.shared.take() {
            let port = self.arguments.hooks.around(port);
            let port = match &self.arguments.recorder {
                Some(recorder) => recorder.tools(port),
                None => port,
            };
            // It was read from the server already.
            let tools = port.list_tools().now_or_never().unwrap_or_default();
            self.host.renew(vec![(port, tools)])?;
            if let Some(publisher) = &self.arguments.publisher {
                publisher.speaks(protocol);
                publisher.offer(self.host.offered(), server);
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

    /// Replies to callers of a server that never came back.
    fn ending(&mut self) {
        match self.phase {
            Phase::Ready { .. } => self.phase = Phase::Ending,
            Phase::Asleep | Phase::Starting | Phase::Ending => {}
        }
    }

    /// Replies to held questions after a failed start. Messages that arrived after the end of a ready server are left
    /// to the successor.
    fn leave(&mut self, why: &str, myself: &ActorRef<McpMessage>) {
        if let (Phase::Ending, Some(publisher)) = (self.phase, &self.arguments.publisher) {
            let questions = self.waiting.drain(..).map(|(_until, question)| question).collect();
            publisher.hand_on(questions, myself.get_cell());
        }
        self.waiting.drain(..).for_each(|(_until, question)| not_sent(question, why));
    }

    /// Answers those without the server that have waited long enough.
    fn waited(&mut self, myself: &ActorRef<McpMessage>) {
        let now = Instant::now();
        let (due, waiting): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(until, _)| *until <= now);
        self.waiting = waiting;
        let away = self.arguments.publisher.as_ref().and_then(Publisher::away);
        let why = away.unwrap_or_else(|| {
            format!("its tool server `{}` is not ready yet; try again later", self.arguments.spec.id)
        });
        due.into_iter().for_each(|(_until, question)| not_sent(question, &why));
        if let Some(until) = self.waiting.iter().map(|(until, _)| *until).min() {
            tell_at(myself, until);
        }
    }
}

/// Has the actor look at its waiting questions then. One that has ended has none, and is not held until then: what is left in
/// its mailbox is dropped with it (`address`).
fn tell_at(actor: &ActorRef<McpMessage>, at: Instant) {
    let actor = actor.clone();
    tokio::spawn(async move {
        if timeout_at(at, actor.wait(None)).await.is_err() {
            drop(actor.send_message(McpMessage::Waited));
        }
    });
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
