//! What a turn is told besides its input: instructions and rules of the house.
//! Not journaled: it is rendered from the configuration, which holds it.

use crate::ids::ModelName;
use crate::llm::ToolModeChoice;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};
use std::sync::Arc;

/// How turns are run here. Shared by all turns; made once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Brief {
    /// The layers of the prompt before the history.
    pub layers: PromptLayers,
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
    /// The folders of a session that names none; the workspace, which no session leaves.
    pub roots: Arc<[String]>,
    /// How many inputs may wait behind a running turn.
    pub max_waiting: usize,
    /// What becomes of a turn that a crash of the program interrupted.
    pub on_restart: OnRestart,
}

impl Brief {
    /// A brief with defaults for everything but the model.
    pub fn new(default_model: ModelName) -> Self {
        Self {
            layers: PromptLayers::default(),
            tool_mode: ToolModeChoice::Auto,
            default_model,
            fallback: Arc::from([]),
            max_history_messages: 50,
            context_percent: 75,
            roots: Arc::from([".".to_owned()]),
            max_waiting: 8,
            on_restart: OnRestart::Report,
        }
    }

    /// Whether a folder is inside the workspace, as far as its name tells.
    pub fn holds(&self, folder: &str) -> bool {
        let folder = Path::new(folder);
        let plain = |component: Component<'_>| !matches!(component, Component::ParentDir);
        folder.components().all(plain) && self.roots.iter().any(|root| folder.starts_with(root))
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
    /// A summary table of skills, then the bodies of the chosen ones.
    pub skills: String,
    /// Notes about the tools.
    pub tool_notes: String,
}
