//! The control socket: a running `chat`, `batch` or `run` can be looked at and steered by the user it belongs to.
//!
//! Owns one Unix socket for each such process, in a folder beside the store, and its protocol: lines of JSON, one
//! response for each request (`docs/control.md` lists them all). Each connection has a task of its own; a client that
//! sends too much, is silent for long, or does not read its responses is disconnected without an effect on the
//! others. It uses the facade only and never blocks a turn.
//!
//! | file | what is in it |
//! |---|---|
//! | `socket` | the folder, the socket, and sockets that dead processes left |
//! | `wire` | requests and responses |
//! | `server` | connections |
//! | `handler` | answers requests |
//! | `figures` | what the system knows of this process |
//! | `journal` | a session's last records, in a line each |
//! | `client` | finds a process and sends it requests |

pub(crate) mod client;
mod figures;
mod handler;
mod journal;
mod server;
mod socket;
pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bob::Runtime;
use bob_config::Config;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinHandle;

use crate::runtime::origin::Origin;
use crate::terminal::print;
use handler::{FrontEnd, Handler};
use socket::Socket;
use wire::Hello;

/// The control socket of this process. Dropping it removes the socket and ends its connections.
pub(crate) struct Control {
    is_drained: watch::Receiver<bool>,
    /// Read-locked while a request is being answered.
    answering: Arc<RwLock<()>>,
    listening: Option<(JoinHandle<()>, Socket)>,
}

impl Control {
    /// Opens the socket of a process that runs this command. One that cannot be opened is a warning: the process does its
    /// work without being found.
    pub(crate) async fn open(runtime: &Runtime, config: &Config, command: &str, origin: Origin) -> Self {
        let (drain, is_drained) = watch::channel(false);
        Self::listen(runtime, config, command, Some(FrontEnd { origin, drain }), is_drained).await
    }

    /// Opens a control socket for a process that cannot be drained and does not reload its configuration.
    #[cfg(feature = "soak")]
    pub(crate) async fn show(runtime: &Runtime, config: &Config, command: &str) -> Self {
        let (_nobody_drains_it, is_drained) = watch::channel(false);
        Self::listen(runtime, config, command, None, is_drained).await
    }

    async fn listen(
        runtime: &Runtime,
        config: &Config,
        command: &str,
        front: Option<FrontEnd>,
        is_drained: watch::Receiver<bool>,
    ) -> Self {
        let answering = Arc::default();
        let folder = socket::folder(config);
        if let Some(store) = config.store_path() {
            // Errors name the folder.
            let _told_below = bob::store::make_folder(store.parent().unwrap_or(Path::new(".")));
        }
        let (listener, socket) = match socket::listen(&folder).await {
            Ok(listening) => listening,
            Err(why) => {
                print::note(&format!("warning: {why}; ps, top and the like will not find this process"));
                return Self { is_drained, answering, listening: None };
            }
        };
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            command: command.to_owned(),
            config: absolute(config.file.clone()).display().to_string(),
            store: socket::store_name(config),
        };
        let handler = Handler::new(runtime.clone(), hello, front);
        let task = tokio::spawn(server::listen(listener, handler, Arc::clone(&answering)));
        Self { is_drained, answering, listening: Some((task, socket)) }
    }

    /// Resolves when this process is requested to drain: to start no new turn, and to exit when the running ones have
    /// ended. Cancel-safe.
    pub(crate) async fn drained(&mut self) {
        if self.is_drained.wait_for(|is_drained| *is_drained).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Closes it when the requests that have arrived are answered, or after two seconds. A request that ended this
    /// process's work, such as the cancellation of its last turn, gets its response by this.
    pub(crate) async fn close(self) {
        let _answered_or_not_read = tokio::time::timeout(server::READ_WITHIN, self.answering.write()).await;
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_closes_when_what_was_asked_is_answered_or_was_not_read_for_long() {
        let control = |answering: &Arc<RwLock<()>>| {
            let (_drain, is_drained) = watch::channel(false);
            Control { is_drained, answering: Arc::clone(answering), listening: None }
        };
        let answering = Arc::<RwLock<()>>::default();
        let being_written = answering.read().await;
        let mut closing = std::pin::pin!(control(&answering).close());
        assert!(futures_util::poll!(&mut closing).is_pending());
        drop(being_written);
        assert!(futures_util::poll!(&mut closing).is_ready());
        let _never_read = answering.read().await;
        control(&answering).close().await;
    }
}
