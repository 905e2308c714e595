//! The connections of a control socket.
//!
//! The process enforces all limits: the length of a line, the time to read a response, idle time, and the number of
//! connections. A client that exceeds one is sent the reason, if it reads.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{RwLock, Semaphore};
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

use super::handler::Handler;
use super::wire::{LONGEST_REQUEST, Response};

/// Connections at once.
const MOST_CONNECTIONS: usize = 32;

/// How long an answer may take to be read.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(2);

/// How long a connection may be silent.
const SILENT_FOR: Duration = Duration::from_secs(300);

/// How long nothing is accepted after the system refused.
const AFTER_REFUSAL: Duration = Duration::from_millis(200);

type Line = Framed<UnixStream, LinesCodec>;

/// Serves connections until the task is dropped; they end with it. `answering` is read-locked from the arrival of a
/// request until its response was written.
pub(super) async fn listen(listener: UnixListener, handler: Handler, answering: Arc<RwLock<()>>) {
    let handler = Arc::new(handler);
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_ended) = connections.join_next() => continue,
        };
        let Ok((stream, _nameless)) = accepted else {
            tokio::time::sleep(AFTER_REFUSAL).await;
            continue;
        };
        let line = Framed::new(stream, LinesCodec::new_with_max_length(LONGEST_REQUEST));
        if !is_own(line.get_ref().peer_cred().map(|peer| peer.uid()).ok()) {
            connections.spawn(refuse(line, Response::refused("not_allowed", "this process belongs to another user")));
            continue;
        }
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let (handler, answering) = (Arc::clone(&handler), Arc::clone(&answering));
                connections.spawn(async move {
                    serve(line, &handler, &answering).await;
                    drop(place);
                });
            }
            // A refused connection takes no slot, and is closed once it was told or does not read.
            Err(_full) if connections.len() < MOST_CONNECTIONS * 2 => {
                let why = format!("{MOST_CONNECTIONS} connections are open already; try again later");
                connections.spawn(refuse(line, Response::refused("busy", why)));
            }
            Err(_full) => drop(line),
        }
    }
}

/// Whether the peer is this process's user, or root.
fn is_own(uid: Option<u32>) -> bool {
    uid.is_some_and(|uid| uid == 0 || uid == rustix::process::geteuid().as_raw())
}

async fn refuse(mut line: Line, why: Response) {
    let _may_be_closed = say(&mut line, why.line(0)).await;
}

async fn serve(mut line: Line, handler: &Handler, answering: &RwLock<()>) {
    let greeting = Response::Hello(handler.hello().clone()).line(0);
    let mut is_read = say(&mut line, greeting).await;
    while is_read {
        let Ok(Some(question)) = tokio::time::timeout(SILENT_FOR, line.next()).await else { return };
        let _until_it_is_written = answering.read().await;
        let answer = match question {
            Ok(question) => handler.answer(&question).await,
            Err(LinesCodecError::MaxLineLengthExceeded) => {
                let why = format!("a line has more than {LONGEST_REQUEST} bytes");
                return refuse(line, Response::refused("too_long", why)).await;
            }
            Err(LinesCodecError::Io(_)) => return,
        };
        is_read = say(&mut line, answer).await;
    }
}

/// Writes a line; returns whether it was read in time.
async fn say(line: &mut Line, text: String) -> bool {
    matches!(tokio::time::timeout(READ_WITHIN, line.send(text)).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_listens_to_its_own_user_and_to_nobody_else() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_own(Some(own)) && is_own(Some(0)));
        assert!(!is_own(Some(own + 1)) && !is_own(None));
    }
}
