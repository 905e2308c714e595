//! Skills: instructions that are given to a model when they match what it is asked.

pub use bob_actors::skills::SkillPort;
#[cfg(feature = "skills")]
pub use bob_actors::skills::{SkillFolders, SkillSource};
pub use bob_messages::event::SkillChoice;
pub use bob_messages::skills::{
    FrontMatter, SelectedSkill, SelectedSkills, Skill, SkillFinding, SkillForm, SkillIndex, SkillRules,
};
