//! The lifecycle of one tool server.
//!
//! A keeper lives as long as its actor. It starts the server, reads its tools, reads them again after a change
//! notification, detects its end, and ends its process when the actor ends for any reason: it watches the actor and
//! does not rely on its cooperation.

use super::arguments::McpServerArguments;
use super::connection_end::{ConnectionEnd, EndReceiver, EndSender, HealthSignals};
use super::port::ServerPort;
use super::rmcp::{Connection, Gone, Listed, Misfit, ToolFilter};
use super::shared::{Offer, Shared};
use crate::child::{Child, ExitWatch};
use crate::time_budget::TimeBudget;
use bob_messages::mcp::McpMessage;
use bob_messages::options::ServerTransport;
use futures_util::FutureExt;
use ractor::ActorRef;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until, timeout};

/// How long the whole list of tools may take.
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// Between two lists that a server asks for.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// How long to wait for the explanation of an end: the exit status after the end of the output, or the last output
/// after the exit.
const MOMENT: Duration = Duration::from_millis(40);

/// Timeout of a ping to a server that may be gone.
const PING_WITHIN: Duration = Duration::from_secs(5);

/// A session that is lost sooner was a short one.
const SHORT_SESSION: Duration = Duration::from_secs(10);

/// How many short sessions in a row are made anew; then the server is given up.
const SHORT_SESSIONS: u32 = 3;

/// How many lines of a server that lives on are repeated.
const LAST_LINES: usize = 3;

pub(super) struct Keeper {
    pub(super) arguments: Arc<McpServerArguments>,
    pub(super) shared: Arc<Shared>,
    actor: ActorRef<McpMessage>,
    filter: ToolFilter,
}

/// State of a keeper while its server runs. Dropping it kills the process.
#[derive(Default)]
pub(super) struct Held {
    pub(super) connection: Option<Connection>,
    end: Option<EndSender<ServerPort>>,
    pub(super) child: Option<Child>,
    /// There is one process of a server at a time, also across restarts of the actor:
    /// the next keeper waits until this is let go.
    place: Option<OwnedMutexGuard<()>>,
}

/// A server that was just started, or a session that was just begun.
pub(super) struct Started {
    pub(super) connection: Connection,
    pub(super) gone: Gone,
    pub(super) listed: Listed,
    pub(super) signs: HealthSignals,
    pub(super) exit: Option<ExitWatch>,
}

struct Line<'a> {
    connection: &'a Connection,
    told: EndReceiver<ServerPort>,
    signs: HealthSignals,
    list: Option<Listed>,
}

enum End {
    /// The server ended; the text follows its name.
    Gone(String),
    /// The server no longer knows the session.
    SessionLost,
}

impl Keeper {
    pub(super) fn new(arguments: Arc<McpServerArguments>, shared: Arc<Shared>, actor: ActorRef<McpMessage>) -> Self {
        let filter = ToolFilter { server: arguments.spec.id.clone(), offered: arguments.spec.tools.clone() };
        Self { arguments, shared, actor, filter }
    }

    /// Keeps the server until it or the actor ends, and then cleans up.
    pub(super) async fn keep(self) {
        let cell = self.actor.get_cell();
        let mut held = Held::default();
        let ended = {
            // Without a report of the end, the actor would wait for a keeper that has ended.
            let served = AssertUnwindSafe(self.serve(&mut held)).catch_unwind();
            tokio::select! { biased;
                _ = cell.wait(None) => None,
                ended = served => Some(ended.unwrap_or_else(|_panic| "was abandoned because of an internal error".to_owned())),
            }
        };
        if let Some(why) = ended {
            self.report(&mut held, &why).await;
        }
        held.let_go(&self.arguments).await;
    }

