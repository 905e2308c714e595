//! The tools that come with Bob: files, search, and the shell.
//!
//! Each works on the folders its call brings along (the session's roots) and on
//! nothing else; `confine` keeps paths inside them. File work blocks, so it runs
//! on tokio's blocking threads; a call that is dropped lets a started file
//! operation end, and a search stops at the next file.

mod confine;
mod read;
mod search;
mod shell;
mod write;

#[cfg(test)]
pub(crate) mod fixture;

use super::function::FnTool;
use super::port::{Invocation, ToolError, ToolPort};
use crate::child::Watcher;
use bob_messages::tools::ToolOutput;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most of one file that is read or edited, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Bob's own tools, one port each, in the order they are offered. The shell is
/// among them; it is the policy that keeps it from being offered.
///
/// The shell's environment is taken from this process now, once; its commands are
/// registered with the watcher.
pub fn tools(watcher: &Watcher) -> Vec<Arc<dyn ToolPort>> {
    let tools = [read::list_dir(), read::read_file(), search::search_files()];
    let changing = [write::write_file(), write::edit_file(), shell::shell_exec(shell::inherited(), watcher.clone())];
    tools.into_iter().chain(changing).map(|tool: FnTool| -> Arc<dyn ToolPort> { Arc::new(tool.local()) }).collect()
}

/// Whether the call that some blocking work is done for has been dropped.
#[derive(Clone, Default)]
struct Unwanted(Arc<AtomicBool>);

impl Unwanted {
    fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does file work on a blocking thread. When the returned future is dropped, the
/// work is told by its [`Unwanted`].
async fn blocking(
    invocation: Invocation,
    work: impl FnOnce(&Invocation, &Unwanted) -> Result<ToolOutput, ToolError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    struct OnDrop(Unwanted);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
    let dropped = OnDrop(Unwanted::default());
    let unwanted = dropped.0.clone();
    match tokio::task::spawn_blocking(move || work(&invocation, &unwanted)).await {
        Ok(result) => result,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_cancelled) => Err(ToolError::new("the program is ending")),
    }
}
