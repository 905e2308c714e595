//! The configuration of turns: instructions and the rules of the runtime. Not journaled, since it is derived from the
//! configuration.

use crate::agent::Agent;
use crate::ids::ModelName;
use crate::llm::ToolModeChoice;
use crate::models::ModelBook;
use crate::permission::PermissionMode;
use crate::skills::SkillRules;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};
use std::sync::Arc;

/// Default number of records between snapshots of a session.
const SNAPSHOT_EVERY: u64 = 200;

/// How turns are run here. Shared by all turns; made once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnConfig {
    /// The layers of the prompt before the history.
    pub layers: PromptLayers,
    /// Whether prompt files are looked up for each turn: their texts replace `layers`.
    #[serde(default)]
    pub reads_files: bool,
    /// How models are asked to reply.
    pub tool_mode: ToolModeChoice,
    /// The model when neither request nor session names one.
    pub default_model: ModelName,
    /// Further models for outages and rate limits.
    pub fallback: Arc<[ModelName]>,
    /// How many messages of history a prompt holds at most.
    pub max_history_messages: usize,
    /// Which share of a model's context a prompt may fill, in percent.
    pub context_percent: u32,
    /// How a longer history is condensed; `None` omits the oldest messages.
    #[serde(default)]
    pub condense: Option<CondenseRules>,
    /// Whether a question about a call offers decisions that apply to later sessions; `offer_always` of the policy.
    #[serde(default = "yes")]
    pub offer_always: bool,
    /// The folders of a session that names none; the workspace, which no session leaves.
    pub roots: Arc<[String]>,
    /// How many inputs may wait behind a running turn.
    pub max_waiting: usize,
    /// How a turn that a crash interrupted is handled.
    pub on_restart: OnRestart,
    /// How skills are selected; `None` disables skills.
    #[serde(default)]
    pub skills: Option<SkillRules>,
    /// Behind how many records of a session a snapshot of it is written; 0 writes none.
    #[serde(default)]
    pub snapshot_every: u64,
    /// What is known of models, where one is to be selected; `None` knows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Arc<ModelBook>>,
    /// What sessions that name no mode may do without asking: the policy's default.
    #[serde(default = "ask")]
    pub mode: PermissionMode,
    /// The sub-agents, each of which is a tool.
    #[serde(default)]
    pub subagents: Arc<[Agent]>,
    /// How many sub-agents work for one turn at a time.
    #[serde(default = "four")]
    pub max_parallel_subagents: usize,
}

fn ask() -> PermissionMode {
    PermissionMode::Ask
}

fn four() -> usize {
    4
}

fn yes() -> bool {
    true
}

impl TurnConfig {
    /// A turn configuration with defaults for everything but the model.
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
            offer_always: true,
            roots: Arc::from([".".to_owned()]),
            max_waiting: 8,
            on_restart: OnRestart::Report,
            skills: None,
            snapshot_every: SNAPSHOT_EVERY,
            models: None,
            mode: ask(),
            subagents: Arc::default(),
            max_parallel_subagents: four(),
        }
    }

    /// Whether a folder is inside the workspace, judged by its path alone.
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

/// How a turn that a crash interrupted is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// It is closed with a note.
    #[default]
    Report,
    /// It is finished first.
    Resume,
}

/// The texts before the history, in the order in which a model reads them. An empty one takes no room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptLayers {
    /// System text, then the files the configuration names.
    pub instructions: String,
    /// The runtime's own instructions.
    pub runtime_policy: String,
    /// Context of this installation.
    pub bootstrap: String,
    /// Memory between sessions.
    pub memory: String,
    /// Text about skills in every turn; the bodies of selected ones follow.
    pub skills: String,
    /// Notes about the tools.
    pub tool_notes: String,
}
