//! Where skills come from: the port, the way to it, and the adapter for folders.
//!
//! A turn asks which skills there are once, at its beginning, through [`Skills`]; whoever
//! answers is a [`SkillPort`]. A runtime without one is never asked. The choice among
//! skills is made elsewhere, purely (`bob_messages::skills`); nothing here runs a skill.
//!
//! | file | what is in it |
//! |---|---|
//! | `folders` | the adapter: folders of `SKILL.md`, read again when they change |
//! | `walk` | which `SKILL.md` there are, within bounds and without following links |
//! | `front_matter` | one `SKILL.md`: its head, and what is wrong with it |

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

/// How long a turn waits for the list of skills; it goes on without them then.
const PATIENCE: Duration = Duration::from_secs(5);

/// A place skills come from.
pub trait SkillPort: Send + Sync + 'static {
    /// The skills there are for a session that works in this folder; `None` for one that
    /// names none. Asked once a turn, in a task: it may read a disk, and should remember
    /// what it has read. What is wrong with single skills is said in the index. Dropping
    /// the future, panicking, or taking more than five seconds is an empty index.
    fn index(&self, cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>>;
}

/// The way of turns to the port of their runtime. Clones are the same way.
#[derive(Clone, Default)]
pub struct Skills(Arc<OnceLock<Arc<dyn SkillPort>>>);

impl fmt::Debug for Skills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Skills").field(&self.0.get().is_some()).finish()
    }
}

impl Skills {
    /// From now on this port is asked. The first one stays.
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
                Ok(Err(_panic)) => tracing::error!("reading the skills panicked; a turn goes on without them"),
                Err(_late) => tracing::warn!("the skills could not be read in time; a turn goes on without them"),
            }
        });
    }
}