    /// Runs the server until it ends, and returns how; the text follows its name.
    async fn serve(&self, held: &mut Held) -> String {
        held.place = Some(Arc::clone(&self.arguments.place.taken).lock_owned().await);
        let mut short_sessions = 0;
        loop {
            let set_out = Instant::now();
            let Started { connection, gone, listed, signs, exit } = match self.start(held).await {
                Ok(started) => started,
                Err(why) => return why,
            };
            if let Some(publisher) = &self.arguments.publisher {
                publisher.started_within(set_out.elapsed());
            }
            let began = Instant::now();
            let (end, told) = EndSender::new();
            let mut line = Line { connection: &connection, told, signs, list: None };
            let port = self.offer(&mut line, listed);
            // Calls continue over the new connection before they see the end of the old one.
            if let (Some(before), Some(port)) = (held.end.replace(end), port) {
                before.tell(ConnectionEnd::Reconnected(port));
            }
            let Line { told, signs, list, .. } = line;
            let connection = held.connection.insert(connection);
            match self.attend(Line { connection, told, signs, list }, gone, exit).await {
                End::Gone(why) => return why,
                End::SessionLost => {}
            }
            short_sessions = if began.elapsed() < SHORT_SESSION { short_sessions + 1 } else { 0 };
            if short_sessions > SHORT_SESSIONS {
                return "loses every session soon after it began".to_owned();
            }
            self.tell(McpMessage::Lost { why: "it no longer knows the session".to_owned() });
        }
    }

    /// Serves the requests of a connection until it ends.
    async fn attend(&self, mut line: Line<'_>, mut gone: Gone, mut exit: Option<ExitWatch>) -> End {
        let connection = line.connection;
        let signs = line.signs.clone();
        let mut examined = pin!(self.examine(connection, &signs));
        let mut relisted = pin!(self.list_again(connection, Instant::now() + LIST_EVERY));
        let mut watched = pin!(connection.watch(&self.shared.look_again));
        loop {
            tokio::select! { biased;
                exit = exited(&mut exit) => return End::Gone(exit),
                () = &mut gone => return End::Gone(ended_or(&mut exit, "closed its output").await),
                () = signs.lost.notified() => return End::SessionLost,
                end = &mut examined => return match end {
                    End::Gone(why) => End::Gone(ended_or(&mut exit, &why).await),
                    End::SessionLost => End::SessionLost,
                },
                never = &mut watched => match never {},
                listed = &mut relisted => {
                    match listed {
                        Ok(listed) => drop(self.offer(&mut line, listed)),
                        Err(Misfit { why, closed, .. }) => {
                            let why = self.arguments.secrets().hidden_in(&why);
                            tracing::warn!(target: "bob::mcp", server = %self.filter.server, why, "a list of tools stays as it was");
                            if closed {
                                signs.suspect.notify_one();
                            }
                        }
                    }
                    relisted.set(self.list_again(connection, Instant::now() + LIST_EVERY));
                }
            }
        }
    }

    /// Checks the server when signalled. Returns when it is gone.
    async fn examine(&self, connection: &Connection, signs: &HealthSignals) -> End {
        let within = PING_WITHIN.min(self.arguments.spec.startup_timeout());
        loop {
            signs.suspect.notified().await;
            match &self.arguments.spec.transport {
                ServerTransport::Stdio(_) => return End::Gone("closed its input".to_owned()),
                ServerTransport::Http(_) => match TimeBudget::of(within).within(connection.ping()).await {
                    Some(Ok(())) => {}
                    Some(Err(Misfit { lost: true, .. })) => return End::SessionLost,
                    Some(Err(Misfit { why, .. })) => return End::Gone(why),
                    None => {
                        return End::Gone(format!("gave no sign of life within {} ms", within.as_millis()));
                    }
                },
            }
        }
    }

    pub(super) async fn list(&self, connection: &Connection) -> Result<Listed, Misfit> {
        let listed = TimeBudget::of(LIST_WITHIN).within(connection.list(&self.filter)).await;
        let too_late = || Misfit::new(format!("did not list its tools within {} ms", LIST_WITHIN.as_millis()));
        listed.unwrap_or_else(|| Err(too_late()))
    }

