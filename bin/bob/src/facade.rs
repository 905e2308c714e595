//! The facade: the public API of the runtime.
//!
//! [`RuntimeBuilder`] starts a tree of supervised actors; [`Runtime`] is its handle and the only implementation of
//! [`AgentRuntime`]. Front ends use this API and the events, and nothing below.

mod agent;
mod agent_runtime;
mod approvals;
mod artifacts;
mod ask;
mod beside_tools;
pub(crate) mod bounds;
mod boxed;
mod build;
mod builder;
mod condense;
mod context;
mod decide;
mod events;
mod file_changes;
pub(crate) mod finish;
mod health;
mod implementation;
mod journal;
mod look;
mod models;
mod options;
#[cfg(feature = "genai")]
mod providers;
mod request;
mod resume;
mod runtime;
mod seam;
mod servers;
mod sessions;
mod steer;
mod stream;
mod subagents;
mod submission;
mod subscribe;
mod taped;
mod tenant;
mod tenant_limits;

pub use agent::Agent;
pub use agent_runtime::AgentRuntime;
pub use approvals::{
    ApprovalMemory, ApprovalPort, ApprovalQuestion, Elicitation, ElicitationAnswer, LimitQuestion, Standing,
};
pub use ask::{AgentRuntimeExt, AskError, Typed};
pub use build::BuildError;
pub use builder::{AgentBootstrap, RuntimeBuilder};
pub use condense::CondensedHistory;
pub use events::AgentEvents;
#[cfg(feature = "genai")]
pub use providers::Providers;
pub use request::{AgentRequest, AgentResponse, AgentRunResult, RuntimeHealth, RuntimeStatus, SessionLook};
pub use runtime::Runtime;
pub use stream::{AgentStream, OnDrop};
pub(crate) use subagents::refusal;
pub use subscribe::EventsFrom;
pub use tenant::TenantRuntime;
pub use tenant_limits::TenantUse;
