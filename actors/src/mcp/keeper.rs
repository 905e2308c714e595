//! The life of one tool server.
//!
//! A keeper lives as long as its actor. It starts the server, reads its tools, reads
//! them again when the server says that they changed, notices its end at once, and ends
//! its process when the actor ends, however that came about: it watches the actor
//! instead of relying on anything the actor would still do.

use super::actor::McpServerArguments;
use super::desk::{Death, DeathWatch, Desk, Offer};
use super::port::ServerPort;
use super::rmcp::{Connection, Gone, Handler, Listed, Misfit, Shop};
use super::spec::Transport;
use crate::child::{Child, ChildSpec, ExitWatch, Stdin, Stdout};
use bob_messages::mcp::McpMessage;
use futures_util::FutureExt;
use ractor::ActorRef;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// How long the whole list of tools may take.
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// Between two lists that a server asks for.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// How long is waited for what explains an end: the exit status after the end of the
/// output, the last words after the exit.
const MOMENT: Duration = Duration::from_millis(40);

/// How many lines of a server that lives on are repeated.
const LAST_LINES: usize = 3;

/// Keeps one server.
pub(super) struct Keeper {
    arguments: Arc<McpServerArguments>,
    desk: Arc<Desk>,
    actor: ActorRef<McpMessage>,
    shop: Shop,
}

/// What a keeper holds while its server lives. Dropping it kills the process at once.
#[derive(Default)]
struct Held {
    connection: Option<Connection>,
    death: Option<Death>,
    child: Option<Child>,
    /// There is one process of a server at a time, also across restarts of the actor:
    /// the next keeper waits until this is let go.
    place: Option<OwnedMutexGuard<()>>,
}

/// A server that was just started.
struct Started {
    connection: Connection,
    gone: Gone,
    listed: Listed,
    exit: ExitWatch,
}

impl Keeper {
    pub(super) fn new(arguments: Arc<McpServerArguments>, desk: Arc<Desk>, actor: ActorRef<McpMessage>) -> Self {
        let shop = Shop { server: arguments.spec.id.clone(), offered: arguments.spec.offered.clone() };
        Self { arguments, desk, actor, shop }
    }

    /// Keeps the server until it or the actor ends, and then lets nothing of it behind.
    pub(super) async fn keep(self) {
        let cell = self.actor.get_cell();
        let mut held = Held::default();
        let ended = {
            // Without an end that is told, the actor would wait for a keeper that is gone.
            let served = AssertUnwindSafe(self.serve(&mut held)).catch_unwind();
            tokio::select! { biased;
                _ = cell.wait(None) => None,
                ended = served => Some(ended.unwrap_or_else(|_panic| "is let go of, by a fault of our own".to_owned())),
            }
        };
        if let Some(why) = ended {
            self.report(&mut held, &why).await;
        }
        held.let_go(&self.arguments).await;
    }

    /// Runs the server. Comes back only when that is over, and says how, after its name.
    async fn serve(&self, held: &mut Held) -> String {
        held.place = Some(Arc::clone(&self.arguments.place.taken).lock_owned().await);
        let Started { connection, mut gone, listed, mut exit } = match self.start(held).await {
            Ok(started) => started,
            Err(why) => return why,
        };
        let (death, told) = Death::new();
        held.death = Some(death);
        let connection = held.connection.insert(connection);
        let mut list = None;
        self.offer(connection, &told, &mut list, listed);
        let mut relisted = pin!(self.list_again(connection, Instant::now() + LIST_EVERY));
        loop {
            tokio::select! { biased;
                exit = exit.exited() => return exit.to_string(),
                () = &mut gone => return ended_or(&mut exit, "closed its output").await,
                () = self.desk.broken.notified() => return ended_or(&mut exit, "closed its input").await,
                listed = &mut relisted => {
                    match listed {
                        Ok(listed) => self.offer(connection, &told, &mut list, listed),
                        Err(Misfit { why, .. }) => {
                            tracing::warn!(target: "bob::mcp", server = %self.shop.server, why, "a list of tools stays as it was");
                        }
                    }
                    relisted.set(self.list_again(connection, Instant::now() + LIST_EVERY));
                }
            }
        }
    }

