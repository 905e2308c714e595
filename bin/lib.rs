//! Bob: an agent runtime in which every session is an actor and everything that
//! can fail is supervised.
//!
//! Programs embed it through [`RuntimeBuilder`] and the [`AgentRuntime`] trait; the
//! ports they may implement are [`LlmPort`], [`ToolPort`], [`SessionStore`] and
//! [`EventSink`]. People meet it as the `cli-agent` program, which is made of
//! [`config`], [`sanitise`] and the front ends beside them.
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

pub mod assemble;
pub mod config;
pub mod facade;
pub mod runner;
pub mod sanitise;
pub mod tape;

pub use bob_actors::feed::EventSink;
pub use bob_actors::llm::{DeltaSink, LlmPort, ProviderLimits, ScriptedCall, ScriptedLlm, ScriptedReply};
#[cfg(feature = "mcp")]
pub use bob_actors::mcp::{HttpSpec, ServerSpec, Start as ServerStart, Transport as ServerTransport};
pub use bob_actors::metrics::{
    CallCounts, GuardCounts, LatencyBucket, LatencyFigures, LatencyQuantiles, MetricsSnapshot, RestartCounts,
    TokenCounts, TurnCounts,
};
pub use bob_actors::prompt_files::PromptFiles;
pub use bob_actors::skills::SkillPort;
#[cfg(feature = "skills")]
pub use bob_actors::skills::{SkillFolders, SkillSource};
#[cfg(feature = "sqlite")]
pub use bob_actors::store::SqliteStore;
pub use bob_actors::store::{FileStore, MemoryStore, SessionStore, StoreOptions};
pub use bob_actors::telemetry::TracingEventSink;
pub use bob_actors::tools::{FnTool, Invocation, Policy, ProgressRoom, ProgressSink, ToolError, ToolPort, tool};
pub use bob_actors::turn::compactor::ContextCompactorPort;
pub use bob_messages::chat::{ContentPart, FinishReason, GuardReason, StopReason, Usage};
pub use bob_messages::condense::{CondenseMethod, CondenseRequest, Summary};
pub use bob_messages::error::AgentError;
pub use bob_messages::event::{AgentEvent, AgentStreamEvent, Envelope, Progress, StreamItem, rebuild};
pub use bob_messages::ids::{ApprovalId, ModelName, RequestId, ResumeToken, ServerId, SessionId, ToolName, TurnId};
pub use bob_messages::journal;
pub use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmErrorKind, LlmRequest, ProviderState};
pub use bob_messages::mcp::{ServerBrief, ServerState, ServerStatus};
pub use bob_messages::session::{
    ApprovalsMode, Change, Hidden, Named, OptionsPatch, ParentTurn, Reach, ServerLaunch, SessionOptions, SessionState,
};
pub use bob_messages::sessions::{Decision, SessionsLoad, SuspendReason, TranscriptEntry};
pub use bob_messages::skills::{FrontMatter, Skill, SkillFinding, SkillForm, SkillIndex, SkillRules};
pub use bob_messages::store::{Record, SessionFilter, SessionPage, SessionSummary};
pub use bob_messages::tools::{Risk, ToolDescriptor, ToolKind, ToolOutput};
pub use bob_messages::turn::{AgentAction, Brief, CondenseRules, Limits, PromptLayers, ResumeReply};
pub use bob_supervisors::look::NodeStatus;
#[cfg(feature = "mcp")]
pub use bob_supervisors::tools::servers::Reloaded;
pub use bob_supervisors::{NodeState, TreeEnd};
pub use facade::{
    AgentBootstrap, AgentEvents, AgentRequest, AgentResponse, AgentRunResult, AgentRuntime, AgentStream,
    ApprovalMemory, ApprovalPort, ApprovalQuestion, BuildError, EventsFrom, OnDrop, Runtime, RuntimeBuilder,
    RuntimeHealth, RuntimeStatus, SessionLook, Standing,
};
#[cfg(feature = "mcp")]
pub use facade::{Elicitation, ElicitationAnswer};
pub use tokio_util::sync::CancellationToken;
