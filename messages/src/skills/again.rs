//! Choosing the skills of a turn again: why, what is asked for, and what was chosen.

use super::SelectedSkills;
use crate::context::RequestContext;
use crate::ids::SessionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why the skills of a turn are chosen again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReselectCause {
    /// The user steered the running turn.
    Steered,
    /// The history was condensed.
    Condensed,
    /// Two tool calls in a row failed.
    ToolErrors,
    /// The model asked for a skill.
    UseSkill,
}

impl ReselectCause {
    /// Whether it is the user's own doing, and not that of a model or a tool.
    pub fn is_of_user(self) -> bool {
        self == Self::Steered
    }
}

/// A later selection of a turn's skills, which replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reselected {
    /// What happened since the selection before, each kind once, in order of first occurrence.
    pub causes: Vec<ReselectCause>,
    /// The selection.
    pub skills: SelectedSkills,
}

/// How many failed calls in a row are a cause.
const FAILURES: u32 = 2;

/// What a turn has that is to choose its skills again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reselecting {
    /// The causes since the last selection, each kind once, in order of first occurrence.
    pub due: Vec<ReselectCause>,
    /// How many causes there were in the turn.
    pub causes: u32,
    /// The skills the model asked for, oldest first.
    pub named: Vec<String>,
    /// How many calls in a row failed since the last success or the last such cause.
    failed: u32,
}

impl Reselecting {
    /// There is a cause.
    pub fn note(&mut self, cause: ReselectCause) {
        self.causes = self.causes.saturating_add(1);
        if !self.due.contains(&cause) {
            self.due.push(cause);
        }
    }

    /// A call of a tool ended.
    pub fn note_result(&mut self, is_failed: bool) {
        self.failed = if is_failed { self.failed + 1 } else { 0 };
        if self.failed >= FAILURES {
            self.failed = 0;
            self.note(ReselectCause::ToolErrors);
        }
    }

    /// The model asked for a skill and may have it.
    pub fn name(&mut self, skill: &str) {
        if !self.named.iter().any(|named| named == skill) {
            self.named.push(skill.to_owned());
            self.note(ReselectCause::UseSkill);
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What skills are wanted for; sent to the port with the request for its index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillQuery {
    /// The session; `None` outside of one.
    pub session: Option<SessionId>,
    /// What the user said in the turn, the newest first, each part cut to 64 KiB.
    pub text: String,
    /// Further text about the turn: a summary of its history, or what failed calls said.
    pub beside: String,
    /// The labels of the request.
    pub labels: BTreeMap<String, String>,
    /// The context of the turn's request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<RequestContext>>,
    /// The role of the session's agent.
    pub role: Option<Arc<str>>,
    /// Why skills are chosen again; empty for the first selection of a turn.
    pub causes: Vec<ReselectCause>,
}

/// How well skills fit a query, in thousandths, by name. Less than 100 is irrelevant, and so is a skill that is not in it.
pub type SkillScores = BTreeMap<String, u32>;
