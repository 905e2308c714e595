//! What is known of a tool.

use super::{ToolKind, ToolSource, ToolTitle};
use crate::ids::ToolName;
use crate::risk::{Risk, RiskSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool, as seen by models, users and policy. Made by [`new`](Self::new).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolDescriptor {
    /// Its full name.
    pub id: ToolName,
    /// Its title.
    pub title: String,
    /// Its kind.
    pub kind: ToolKind,
    /// Its description for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// Whose it is.
    pub source: ToolSource,
    /// Its risk.
    pub risk: Risk,
    /// The origin of the risk.
    #[serde(default, skip_serializing_if = "RiskSource::is_program")]
    pub risk_from: RiskSource,
    /// Whether running it twice has the effect of running it once.
    pub idempotent: bool,
    /// Whether it changes nothing; such calls run in parallel.
    pub read_only: bool,
}

impl ToolDescriptor {
    /// A tool of the program with this JSON schema of its arguments: of medium risk, neither idempotent nor read-only. Its
    /// title is made of its name.
    pub fn new(id: ToolName, description: impl Into<String>, schema: Value) -> Self {
        Self {
            title: id.own_name().replace('_', " "),
            id,
            kind: ToolKind::Other,
            description: description.into(),
            schema,
            source: ToolSource::Embedded,
            risk: Risk::Medium,
            risk_from: RiskSource::Program,
            idempotent: false,
            read_only: false,
        }
    }

    /// With a title.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// Of another kind.
    #[must_use]
    pub fn with_kind(self, kind: ToolKind) -> Self {
        Self { kind, ..self }
    }

    /// From another source.
    #[must_use]
    pub fn with_source(self, source: ToolSource) -> Self {
        Self { source, ..self }
    }

    /// Of another risk.
    #[must_use]
    pub fn with_risk(self, risk: Risk) -> Self {
        Self { risk, ..self }
    }

    /// With another origin of the risk.
    #[must_use]
    pub fn with_risk_from(self, risk_from: RiskSource) -> Self {
        Self { risk_from, ..self }
    }

    /// Whether running it twice has the effect of running it once.
    #[must_use]
    pub fn with_idempotent(self, idempotent: bool) -> Self {
        Self { idempotent, ..self }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Returns the display data.
    pub fn shown(&self) -> ToolTitle {
        ToolTitle { title: self.title.clone(), kind: self.kind }
    }
}
