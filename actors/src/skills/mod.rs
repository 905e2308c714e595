//! Sources of skills: the port, its handle, and the adapter for folders.
//!
//! A turn requests the index of skills once, at its beginning, through [`Skills`] from a [`SkillPort`]. The selection
//! of skills is pure (`bob_messages::skills`); nothing here runs a skill.
//!
//! | file | contents |
//! |---|---|
//! | `folders` | the adapter: folders of `SKILL.md`, read again when they change |
//! | `walk` | finds `SKILL.md` files, within bounds and without following links |
//! | `front_matter` | parses one `SKILL.md` |
//! | `contract` | the contract suite of the port |

#[cfg(any(test, feature = "testing"))]
pub mod contract;
#[cfg(feature = "skills")]
mod folders;
#[cfg(feature = "skills")]
mod front_matter;
#[cfg(feature = "skills")]
mod walk;

#[cfg(all(test, feature = "skills"))]
#[path = "folders_tests.rs"]
mod tests;

#[cfg(feature = "skills")]
pub use folders::{SkillFolders, SkillSource};

use bob_messages::reply::Reply;
use bob_messages::skills::SkillIndex;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a turn waits for the index; then it continues without skills.
const PATIENCE: Duration = Duration::from_secs(5);

/// A place skills come from.
pub trait SkillPort: Send + Sync + 'static {
    /// Returns the skills for a session with this working folder; `None` for a session without one. Called once a
    /// turn, in a task: it may read a disk, and should cache. Errors of single skills are part of the index. Dropping
    /// the future, a panic, and a timeout of five seconds yield an empty index.
    fn index(&self, cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>>;
}

/// The handle of turns to their runtime's port. Clones share it.
#[derive(Clone, Default)]
pub struct Skills(Arc<OnceLock<Arc<dyn SkillPort>>>);

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Skills").field(&self.0.get().is_some()).finish()
    }
}

impl Skills {
    /// Sets the port. Only the first call has an effect.
    pub fn come_from(&self, port: Arc<dyn SkillPort>) {
        let _the_first_stays = self.0.set(port);
    }

    /// Asks which skills there are; `tell` is called once, from a task.
    pub(crate) fn list(&self, cwd: Option<String>, tell: impl FnOnce(Arc<SkillIndex>) + Send + 'static) {
        let reply = Reply::to(move |index: Option<Arc<SkillIndex>>| tell(index.unwrap_or_default()));
        // Dropped, the reply answers: without skills.
        let Some(port) = self.0.get().cloned() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let asked = AssertUnwindSafe(async { port.index(cwd).await }).catch_unwind();
            match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok(index)) => reply.send(index),
                Ok(Err(_panic)) => tracing::error!("reading skills panicked; the turn continues without skills"),
                Err(_late) => tracing::warn!("reading skills timed out; the turn continues without skills"),
            }
        });
    }
}
