//! The control socket: a running `chat`, `batch` or `run` can be looked at and steered by the user it belongs to.
//!
//! Owns one Unix socket for each such process, in a folder beside the store, and what is said over it: lines of JSON,
//! one answer for each question (`docs/control.md` has them all). A connection is a task of its own; whoever asks too
//! much, says nothing for long, or does not read its answers loses its connection, and nobody else notices. It sees the
//! facade only, and never waits in anybody's place: a turn does not know that it is being watched.
//!
//! | file | what is in it |
//! |---|---|
//! | `place` | the folder, the socket, and sockets that dead processes left |
//! | `wire` | what is said |
//! | `server` | connections |
//! | `desk` | questions answered |
//! | `figures` | what the system knows of this process |
//! | `journal` | a session's last records, in a line each |
//! | `client` | the other end: finding a process, and asking it |

pub(crate) mod client;
mod desk;
mod figures;
mod journal;
mod place;
mod server;
pub(crate) mod wire;

use std::path::{Path, PathBuf};

use bob::Runtime;
use bob_config::Config;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::runtime::origin::Origin;
use crate::terminal::print;
use desk::{Desk, Front};
use place::Socket;
use wire::Hello;

/// The control socket of this process. Dropping it removes the socket and ends its connections.
pub(crate) struct Control {
    is_drained: watch::Receiver<bool>,
    listening: Option<(JoinHandle<()>, Socket)>,
}

impl Control {
    /// Opens the socket of a process that runs this command. One that cannot be opened is a warning: the process does its
    /// work without being found.
    pub(crate) async fn open(runtime: &Runtime, config: &Config, command: &str, origin: Origin) -> Self {
        let (drain, is_drained) = watch::channel(false);
        Self::listen(runtime, config, command, Some(Front { origin, drain }), is_drained).await
    }

    /// The same for a process without a front end that could be drained or would read its configuration again.
    #[cfg(feature = "soak")]
    pub(crate) async fn show(runtime: &Runtime, config: &Config, command: &str) -> Self {
        let (_nobody_drains_it, is_drained) = watch::channel(false);
        Self::listen(runtime, config, command, None, is_drained).await
    }

    async fn listen(
        runtime: &Runtime,
        config: &Config,
        command: &str,
        front: Option<Front>,
        is_drained: watch::Receiver<bool>,
    ) -> Self {
        let folder = place::folder(config);
        if let Some(store) = config.store_path() {
            // What goes wrong with it is told of the folder in it.
            let _told_below = bob::store::make_folder(store.parent().unwrap_or(Path::new(".")));
        }
        let (listener, socket) = match place::listen(&folder).await {
            Ok(listening) => listening,
            Err(why) => {
                print::note(&format!("warning: {why}; ps, top and the like will not find this process"));
                return Self { is_drained, listening: None };
            }
        };
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            command: command.to_owned(),
            config: absolute(config.file.clone()).display().to_string(),
            store: place::store_name(config),
        };
        let desk = Desk::new(runtime.clone(), hello, front);
        let task = tokio::spawn(server::listen(listener, desk));
        Self { is_drained, listening: Some((task, socket)) }
    }

    /// Ends once somebody asked this process to drain: to begin no new turn, and to end when those that run have ended.
    /// Never, when nobody does. Cancel-safe.
    pub(crate) async fn drained(&mut self) {
        if self.is_drained.wait_for(|is_drained| *is_drained).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether that was asked.
    pub(crate) fn is_drained(&self) -> bool {
        *self.is_drained.borrow()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((task, _removed_with_this)) = &self.listening {
            task.abort();
        }
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
