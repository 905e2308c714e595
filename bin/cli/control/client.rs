//! The other end of a control socket: finding the processes that use a store, and asking one.

use std::time::Duration;

use bob_config::{Config, StoreKind};
use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LinesCodec};

use super::socket;
use super::wire::{Hello, LONGEST_RESPONSE, Look, Request, Response, ResponseLine, VERSION};
use crate::exit::Failure;

/// How long an answer is waited for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Process {
    pub(crate) hello: Hello,
    line: Framed<UnixStream, LinesCodec>,
    asked: u64,
}

/// All processes that use this configuration's store and let this user in.
pub(crate) async fn processes(config: &Config) -> Vec<Process> {
    let sockets = socket::sockets(&socket::folder(config));
    let greeted = sockets.iter().map(async |socket| greeted(socket::connect(socket).await?).await);
    futures_util::future::join_all(greeted).await.into_iter().flatten().collect()
}

async fn greeted(stream: UnixStream) -> Option<Process> {
    let mut line = Framed::new(stream, LinesCodec::new_with_max_length(LONGEST_RESPONSE));
    let greeting = tokio::time::timeout(ANSWERS_WITHIN, line.next()).await.ok()??.ok()?;
    match serde_json::from_str::<ResponseLine>(&greeting).ok()?.answer {
        Response::Hello(hello) => Some(Process { hello, line, asked: 0 }),
        _no_greeting => None,
    }
}

/// The one process that is meant: the only one, or the one with this number.
pub(crate) async fn the_one(config: &Config, pid: Option<u32>) -> Result<Process, Failure> {
    let mut all = processes(config).await;
    if let Some(pid) = pid {
        let Some(at) = all.iter().position(|process| process.hello.pid == pid) else {
            return Err(Failure::usage(match all.is_empty() {
                true => none_found(config),
                false => format!("process {pid} does not use this store; these do: {}", listed(&all)),
            }));
        };
        return Ok(all.swap_remove(at));
    }
    match all.len() {
        0 => Err(Failure::usage(none_found(config))),
        1 => Ok(all.remove(0)),
        _ => {
            let named = listed(&all);
            Err(Failure::usage(format!("several processes use this store: {named}; name one with --pid")))
        }
    }
}

fn listed(all: &[Process]) -> String {
    let named = all.iter().map(|process| format!("{} ({})", process.hello.pid, process.hello.command));
    named.collect::<Vec<_>>().join(", ")
}

fn none_found(config: &Config) -> String {
    let store = match config.store_path() {
        Some(_) => format!("the store at {}", socket::store_name(config)),
        None if config.store.kind == StoreKind::Postgres => {
            format!("the configuration {} on this machine", config.file.display())
        }
        None => format!("the configuration {} (its store is memory)", config.file.display()),
    };
    format!("no running cli-agent was found for {store}; start one, or name its configuration with --config")
}

impl Process {
    pub(crate) async fn ask(&mut self, question: Request) -> Result<Response, Failure> {
        self.asked += 1;
        let (id, pid) = (self.asked, self.hello.pid);
        let line = question.line(id);
        let talk = async {
            self.line.send(line).await.ok()?;
            loop {
                let line = self.line.next().await?.ok()?;
                let answer: ResponseLine = serde_json::from_str(&line).ok()?;
                if answer.v == VERSION && (answer.id == id || answer.id == 0) {
                    return Some(answer.answer);
                }
            }
        };
        match tokio::time::timeout(ANSWERS_WITHIN, talk).await {
            Ok(Some(Response::Refused { message, .. })) => Err(Failure::usage(message)),
            Ok(Some(said)) => Ok(said),
            Ok(None) => Err(Failure::gone(format!("process {pid} has ended"))),
            Err(_elapsed) => Err(Failure::gone(format!("process {pid} does not answer"))),
        }
    }

    pub(crate) async fn look(&mut self) -> Result<Box<Look>, Failure> {
        match self.ask(Request::Look).await? {
            Response::Look(look) => Ok(look),
            _no_look => Err(unexpected()),
        }
    }
}

pub(crate) fn unexpected() -> Failure {
    Failure::gone("the process sent an unexpected response")
}
