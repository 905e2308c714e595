//! Sources of skills: the port, its handle, and the adapter for folders.
//!
//! A turn requests the index of skills at its beginning, and when it chooses skills again, through [`Skills`] from a
//! [`SkillPort`]. The selection of skills is pure (`bob_messages::skills`); nothing here runs a skill.
//!
//! | file | contents |
//! |---|---|
//! | `folders` | the adapter: folders of `SKILL.md`, read again when they change |
//! | `walk` | finds `SKILL.md` files, within bounds and without following links |
//! | `front_matter` | parses one `SKILL.md` |
//! | [`git`] | commits of git repositories, mirrored into a cache |
//! | `contract` | the contract suite of the port |

#[cfg(any(test, feature = "testing"))]
pub mod contract;
#[cfg(feature = "skills")]
mod folders;
#[cfg(feature = "skills")]
mod front_matter;
#[cfg(feature = "skills")]
pub mod git;
#[cfg(feature = "skills")]
mod walk;

#[cfg(all(test, feature = "skills"))]
#[path = "folders_tests.rs"]
mod tests;

#[cfg(feature = "skills")]
pub use folders::{SkillFolders, SkillSource};

use bob_messages::reply::Reply;
use bob_messages::skills::{Skill, SkillForm, SkillIndex, SkillQuery, SkillScores};
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
    /// Returns the skills for a session with this working folder; `None` for a session without one. Called when a turn
    /// begins and when its skills are chosen again, in a task: it may read a disk, and should cache. Errors of single
    /// skills are part of the index. Dropping the future, a panic, and a timeout of five seconds, which includes `score`
    /// and `render`, yield an empty index.
    fn index(&self, cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>>;

    /// Scores the skills for a query, instead of the scores by mention, label and keyword; `None`, the default, leaves
    /// them to those. The scores are journaled with the selection: a turn is replayed without asking again.
    fn score<'a>(&'a self, _index: &'a SkillIndex, _query: &'a SkillQuery) -> BoxFuture<'a, Option<SkillScores>> {
        Box::pin(std::future::ready(None))
    }

    /// Renders a skill for the prompt, instead of its folder, tools and body; `None`, the default, leaves it to those.
    /// What is rendered counts against the budget of skills. A skill is rendered here in every form or in none: without a
    /// text for one of them it is as if there were none for the others.
    fn render(&self, _skill: &Skill, _form: SkillForm) -> Option<String> {
        None
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Listed {
    pub(crate) index: Arc<SkillIndex>,
    pub(crate) scores: Option<Arc<SkillScores>>,
}

impl Listed {
    async fn by(port: &dyn SkillPort, cwd: Option<String>, query: &SkillQuery) -> Self {
        let index = port.index(cwd).await;
        let scores = port.score(&index, query).await.map(Arc::new);
        Self { index: rendered(port, index), scores }
    }
}

/// The index with the texts of a port that renders skills itself.
fn rendered(port: &dyn SkillPort, index: Arc<SkillIndex>) -> Arc<SkillIndex> {
    let renders = |skill: &Arc<Skill>| port.render(skill, SkillForm::Whole).is_some();
    if !index.skills.iter().any(renders) {
        return index;
    }
    let skills = index.skills.iter().map(|skill| match renders(skill) {
        true => Arc::new((**skill).clone().rendered(|skill, form| port.render(skill, form))),
        false => Arc::clone(skill),
    });
    Arc::new(SkillIndex { skills: skills.collect(), findings: index.findings.clone() })
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
    pub(crate) fn list(&self, cwd: Option<String>, query: Arc<SkillQuery>, tell: impl FnOnce(Listed) + Send + 'static) {
        let reply = Reply::to(move |listed: Option<Listed>| tell(listed.unwrap_or_default()));
        // Dropped, the reply answers: without skills.
        let Some(port) = self.0.get().cloned() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let asked = AssertUnwindSafe(async { Listed::by(&*port, cwd, &query).await }).catch_unwind();
            match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok(listed)) => reply.send(listed),
                Ok(Err(_panic)) => tracing::error!("reading skills panicked; the turn continues without skills"),
                Err(_late) => tracing::warn!("reading skills timed out; the turn continues without skills"),
            }
        });
    }
}
