//! The tools that come with Bob: files, search, the shell, and a plan.
//!
//! Each works on the folders its call brings along (the session's roots) and on nothing else; `confine` keeps paths
//! inside them. File work blocks, so it runs on tokio's blocking threads, a few at a time; a call that is dropped lets
//! a started file operation end; reading, finding and searching stop soon. What governs the agent, what is its own, and
//! what holds secrets is told apart by `protection`, before a call runs.

mod background;
mod confine;
mod edit;
mod edits;
#[cfg(any(test, feature = "search"))]
mod find;
mod list;
mod protection;
mod read;
mod sandbox;
#[cfg(any(test, feature = "search"))]
mod search;
mod seen;
mod shell;
mod todo;
mod undo;
#[cfg(any(test, feature = "search"))]
mod walk;
mod write;

#[cfg(test)]
mod descriptions_tests;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod so_far_tests;

pub use background::BackgroundCommands;
pub(crate) use protection::SecretFiles;
pub use protection::{Protection, SECRET_FILES};
pub use sandbox::{Kernel, Sandbox, SandboxMode};
pub use undo::{Originals, Undone, undo};

use super::function::FnTool;
use super::policy::{Policy, Rules};
use super::port::{Invocation, ToolError, ToolPort};
use crate::child::Watcher;
use bob_messages::tools::{MODEL_RESULT_BYTES, ToolOutput};
use protection::{Access, Protected};
use shell::Shell;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use tokio::sync::Semaphore;

/// The largest file that is edited, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The most text of files that one call returns, in bytes: it fits into what a model is shown of a result, so that nothing
/// is cut out of it there.
const MAX_TEXT_BYTES: usize = MODEL_RESULT_BYTES - 8 * 1024;
/// Why a file is no text.
const NO_TEXT: &str = "it is neither UTF-8, UTF-16 with a byte order mark, nor Windows-1252";

/// Bob's own tools, one port each, in the order they are offered. The shell is among them; it is the policy that keeps
/// it from being offered, and then also what follows its commands is not among them.
///
/// The shell's environment is taken from this process now, once; its commands are
/// registered with the watcher, and those in the background are reached by `background`, too. What is protected is looked up now, too; it is kept from
/// every tool here but the shell.
pub fn tools(
    watcher: &Watcher,
    protection: &Protection,
    policy: &Policy,
    background: &BackgroundCommands,
) -> Vec<Arc<dyn ToolPort>> {
    let protected = Arc::new(Protected::new(protection));
    let seen = Arc::default();
    let guarded = [
        (list::list_dir(), Access::List),
        (read::read_file(&seen), Access::Read),
        #[cfg(any(test, feature = "search"))]
        (find::find_files(Arc::clone(&protected)), Access::List),
        #[cfg(any(test, feature = "search"))]
        (search::search_files(Arc::clone(&protected)), Access::Read),
        (write::write_file(&seen), Access::Write),
        (edit::edit_file(&seen), Access::Write),
    ];
    let guarded = guarded.map(|(tool, access)| protected.guard(tool, access));
    let environment = shell::inherited(&protection.shell_env);
    let (shell, jobs) = (Shell::new(environment, watcher.clone(), protection.sandbox.clone()), &background.0);
    let exec = shell::shell_exec(&shell, jobs, &policy.deny_commands);
    let may_run = Rules::new(policy.clone()).is_ok_and(|rules| rules.allows(exec.name()));
    let following = may_run.then(|| [shell::shell_output(jobs), shell::shell_stop(jobs)]);
    let tools = guarded.into_iter().chain([todo::todo(), exec]).chain(following.into_iter().flatten());
    tools.map(|tool: FnTool| -> Arc<dyn ToolPort> { Arc::new(tool.local()) }).collect()
}

/// How many file operations of this process run at once: enough to keep its processors busy while some wait for a disk,
/// and few beside the 512 blocking threads of a runtime, which its stores and prompt files need, too.
static AT_ONCE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(2, NonZero::get);
    Arc::new(Semaphore::new(2 * processors))
});

/// Whether the call that some blocking work is done for has been dropped.
#[derive(Clone, Default)]
struct Unwanted(Arc<AtomicBool>);

impl Unwanted {
    fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does file work on a blocking thread. When the returned future is dropped, the work is told by its [`Unwanted`].
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
    let Ok(turn) = Arc::clone(&AT_ONCE).acquire_owned().await else {
        return Err(ToolError::new("the program is ending"));
    };
    let work = move || {
        // Abandoned work keeps its place until it is over.
        let _turn = turn;
        work(&invocation, &unwanted)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_cancelled) => Err(ToolError::new("the program is ending")),
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
