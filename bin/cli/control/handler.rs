//! Questions answered: each is one call of the facade.
//!
//! A snapshot of the tree is taken at most four times a second; further requests get the last one.

use std::time::Duration;

use bob::tools::servers::ServerId;
use bob::{AgentRuntime, Runtime, SessionId};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::wire::{Hello, Look, MOST_RECORDS, Request, RequestLine, Response, VERSION};
use super::{figures, journal};
use crate::exit::{Exit, Failure};
use crate::runtime::origin::Origin;
use crate::terminal::print;

/// How long a snapshot is reused.
const SAME_FOR: Duration = Duration::from_millis(250);

/// Answers requests for this process.
pub(super) struct Handler {
    runtime: Runtime,
    hello: Hello,
    /// The front end's actions, if it has any.
    front: Option<FrontEnd>,
    seen: Mutex<Option<(Instant, Box<Look>)>>,
}

/// The front end's part of the control protocol.
pub(super) struct FrontEnd {
    /// Where its configuration is read again.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only tool servers are read again"))]
    pub(super) origin: Origin,
    /// Set when the front end shall start no new turn.
    pub(super) drain: watch::Sender<bool>,
}

impl Handler {
    pub(super) fn new(runtime: Runtime, hello: Hello, front: Option<FrontEnd>) -> Self {
        Self { runtime, hello, front, seen: Mutex::new(None) }
    }

    pub(super) fn hello(&self) -> &Hello {
        &self.hello
    }

    pub(super) async fn answer(&self, line: &str) -> String {
        let ask: RequestLine = match serde_json::from_str(line) {
            Ok(ask) => ask,
            Err(error) => return self.unread(line, &error).line(id_of(line)),
        };
        if ask.v != VERSION {
            return refused_version(ask.v).line(ask.id);
        }
        let said = match ask.ask {
            Request::Look => Response::Look(self.look().await),
            Request::Cancel { session } => self.cancel(&session).await,
            Request::Drain => self.drain().await,
            Request::RestartServer { server } => self.restart(server).await,
            Request::ReloadServers => self.reload().await.unwrap_or_else(refused),
            Request::Records { session, most } => self.records(&session, most).await.unwrap_or_else(refused),
        };
        said.line(ask.id)
    }

    /// Why a line is no question: another version may have another form.
    fn unread(&self, line: &str, error: &serde_json::Error) -> Response {
        let version = serde_json::from_str::<serde_json::Value>(line).ok().and_then(|line| line.get("v")?.as_u64());
        match version.and_then(|version| u32::try_from(version).ok()) {
            Some(version) if version != VERSION => refused_version(version),
            _ => Response::refused("invalid", format!("invalid request: {error}")),
        }
    }

    async fn look(&self) -> Box<Look> {
        let mut seen = self.seen.lock().await;
        if let Some((_, look)) = seen.as_ref().filter(|(at, _)| at.elapsed() < SAME_FOR) {
            return look.clone();
        }
        let (tree, metrics, process) =
            tokio::join!(self.runtime.tree(), self.runtime.metrics(), tokio::task::spawn_blocking(figures::own));
        let is_draining = self.front.as_ref().is_some_and(|front| *front.drain.borrow());
        let look = Box::new(Look { tree, metrics, process: process.unwrap_or_default(), is_draining });
        *seen = Some((Instant::now(), look.clone()));
        look
    }

    async fn cancel(&self, session: &str) -> Response {
        match SessionId::parse(session) {
            Ok(session) => Response::Cancelled { was_running: self.runtime.cancel(session).await },
            Err(error) => Response::refused("invalid", error.to_string()),
        }
    }

    async fn drain(&self) -> Response {
        let Some(front) = &self.front else { return self.has_no_front() };
        front.drain.send_replace(true);
        let load = self.runtime.metrics().await.sessions;
        Response::Draining { running: load.running, waiting: load.waiting }
    }

    fn has_no_front(&self) -> Response {
        let command = &self.hello.command;
        Response::refused("not_allowed", format!("a {command} is neither drained nor reloaded; it ends with Ctrl-C"))
    }

    async fn restart(&self, server: String) -> Response {
        let server = ServerId::new(server);
        if self.runtime.restart_server(server.clone()).await {
            return Response::Restarted;
        }
        let known: Vec<String> = self.runtime.servers().iter().map(|server| server.node().to_owned()).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
        Response::refused(
            "not_found",
            format!("there is no tool server {}; {known}", print::first_line(server.as_str(), 64)),
        )
    }

    #[cfg(feature = "mcp")]
    async fn reload(&self) -> Result<Response, Failure> {
        let Some(front) = &self.front else { return Ok(self.has_no_front()) };
        let origin = front.origin.clone();
        let read = tokio::task::spawn_blocking(move || {
            let config = origin.read_quietly()?;
            Ok::<_, Failure>(bob_config::assemble::tool_servers(&config)?)
        });
        let specs = read.await.map_err(|error| Failure::internal(error.to_string()))??;
        let bob::tools::servers::Reloaded { started, changed, stopped, kept, .. } =
            self.runtime.reload_servers(specs)?;
        let names = |ids: Vec<ServerId>| ids.iter().map(ServerId::to_string).collect();
        Ok(Response::Reloaded {
            started: names(started),
            changed: names(changed),
            stopped: names(stopped),
            kept: names(kept),
        })
    }

    #[cfg(not(feature = "mcp"))]
    async fn reload(&self) -> Result<Response, Failure> {
        Err(Failure::usage("this program was built without the cargo feature `mcp`"))
    }

    async fn records(&self, session: &str, most: usize) -> Result<Response, Failure> {
        let session = SessionId::parse(session)?;
        let records = self.runtime.last_records(session.clone(), most.clamp(1, MOST_RECORDS)).await?;
        if records.is_empty() {
            return Ok(Response::refused("not_found", format!("there is no session {session}")));
        }
        let first = records.len().saturating_sub(most);
        Ok(Response::Records { records: records[first..].iter().map(|record| journal::entry(record)).collect() })
    }
}

fn refused(failure: Failure) -> Response {
    let kind = if failure.exit == Exit::Usage { "invalid" } else { "failed" };
    Response::refused(kind, failure.message)
}

fn refused_version(theirs: u32) -> Response {
    let message =
        format!("protocol version {theirs} is not supported, only {VERSION}; use the program version of this process");
    Response::refused("version", message)
}

/// The number of a question that was not understood, if it has one.
fn id_of(line: &str) -> u64 {
    let line = serde_json::from_str::<serde_json::Value>(line).ok();
    line.and_then(|line| line.get("id")?.as_u64()).unwrap_or(0)
}
