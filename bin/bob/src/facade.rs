//! The facade: what a program that embeds the runtime sees.
//!
//! [`RuntimeBuilder`] starts a tree of supervised actors; [`Runtime`] is the handle
//! to it and the one implementation of [`AgentRuntime`]. Front ends see this and
//! the events, and nothing below it.

mod agent_runtime;
mod approvals;
mod build;
mod builder;
mod decide;
mod finish;
mod health;
mod implementation;
mod options;
mod request;
mod resume;
mod runtime;
mod seam;
mod servers;
mod sessions;
mod steer;
mod stream;
mod submission;
mod subscribe;
mod taped;

pub use agent_runtime::AgentRuntime;
pub use approvals::{ApprovalMemory, ApprovalPort, ApprovalQuestion, Standing};
#[cfg(feature = "mcp")]
pub use approvals::{Elicitation, ElicitationAnswer};
pub use build::BuildError;
pub use builder::{AgentBootstrap, RuntimeBuilder};
pub use request::{AgentRequest, AgentResponse, AgentRunResult, RuntimeHealth, RuntimeStatus, SessionLook};
pub use runtime::Runtime;
pub use stream::{AgentStream, OnDrop};
pub use subscribe::{AgentEvents, EventsFrom};
