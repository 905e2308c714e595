//! Bob: an agent runtime in which every session is an actor and everything that can fail is supervised.
//!
//! Programs embed it through [`RuntimeBuilder`] and the [`AgentRuntime`] trait; the ports they may implement are
//! [`LlmPort`], [`ToolPort`], [`SessionStore`] and [`EventSink`]. [`runner`] runs one turn step by step, without
//! actors. The package `bob-config` reads `agent.toml`; the program `cli-agent` uses both.
//!
//! ```
//! use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, ScriptedLlm, ScriptedReply, SessionId};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedLlm::replies(vec![ScriptedReply::text("hello")]);
//! let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model)).build().await?;
//! let result = runtime.run(AgentRequest::text(SessionId::parse("demo")?, "hi")).await?;
//! assert_eq!(result.response().content, "hello");
//! runtime.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The most used items are at the top. Items of one port, or of one part of a runtime, are in a module of that name:
//! [`llm`], [`model_server`], [`tools`], [`store`], [`child`].

pub mod facade;
pub mod runner;
pub mod tape;

pub use bob_actors::clock;
pub use bob_actors::compactor::ContextCompactorPort;
pub use bob_actors::feed::EventSink;
pub use bob_actors::llm::{DeltaSink, LlmPort, ProviderLimits, ScriptedCall, ScriptedLlm, ScriptedReply};
pub use bob_actors::metrics::{
    LatencyBucket, LatencyFigures, LatencyQuantiles, MetricsSnapshot, RestartCounts, TokenCounts, TurnCounts,
};
#[cfg(feature = "local-tools")]
pub use bob_actors::prompt_files::{PROJECT_FILES, PromptFiles, PromptReader};
pub use bob_actors::skills::SkillPort;
#[cfg(feature = "skills")]
pub use bob_actors::skills::{SkillFolders, SkillSource};
#[cfg(feature = "sqlite")]
pub use bob_actors::store::SqliteStore;
pub use bob_actors::store::{FileStore, MemoryStore, SessionStore, StoreOptions};
pub use bob_actors::telemetry::TracingEventSink;
pub use bob_actors::tools::{FnTool, Invocation, Policy, ProgressRoom, ProgressSink, ToolError, ToolPort, tool};
pub use bob_actors::watchdog::Hook;
pub use bob_messages::approvals::{CHOICES as APPROVAL_CHOICES, Decision};
pub use bob_messages::chat::{
    CallStatus, ContentPart, FinishReason, GuardReason, Message, StopReason, ToolCall, ToolResult, Usage,
};
pub use bob_messages::condense::{CondenseMethod, CondenseRequest, Summary};
pub use bob_messages::error::AgentError;
pub use bob_messages::event::{
    AgentEvent, AgentStreamEvent, CallState, Delta, Envelope, Progress, SCHEMA as EVENT_SCHEMA, StreamItem, rebuild,
};
pub use bob_messages::ids::{
    ApprovalId, CallId, InvalidId, ModelName, RecordId, RequestId, ResumeToken, ServerId, SessionId, ToolName, TurnId,
};
pub use bob_messages::input::{ApprovalsMode, ResumeReply};
pub use bob_messages::limits::Limits;
pub use bob_messages::llm::{
    Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest, ProviderState, ToolModeChoice,
};
pub use bob_messages::mcp::{ServerBrief, ServerState, ServerStatus};
pub use bob_messages::options::{
    Change, CommandSpec, Hidden, HttpSpec, Named, OptionsPatch, ParentTurn, ServerSpec, ServerStart, ServerTransport,
    SessionOptions,
};
pub use bob_messages::outcome::{DeniedCall, SuspendReason, TranscriptEntry, TurnOutcome};
pub use bob_messages::permission::PermissionMode;
pub use bob_messages::session_state::{OpenTurn, Session};
pub use bob_messages::skills::{FrontMatter, Skill, SkillFinding, SkillForm, SkillIndex, SkillRules};
pub use bob_messages::store::{Glance, Record, SessionFilter, SessionPage, SessionState, SessionSummary};
pub use bob_messages::submission::SessionsLoad;
pub use bob_messages::tools::{Risk, RiskSource, ToolDescriptor, ToolKind, ToolOutput, ToolSource};
pub use bob_messages::turn::AgentAction;
pub use bob_messages::turn_config::{CondenseRules, OnRestart, PromptLayers, TurnConfig};
pub use bob_messages::{Millis, replay};
pub use bob_supervisors::look::NodeStatus;
#[cfg(feature = "mcp")]
pub use bob_supervisors::tools::servers::Reloaded;
pub use bob_supervisors::{NodeState, TreeEnd};
#[cfg(feature = "genai")]
pub use facade::Providers;
pub use facade::{
    Agent, AgentBootstrap, AgentEvents, AgentRequest, AgentResponse, AgentRunResult, AgentRuntime, AgentRuntimeExt,
    AgentStream, ApprovalMemory, ApprovalPort, ApprovalQuestion, AskError, BuildError, EventsFrom, OnDrop, Runtime,
    RuntimeBuilder, RuntimeHealth, RuntimeStatus, SessionLook, Standing, Typed,
};
#[cfg(feature = "mcp")]
pub use facade::{Elicitation, ElicitationAnswer};
pub use schemars;
pub use tokio_util::sync::CancellationToken;

/// Models: the adapter of real providers, and retries, circuit breakers and limits around every call.
pub mod llm {
    #[cfg(feature = "genai")]
    pub use bob_actors::llm::GenaiLlm;
    pub use bob_actors::llm::{RetryPolicy, Router, providers};
    pub use bob_messages::breaker::Down;
}

/// The programs that serve a model on this machine.
pub mod model_server {
    pub use bob_actors::model_server::{Endpoint, ModelServerSpec, ModelServers, Progress};
}

/// Tools: the rules of the policy, protected files, and the schema of a structured answer.
pub mod tools {
    #[cfg(feature = "local-tools")]
    pub use bob_actors::tools::local::{Protection, SECRET_FILES};
    pub use bob_actors::tools::output::{MAX_SCHEMA_BYTES, check_schema};
    pub use bob_actors::tools::policy::{DENIED_COMMANDS, Rules, ToolOverride};
}

/// What the turns of a session changed of files, and how it is taken back.
pub mod file_changes {
    #[cfg(feature = "local-tools")]
    pub use bob_actors::tools::local::{Undone, undo};
    pub use bob_messages::file_changes::{TurnChanges, of_records, together};
    pub use bob_messages::tools::FileChange;
}

/// The journal of a session, as a [`SessionStore`] keeps it.
pub mod store {
    pub use bob_actors::store::{Made, Stored, make_folder};
    pub use bob_messages::store::{
        Answered, Append, Claim, Ended, FORMAT, Fact, Part, StepCost, StoreError, Suspension,
    };
}

/// Processes that a runtime starts.
pub mod child {
    pub use bob_actors::child::{ChildSpec, Watcher, reap_orphans};
}