    async fn start(&self, held: &mut Held) -> Result<Started, String> {
        let spec = &self.arguments.spec;
        let deadline = Instant::now() + spec.startup_timeout();
        let Transport::Stdio(command) = &spec.transport;
        let command = ChildSpec { stdin: Stdin::Piped, stdout: Stdout::Piped, ..command.clone() };
        let child =
            Child::spawn(command, &self.arguments.watcher).map_err(|error| format!("does not start: {error}"))?;
        let child = held.child.insert(child);
        if let Some(shelf) = &self.arguments.shelf {
            shelf.runs(Some(child.id()));
        }
        let mut exit = child.exit_watch();
        let (Some(stdout), Some(stdin)) = (child.take_stdout(), child.take_stdin()) else {
            return Err("does not start: it has no pipes".to_owned());
        };
        let handler = Handler::new(
            spec.id.clone(),
            Arc::clone(&spec.roots),
            self.arguments.elicit.clone(),
            Arc::clone(&self.desk.look_again),
        );
        let ready = async {
            let (connection, gone) = Connection::open(stdout, stdin, handler).await?;
            let listed = self.list(&connection).await?;
            Ok::<_, Misfit>((connection, gone, listed))
        };
        let ready = tokio::select! { biased;
            exit = exit.exited() => return Err(format!("{exit} before it was ready")),
            ready = timeout_at(deadline, Box::pin(ready)) => ready,
        };
        match ready {
            Ok(Ok((connection, gone, listed))) => Ok(Started { connection, gone, listed, exit }),
            Ok(Err(Misfit { why, closed: true })) => Err(ended_or(&mut exit, &why).await),
            Ok(Err(Misfit { why, closed: false })) => Err(why),
            Err(_too_late) => {
                let limit_ms = spec.startup_timeout_ms;
                Err(format!("was not ready within {limit_ms} ms; see what it waits for, or raise startup_timeout_ms"))
            }
        }
    }

    async fn list(&self, connection: &Connection) -> Result<Listed, Misfit> {
        match timeout(LIST_WITHIN, connection.list(&self.shop)).await {
            Ok(listed) => listed,
            Err(_too_late) => {
                let why = format!("did not list its tools within {} ms", LIST_WITHIN.as_millis());
                Err(Misfit { why, closed: false })
            }
        }
    }

    /// Waits until somebody wants the list read again, and then until it may be.
    async fn list_again(&self, connection: &Connection, not_before: Instant) -> Result<Listed, Misfit> {
        self.desk.look_again.notified().await;
        sleep_until(not_before).await;
        self.list(connection).await
    }

    /// Takes the list that was just read in place of the one before.
    fn offer(&self, connection: &Connection, told: &DeathWatch, before: &mut Option<Listed>, listed: Listed) {
        let Listed { tools, left_out } = &listed;
        if !left_out.is_empty() && before.as_ref().is_none_or(|before| before.left_out != *left_out) {
            tracing::warn!(target: "bob::mcp", server = %self.shop.server, left_out, "not every tool of a server is offered");
        }
        if before.as_ref().is_none_or(|before| before.tools != *tools) {
            let port = ServerPort {
                server: self.shop.server.clone(),
                caller: connection.caller(),
                tools: tools.clone(),
                death: told.clone(),
                broken: Arc::clone(&self.desk.broken),
            };
            self.desk.lay(Offer { port: Arc::new(port), server: connection.server() });
        }
        *before = Some(listed);
        self.tell(McpMessage::Offered);
    }

    /// Tells the calls in flight, then the actor, which ends by it.
    async fn report(&self, held: &mut Held, why: &str) {
        if let Some(death) = &held.death {
            death.tell(why);
        }
        let said = match &mut held.child {
            Some(child) if child.exit_watch().now().is_some() => timeout(MOMENT, child.last_words())
                .await
                .unwrap_or_else(|_they_linger| child.said().last_lines(LAST_LINES)),
            Some(child) => child.said().last_lines(LAST_LINES),
            None => String::new(),
        };
        let quoted = if said.is_empty() { said } else { format!(", its last words: {said}") };
        self.tell(McpMessage::Ended { why: format!("the tool server `{}` {why}{quoted}", self.shop.server) });
    }

    /// An actor that has ended needs no telling.
    fn tell(&self, message: McpMessage) {
        drop(self.actor.send_message(message));
    }
}

impl Held {
    /// Ends what is left of the server, politely first.
    async fn let_go(mut self, arguments: &McpServerArguments) {
        drop((self.death.take(), self.connection.take()));
        if let Some(mut child) = self.child.take() {
            let exit = child.stop(arguments.ladder).await;
            if let Some(shelf) = &arguments.shelf {
                shelf.ended(exit.to_string());
            }
        }
    }
}

/// How the server ended, if it does within a moment; else what was seen of it.
async fn ended_or(exit: &mut ExitWatch, seen: &str) -> String {
    match timeout(MOMENT, exit.exited()).await {
        Ok(exit) => exit.to_string(),
        Err(_it_lives) => seen.to_owned(),
    }
}
