//! What a turn is told besides its input: instructions and the rules of its runtime.
//! Not journaled: it is rendered from the configuration, which holds it.

use crate::ids::ModelName;
use crate::llm::ToolModeChoice;
use crate::skills::SkillRules;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};
use std::sync::Arc;

/// Behind how many records of a session a snapshot of it is written, unless something else is said.
const SNAPSHOT_EVERY: u64 = 200;

/// How turns are run here. Shared by all turns; made once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Brief {
    /// The layers of the prompt before the history.
    pub layers: PromptLayers,
    /// Whether whoever runs turns looks files up for each of them: their texts then stand
    /// in for `layers`.
    #[serde(default)]
    pub reads_files: bool,
    /// How models shall answer.
    pub tool_mode: ToolModeChoice,
    /// The model when neither request nor session names one.
    pub default_model: ModelName,
    /// Further models for outages and rate limits.
    pub fallback: Arc<[ModelName]>,
    /// How many messages of history a prompt holds at most.
    pub max_history_messages: usize,
    /// Which share of a model's context a prompt may fill, in percent.
    pub context_percent: u32,
    /// What becomes of a history that fills more than that; `None` leaves the oldest out.
    #[serde(default)]
    pub condense: Option<CondenseRules>,
    /// The folders of a session that names none; the workspace, which no session leaves.
    pub roots: Arc<[String]>,
    /// How many inputs may wait behind a running turn.
    pub max_waiting: usize,
    /// What becomes of a turn that a crash of the program interrupted.
    pub on_restart: OnRestart,
    /// How skills are chosen; `None` where there are none, and then nobody is asked for them.
    #[serde(default)]
    pub skills: Option<SkillRules>,
    /// Behind how many records of a session a snapshot of it is written; 0 writes none.
    #[serde(default)]
    pub snapshot_every: u64,
}

impl Brief {
    /// A brief with defaults for everything but the model.
    pub fn new(default_model: ModelName) -> Self {
        Self {
            layers: PromptLayers::default(),
            reads_files: false,
            tool_mode: ToolModeChoice::Auto,
            default_model,
            fallback: Arc::from([]),
            max_history_messages: 50,
            context_percent: 75,
            condense: Some(CondenseRules::default()),
            roots: Arc::from([".".to_owned()]),
            max_waiting: 8,
            on_restart: OnRestart::Report,
            skills: None,
            snapshot_every: SNAPSHOT_EVERY,
        }
    }

    /// Whether a folder is inside the workspace, as far as its name tells.
    pub fn holds(&self, folder: &str) -> bool {
        let folder = Path::new(folder);
        let plain = |component: Component<'_>| !matches!(component, Component::ParentDir);
        folder.components().all(plain) && self.roots.iter().any(|root| folder.starts_with(root))
    }
}

/// How a history that is too long becomes a summary and its newest messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CondenseRules {
    /// Which share of a model's context the prompt fills afterwards at most, in percent.
    pub target_percent: u32,
    /// The model that writes the summary; `None` for the turn's own.
    pub model: Option<ModelName>,
}

impl Default for CondenseRules {
    fn default() -> Self {
        Self { target_percent: 40, model: None }
    }
}

/// What becomes of a turn that a crash of the program interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// It is closed with a note.
    #[default]
    Report,
    /// It is finished first.
    Resume,
}

/// The texts before the history, in the order in which a model reads them.
/// An empty one takes no room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptLayers {
    /// System text, then the files the configuration names.
    pub instructions: String,
    /// What the runtime itself has to say.
    pub runtime_policy: String,
    /// Context of this installation.
    pub bootstrap: String,
    /// What is remembered between sessions.
    pub memory: String,
    /// What is said of skills in every turn; those chosen for a turn come behind it.
    pub skills: String,
    /// Notes about the tools.
    pub tool_notes: String,
}
