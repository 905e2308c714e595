//! Warnings about tool servers that fail, once for each failure.
//!
//! The log has these at its own level and format; these are the texts of the front ends.

use std::collections::BTreeMap;

use bob::tools::servers::{ServerState, ServerStatus};
use bob::{AgentRuntime, Runtime};
use tokio::sync::watch;

use crate::terminal::print;

/// How many characters of a server's last output are shown.
const MOST: usize = 400;

pub(crate) struct Warnings {
    runtime: Runtime,
    changes: watch::Receiver<u64>,
    /// The servers that are down, by their names in the tree, as last reported.
    down: BTreeMap<String, ServerState>,
}

impl Warnings {
    /// The warnings of a runtime, those of its start included.
    pub(crate) fn of(runtime: &Runtime) -> Self {
        let mut changes = runtime.server_changes();
        changes.mark_changed();
        Self { runtime: runtime.clone(), changes, down: BTreeMap::new() }
    }

    /// Waits for further warnings; never returns if there can be none. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Vec<String> {
        loop {
            if self.changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let news = self.now();
            if !news.is_empty() {
                return news;
            }
        }
    }

    pub(crate) fn now(&mut self) -> Vec<String> {
        self.changes.mark_unchanged();
        let servers = self.runtime.servers();
        servers.iter().filter_map(|server| self.judge(server)).collect()
    }

    fn judge(&mut self, server: &ServerStatus) -> Option<String> {
        let why = || {
            let nobody_says = format!("the tool server `{}` is down", server.id);
            print::on_one_line(server.last_error.as_ref().unwrap_or(&nobody_says), MOST)
        };
        match (server.state, self.down.get(server.node())) {
            (ServerState::Ready | ServerState::Asleep | ServerState::Stopped, _) => {
                self.down.remove(server.node());
                None
            }
            (ServerState::Restarting, None) => {
                self.down.insert(server.node().to_owned(), ServerState::Restarting);
                Some(format!("warning: {}; restarting it", why()))
            }
            (ServerState::GaveUp, None | Some(ServerState::Restarting)) => {
                self.down.insert(server.node().to_owned(), ServerState::GaveUp);
                Some(format!("warning: {}; it failed too often and is left down, without its tools", why()))
            }
            (ServerState::Starting | ServerState::Restarting | ServerState::GaveUp, _) => None,
        }
    }

    /// Prints them as they come, until the task is dropped with its runtime.
    pub(crate) fn print(mut self) {
        tokio::spawn(async move {
            loop {
                self.next().await.iter().for_each(|line| print::note(line));
            }
        });
    }
}
