//! Skills, and their selection for a turn.
//!
//! A skill is a text for the model with a name and a description, as in the Agent Skills specification (`SKILL.md`).
//! This module has the types and the pure selection; an adapter reads folders, and `turn/prompt.rs` builds the
//! prompt. Skills are never executed; only tools are.
//!
//! | file | contents |
//! |---|---|
//! | `select` | which skills a request gets, and in which form they fit |
//! | `again` | why skills are chosen again in a turn |
//! | `render` | the layer of the prompt: a table, then the bodies |
//! | `sections` | examples and checklists in a body |
//! | `words` | mentions and keywords of a text |
//! | `patterns` | matches tools with the list of a skill |

mod again;
mod patterns;
mod render;
mod sections;
mod select;
mod words;

#[cfg(test)]
mod select_tests;
#[cfg(test)]
mod text_tests;

pub use again::{ReselectCause, Reselected, Reselecting, SkillQuery, SkillScores};
pub use patterns::matches;
pub use render::{Layer, others, render};
pub use select::{Asked, Selection, admit, is_eligible, select};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The front matter of a `SKILL.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontMatter {
    /// Its name, which is also that of its folder.
    pub name: String,
    /// Its purpose and when to use it.
    pub description: String,
    /// Under which terms it may be used.
    pub license: Option<String>,
    /// Its requirements as text; shown, not checked.
    pub compatibility: Option<String>,
    /// Further metadata.
    pub metadata: BTreeMap<String, String>,
    /// Names and patterns of the tools it may use; `None` does not restrict them.
    pub allowed_tools: Option<Arc<[String]>>,
}

/// One skill, read and checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Its front matter.
    pub front: FrontMatter,
    /// The text after the front matter.
    pub body: String,
    /// The folder it is in; files it names are relative to that.
    pub folder: String,
    /// A hash of the whole `SKILL.md`, in hex.
    pub hash: String,
    /// The body as its port renders it, in each form; `None`: as it is rendered here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rendered: Option<Box<[String; 3]>>,
    /// Words of its name.
    name_words: Vec<String>,
    /// Words of its description that are not in its name.
    words: Vec<String>,
}

impl Skill {
    /// A skill of these parts.
    pub fn new(front: FrontMatter, body: String, folder: String, hash: String) -> Self {
        let of_name = words::words(&front.name);
        let words = words::words(&front.description).into_iter().filter(|word| !of_name.contains(word)).collect();
        Self { name_words: of_name.into_iter().collect(), words, front, body, folder, hash, rendered: None }
    }

    /// The skill with a body that is rendered elsewhere, if `render` returns a text for each form.
    #[must_use]
    pub fn rendered(self, render: impl Fn(&Self, SkillForm) -> Option<String>) -> Self {
        let [whole, without_examples, essentials] = SkillForm::ALL.map(|form| render(&self, form));
        let rendered = whole.zip(without_examples).zip(essentials);
        let rendered = rendered.map(|((whole, without), essentials)| Box::new([whole, without, essentials]));
        Self { rendered, ..self }
    }

    /// The roles it is for, from its metadata; none: for every role.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        let listed = self.front.metadata.get("roles").map(String::as_str).unwrap_or_default();
        listed.split([',', ' ', '\n']).filter(|role| !role.is_empty())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.front.name
    }
}

/// All skills, with unique names, and errors of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillIndex {
    /// The skills; their order means nothing.
    pub skills: Vec<Arc<Skill>>,
    /// Errors found while reading.
    pub findings: Vec<SkillFinding>,
}

impl SkillIndex {
    /// The skill of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.skills.iter().find(|skill| skill.name() == name)
    }
}

/// Something wrong with a skill or a place of skills.
#[doc(alias = "SkillError")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFinding {
    /// The file or the folder.
    pub path: String,
    /// The line, from 1; 0 when it is about the whole.
    pub line: u32,
    /// The column, from 1; 0 when it is about the whole.
    pub column: u32,
    /// Whether the skill is left out for it.
    pub is_broken: bool,
    /// The error, with advice.
    pub message: String,
}

impl std::fmt::Display for SkillFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}: {}", self.path, self.message),
            (line, 0) => write!(f, "{}:{line}: {}", self.path, self.message),
            (line, column) => write!(f, "{}:{line}:{column}: {}", self.path, self.message),
        }
    }
}

/// How skills are chosen here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillRules {
    /// Skills in one turn at most.
    pub top_k: usize,
    /// Which part of the model's context they may take, 0 to 1.
    pub token_budget_ratio: f64,
    /// Their budget as a number of tokens; overrides the ratio.
    pub token_budget_tokens: Option<u64>,
    /// The role of sessions that name no agent. A skill that lists roles is used in sessions with one of them only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

impl Default for SkillRules {
    fn default() -> Self {
        Self { top_k: 3, token_budget_ratio: 0.10, token_budget_tokens: None, role: None }
    }
}

impl SkillRules {
    /// How many tokens skills may take in the prompt of a model with this context.
    pub fn budget_tokens(&self, context_tokens: u32) -> u64 {
        self.token_budget_tokens.unwrap_or((f64::from(context_tokens) * self.token_budget_ratio.clamp(0.0, 1.0)) as u64)
    }
}

/// How much of a skill the model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillForm {
    /// All of it.
    Whole,
    /// All but its examples.
    WithoutExamples,
    /// Its head and its checklists.
    Essentials,
}

impl SkillForm {
    /// All forms, the largest first.
    pub const ALL: [Self; 3] = [Self::Whole, Self::WithoutExamples, Self::Essentials];
}

/// One chosen skill, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedSkill {
    /// Its name.
    pub name: String,
    /// The hash of its file at that time.
    pub hash: String,
    /// How well it fits the request, in thousandths.
    pub score_milli: u32,
    /// How much of it is shown.
    pub form: SkillForm,
}

/// A selection for one turn. Journaled, so that the turn has the same skills after a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedSkills {
    /// The skills, the best first.
    pub skills: Vec<SelectedSkill>,
    /// The tools the turn is limited to by its skills, as names and patterns; `None` when they do not limit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Arc<[String]>>,
    /// How many bytes of the prompt they may take.
    pub budget_bytes: u64,
}
