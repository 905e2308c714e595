//! Skills: instructions that are given to a model when they match what it is asked.

/// The port of skills, for [`RuntimeBuilder::skills`](crate::RuntimeBuilder::skills).
///
/// ```
/// use bob::BoxFuture;
/// use bob::tools::skills::{FrontMatter, Skill, SkillIndex, SkillPort};
/// use std::sync::Arc;
///
/// /// One skill, for every folder.
/// struct Handbook(Arc<SkillIndex>);
///
/// impl Handbook {
///     fn new() -> Self {
///         let (name, description) = ("refunds".into(), "How a refund is made, and when not.".into());
///         let front = FrontMatter { name, description, ..FrontMatter::default() };
///         let skill = Skill::new(front, "Ask for the number of the order.".into(), String::new(), "1".into());
///         Self(Arc::new(SkillIndex { skills: vec![Arc::new(skill)], findings: Vec::new() }))
///     }
/// }
///
/// impl SkillPort for Handbook {
///     fn index(&self, _cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>> {
///         Box::pin(std::future::ready(Arc::clone(&self.0)))
///     }
/// }
/// # assert!(Handbook::new().0.get("refunds").is_some());
/// ```
pub use bob_actors::skills::SkillPort;
#[cfg(feature = "skills")]
pub use bob_actors::skills::git::{CacheError, GitSkills, GitSourceError, MirrorBounds, MirrorError};
#[cfg(feature = "skills")]
pub use bob_actors::skills::{SkillFolders, SkillSource};
pub use bob_messages::event::SkillChoice;
pub use bob_messages::skills::{
    FrontMatter, ReselectCause, Reselected, SelectedSkill, SelectedSkills, Skill, SkillFinding, SkillForm, SkillIndex,
    SkillQuery, SkillRules, SkillScores,
};
