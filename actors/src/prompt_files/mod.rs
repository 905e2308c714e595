//! The files before a conversation: looked up for each session, read again when they change.
//!
//! Owns the lookup (the session's working folder first, then the configuration's), the project's own instructions, and
//! a cache. The TurnActor asks once a turn; a task reads, never a handler. It writes nothing, follows no link out of
//! the two folders or to a file of secrets, and knows neither the order nor the caps of the layers ([`PromptLayers`] and
//! the machine do).

mod file;
mod look;
mod project;

use bob_messages::error::AgentError;
use bob_messages::reply::Reply;
use bob_messages::turn_config::PromptLayers;
use file::Secrets;
use look::Look;
pub use project::PROJECT_FILES;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// For how long the files of sessions without a folder of their own are taken to be as they were: many turns a second
/// share one look.
const FRESH_FOR: Duration = Duration::from_millis(100);

const REMEMBERED_FOLDERS: usize = 64;

/// Limit of cached contents, in bytes.
const REMEMBERED_BYTES: usize = 8 << 20;

/// The configured files and texts before a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptFiles {
    /// The texts that are no files. `instructions` come before the files of `named`.
    pub texts: PromptLayers,
    /// Files behind the instructions, in order. Each must be there.
    pub named: Vec<String>,
    /// Memory between sessions: an optional file; empty for none.
    pub memory: String,
    /// Notes about the tools: a file used when it is there; empty for none.
    pub tool_notes: String,
    /// The folder of sessions that name none.
    pub workspace: PathBuf,
    /// The configuration's folder, where a file is looked up that a session's folder does not have.
    pub folder: PathBuf,
    /// A further folder where a file is looked up last.
    pub last_folder: Option<PathBuf>,
    /// Whether [`PROJECT_FILES`] of the session's folder, and of those above it in its repository, come behind `named`.
    pub reads_project: bool,
    /// Whether the prompt says the day, the system, and whether the folder is in a repository.
    pub tells_facts: bool,
    /// Patterns of files of secrets: none is read, under any name. By default those of the local tools; none
    /// without the feature `local-tools`.
    pub secret_files: Vec<String>,
}

impl Default for PromptFiles {
    /// No texts and no files.
    fn default() -> Self {
        #[cfg(any(test, feature = "local-tools"))]
        let secret_files = crate::tools::local::SECRET_FILES.map(str::to_owned).to_vec();
        #[cfg(not(any(test, feature = "local-tools")))]
        let secret_files = Vec::new();
        Self {
            texts: PromptLayers::default(),
            named: Vec::new(),
            memory: String::new(),
            tool_notes: String::new(),
            workspace: PathBuf::new(),
            folder: PathBuf::new(),
            last_folder: None,
            reads_project: false,
            tells_facts: false,
            secret_files,
        }
    }
}

/// Reads the files. Clones share the cache.
#[derive(Debug, Clone, Default)]
pub struct PromptReader(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    files: PromptFiles,
    secrets: Secrets,
    state: Mutex<State>,
    /// Held by a look at the files of sessions without a folder.
    looking: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Cached contents by folder, with metadata for validation.
    seen: HashMap<PathBuf, Look>,
    /// The result for sessions without a folder, and when it was checked.
    shared: Option<(Instant, Result<Arc<PromptLayers>, AgentError>)>,
}

impl PromptReader {
    /// A reader of these files. Nothing is read yet.
    pub fn new(files: PromptFiles) -> Self {
        let secrets = Secrets::new(&files.secret_files);
        Self(Some(Arc::new(Shared { files, secrets, state: Mutex::default(), looking: Mutex::default() })))
    }

    /// Whether there is anything to read.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Replies with the layers of a session in this folder: immediately if cached, otherwise from a task that reads
    /// them. Replies exactly once, also when the task is dropped with its runtime.
    pub(crate) fn read(
        &self,
        cwd: Option<String>,
        tell: impl FnOnce(Result<Arc<PromptLayers>, AgentError>) + Send + 'static,
    ) {
        let Some(shared) = &self.0 else { return tell(Ok(Arc::default())) };
        if let Some(known) = shared.just_read(cwd.as_deref()) {
            return tell(known);
        }
        let gone = || Err(AgentError::Internal("the files before the history could not be read".into()));
        let reply = Reply::to(move |read: Option<_>| tell(read.unwrap_or_else(gone)));
        let shared = Arc::clone(shared);
        tokio::task::spawn_blocking(move || reply.send(shared.look(cwd.as_deref())));
    }

    /// The layers of a session in this folder. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// `Invalid` when a named file is not there, and when one that is there leads out of its folder, is no text, or is
    /// larger than a mebibyte. `Overloaded` when this process has no descriptor left to open them with; files that were
    /// read before are then taken to be as they were.
    pub fn layers(&self, cwd: Option<&str>) -> Result<Arc<PromptLayers>, AgentError> {
        self.0.as_ref().map_or_else(|| Ok(Arc::default()), |shared| shared.look(cwd))
    }
}

impl Shared {
    /// Returns a fresh cache entry. The first caller that finds it stale refreshes it; others use the stale one
    /// meanwhile.
    fn just_read(&self, cwd: Option<&str>) -> Option<Result<Arc<PromptLayers>, AgentError>> {
        if cwd.is_some() {
            return None;
        }
        let mut state = self.state();
        let (read_at, known) = state.shared.as_mut()?;
        let now = Instant::now();
        if now.duration_since(*read_at) < FRESH_FOR {
            return Some(known.clone());
        }
        *read_at = now;
        None
    }

    fn look(&self, cwd: Option<&str>) -> Result<Arc<PromptLayers>, AgentError> {
        let _one_at_a_time = match cwd {
            Some(_) => None,
            None => match self.looking.try_lock() {
                Ok(looking) => Some(looking),
                // Waiters use the result of the running check, so that many callers need no more descriptors than one.
                Err(_somebody_looks) => {
                    let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some((_, found)) = &self.state().shared {
                        return found.clone();
                    }
                    Some(looking)
                }
            },
        };
        let folder = cwd.map_or(self.files.workspace.as_path(), Path::new);
        let known = self.state().seen.get(folder).cloned();
        let looked = match (look::look(&self.files, &self.secrets, folder, known.clone()), known) {
            (Err(AgentError::Overloaded { .. }), Some(known)) => Ok(known),
            (looked, _) => looked,
        };
        let mut state = self.state();
        let layers = looked.map(|look| {
            let layers = Arc::clone(&look.layers);
            state.remember(folder, look);
            layers
        });
        if cwd.is_none() && !matches!(layers, Err(AgentError::Overloaded { .. })) {
            state.shared = Some((Instant::now(), layers.clone()));
        }
        layers
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, folder: &Path, look: Look) {
        self.seen.remove(folder);
        let bytes: usize = self.seen.values().map(|seen| seen.bytes).sum();
        if self.seen.len() >= REMEMBERED_FOLDERS || bytes + look.bytes > REMEMBERED_BYTES {
            self.seen.clear();
        }
        self.seen.insert(folder.to_owned(), look);
    }
}

#[cfg(test)]
#[path = "../prompt_files_tests.rs"]
mod tests;
