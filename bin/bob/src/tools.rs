//! Tools: how a program makes them, what a call of one is, and the policy over all calls.
//!
//! [`tool`] makes one of an async function; [`ToolPort`] is for programs that have many, or learn of them late.

pub mod file_changes;
pub mod servers;
pub mod skills;

#[cfg(feature = "local-tools")]
pub use bob_actors::tools::local::{Kernel, Protection, SECRET_FILES, Sandbox, SandboxMode};
pub use bob_actors::tools::output::{MAX_SCHEMA_BYTES, check_schema};
pub use bob_actors::tools::policy::{DENIED_COMMANDS, Policy, PolicyError, Rules, ToolOverride};
#[cfg(feature = "web")]
pub use bob_actors::tools::web::web_fetch;
pub use bob_actors::tools::{
    Concern, FnTool, Invocation, ProgressRoom, ProgressSink, ToolError, ToolPort, schema_of, tool,
};
pub use bob_messages::chat::{CallStatus, ToolCall};
pub use bob_messages::ids::{CallId, ToolName};
pub use bob_messages::reply::SoFar;
pub use bob_messages::tools::{
    CallContext, CallTraits, FileChange, Location, Risk, RiskSource, ToolDescriptor, ToolKind, ToolOutput, ToolSet,
    ToolSource, ToolTitle,
};
