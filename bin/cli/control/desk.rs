//! Questions answered: each is one call of the facade.
//!
//! However many look, the tree is asked at most four times a second: whoever asks in between sees what the one before
//! saw.

use std::time::Duration;

use bob::{AgentRuntime, Runtime, ServerId, SessionId};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::wire::{Ask, Hello, Look, MOST_RECORDS, Question, Said, VERSION};
use super::{figures, journal};
use crate::exit::{Exit, Failure};
use crate::runtime::origin::Origin;
use crate::terminal::print;

/// For how long what was seen is what is seen.
const SAME_FOR: Duration = Duration::from_millis(250);

/// Who answers for this process.
pub(super) struct Desk {
    runtime: Runtime,
    hello: Hello,
    /// What a front end does when it is asked; without it there is none that would.
    front: Option<Front>,
    seen: Mutex<Option<(Instant, Box<Look>)>>,
}

/// What the front end of this process takes part in.
pub(super) struct Front {
    /// Where its configuration is read again.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only tool servers are read again"))]
    pub(super) origin: Origin,
    /// Told that it is to begin no new turn.
    pub(super) drain: watch::Sender<bool>,
}

impl Desk {
    pub(super) fn new(runtime: Runtime, hello: Hello, front: Option<Front>) -> Self {
        Self { runtime, hello, front, seen: Mutex::new(None) }
    }

    pub(super) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The answer to a line, as a line.
    pub(super) async fn answer(&self, line: &str) -> String {
        let ask: Ask = match serde_json::from_str(line) {
            Ok(ask) => ask,
            Err(error) => return self.unread(line, &error).line(id_of(line)),
        };
        if ask.v != VERSION {
            return refused_version(ask.v).line(ask.id);
        }
        let said = match ask.ask {
            Question::Look => Said::Look(self.look().await),
            Question::Cancel { session } => self.cancel(&session).await,
            Question::Drain => self.drain().await,
            Question::RestartServer { server } => self.restart(server).await,
            Question::ReloadServers => self.reload().await.unwrap_or_else(refused),
            Question::Records { session, most } => self.records(&session, most).await.unwrap_or_else(refused),
        };
        said.line(ask.id)
    }

    /// Why a line is no question: another version may have another form.
    fn unread(&self, line: &str, error: &serde_json::Error) -> Said {
        let version = serde_json::from_str::<serde_json::Value>(line).ok().and_then(|line| line.get("v")?.as_u64());
        match version.and_then(|version| u32::try_from(version).ok()) {
            Some(version) if version != VERSION => refused_version(version),
            _ => Said::refused("invalid", format!("the line is no question: {error}")),
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

    async fn cancel(&self, session: &str) -> Said {
        match SessionId::parse(session) {
            Ok(session) => Said::Cancelled { was_running: self.runtime.cancel(session).await },
            Err(error) => Said::refused("invalid", error.to_string()),
        }
    }

    async fn drain(&self) -> Said {
        let Some(front) = &self.front else { return self.has_no_front() };
        front.drain.send_replace(true);
        let load = self.runtime.metrics().await.sessions;
        Said::Draining { running: load.running, waiting: load.waiting }
    }

    fn has_no_front(&self) -> Said {
        let command = &self.hello.command;
        Said::refused("not_allowed", format!("a {command} is neither drained nor reloaded; it ends with Ctrl-C"))
    }

    async fn restart(&self, server: String) -> Said {
        let server = ServerId::new(server);
        if self.runtime.restart_server(server.clone()).await {
            return Said::Restarted;
        }
        let known: Vec<String> = self.runtime.servers().iter().map(|server| server.id.to_string()).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
        Said::refused(
            "not_found",
            format!("there is no tool server {}; {known}", print::first_line(server.as_str(), 64)),
        )
    }

    #[cfg(feature = "mcp")]
    async fn reload(&self) -> Result<Said, Failure> {
        let Some(front) = &self.front else { return Ok(self.has_no_front()) };
        let origin = front.origin.clone();
        let read = tokio::task::spawn_blocking(move || {
            let config = origin.read_quietly()?;
            Ok::<_, Failure>(bob_config::assemble::tool_servers(&config)?)
        });
        let specs = read.await.map_err(|error| Failure::internal(error.to_string()))??;
        let bob::Reloaded { started, changed, stopped, kept } = self.runtime.reload_servers(specs)?;
        let names = |ids: Vec<ServerId>| ids.iter().map(ServerId::to_string).collect();
        Ok(Said::Reloaded {
            started: names(started),
            changed: names(changed),
            stopped: names(stopped),
            kept: names(kept),
        })
    }

    #[cfg(not(feature = "mcp"))]
    async fn reload(&self) -> Result<Said, Failure> {
        Err(Failure::usage("this program was built without the cargo feature `mcp`"))
    }

    async fn records(&self, session: &str, most: usize) -> Result<Said, Failure> {
        let session = SessionId::parse(session)?;
        let records = self.runtime.last_records(session.clone(), most.clamp(1, MOST_RECORDS)).await?;
        if records.is_empty() {
            return Ok(Said::refused("not_found", format!("there is no session {session}")));
        }
        let first = records.len().saturating_sub(most);
        Ok(Said::Records { records: records[first..].iter().map(|record| journal::entry(record)).collect() })
    }
}

fn refused(failure: Failure) -> Said {
    let kind = if failure.exit == Exit::Usage { "invalid" } else { "failed" };
    Said::refused(kind, failure.message)
}

fn refused_version(theirs: u32) -> Said {
    let message = format!("version {theirs} is not spoken here, but {VERSION}; use the program this process runs");
    Said::refused("version", message)
}

/// The number of a question that was not understood, if it has one.
fn id_of(line: &str) -> u64 {
    let line = serde_json::from_str::<serde_json::Value>(line).ok();
    line.and_then(|line| line.get("id")?.as_u64()).unwrap_or(0)
}