    /// Waits until a refresh of the list is requested, and until it is permitted.
    async fn list_again(&self, connection: &Connection, not_before: Instant) -> Result<Listed, Misfit> {
        self.shared.look_again.notified().await;
        sleep_until(not_before).await;
        self.list(connection).await
    }

    /// Takes the list that was just read in place of the one before. The way to the
    /// tools is a new one when something about them changed.
    fn offer(&self, line: &mut Line<'_>, listed: Listed) -> Option<Arc<ServerPort>> {
        let (Listed { tools, left_out }, before) = (&listed, &line.list);
        if !left_out.is_empty() && before.as_ref().is_none_or(|before| before.left_out != *left_out) {
            tracing::warn!(target: "bob::mcp", server = %self.filter.server, left_out, "not every tool of a server is offered");
        }
        let is_new = before.as_ref().is_none_or(|before| before.tools != *tools);
        let port = is_new.then(|| {
            Arc::new(ServerPort {
                server: self.filter.server.clone(),
                caller: line.connection.caller(),
                tools: tools.clone(),
                end: line.told.clone(),
                signs: line.signs.clone(),
                is_far: matches!(self.arguments.spec.transport, ServerTransport::Http(_)),
            })
        });
        if let Some(port) = &port {
            let (server, protocol) = (line.connection.server(), line.connection.protocol());
            self.shared.lay(Offer { port: Arc::clone(port), server, protocol });
        }
        line.list = Some(listed);
        self.tell(McpMessage::Offered);
        port
    }

    /// Reports the end to the calls in flight, then to the actor, which fails with it.
    async fn report(&self, held: &mut Held, why: &str) {
        // First, so that later messages are left to the successor.
        self.tell(McpMessage::Ending);
        let secrets = self.arguments.secrets();
        let why = secrets.hidden_in(why);
        if let Some(end) = &held.end {
            end.tell(ConnectionEnd::Died(why.as_str().into()));
        }
        let said = match &mut held.child {
            Some(child) if child.exit_watch().now().is_some() => timeout(MOMENT, child.last_output())
                .await
                .unwrap_or_else(|_they_linger| child.said().last_lines(LAST_LINES)),
            Some(child) => child.said().last_lines(LAST_LINES),
            None => String::new(),
        };
        let said = secrets.hidden_in(&said);
        let quoted = if said.is_empty() { said } else { format!(", last output: {said}") };
        self.tell(McpMessage::Ended { why: format!("the tool server `{}` {why}{quoted}", self.filter.server) });
    }

    /// An actor that has ended needs no telling.
    fn tell(&self, message: McpMessage) {
        drop(self.actor.send_message(message));
    }
}

impl Held {
    /// Ends the server, with increasing force.
    async fn let_go(mut self, arguments: &McpServerArguments) {
        drop(self.end.take());
        let connection = self.connection.take();
        match (connection, self.child.is_some()) {
            (Some(connection), false) => connection.close().await,
            (Some(connection), true) => connection.gave_up().await,
            (None, _) => {}
        }
        self.end_process(arguments).await;
    }

    pub(super) async fn end_process(&mut self, arguments: &McpServerArguments) {
        let Some(mut child) = self.child.take() else { return };
        let exit = child.stop(arguments.ladder).await;
        if let Some(publisher) = &arguments.publisher {
            publisher.ended(exit.to_string());
        }
    }
}

pub(super) async fn exited(exit: &mut Option<ExitWatch>) -> String {
    match exit {
        Some(exit) => exit.exited().await.to_string(),
        None => std::future::pending().await,
    }
}

/// How the server ended, if it does within a moment; else what was seen of it.
pub(super) async fn ended_or(exit: &mut Option<ExitWatch>, seen: &str) -> String {
    if exit.is_none() {
        return seen.to_owned();
    }
    timeout(MOMENT, exited(exit)).await.unwrap_or_else(|_it_lives| seen.to_owned())
}
