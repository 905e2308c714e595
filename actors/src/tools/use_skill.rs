//! `local/use_skill`: a model asks for a skill that was not chosen for it.
//!
//! The turn answers: it has the list of its skills and their budget. What the tool itself returns reaches no model.

use super::function::{FnTool, tool};
use super::port::{Invocation, ToolError};
use bob_messages::ids::ToolName;
use bob_messages::tools::{Risk, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Use {
    /// The name of the skill, as it is listed
    #[schemars(length(min = 1, max = 64))]
    name: String,
}

const DESCRIPTION: &str = "Get the instructions of a listed skill that is not among those shown: they are part of the next step's instructions";

/// The tool by which a model asks for a skill.
pub fn use_skill() -> FnTool {
    let using = |wanted: Use, _call: Invocation| async move { Ok::<_, ToolError>(wanted.name) };
    tool(ToolName::USE_SKILL, DESCRIPTION, using).title("use skill").kind(ToolKind::Read).risk(Risk::Low).read_only()
}
