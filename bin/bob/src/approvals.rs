//! Approvals: the questions to a person, and what was decided.

pub use crate::facade::{ApprovalMemory, ApprovalPort, ApprovalQuestion, Standing};
#[cfg(feature = "mcp")]
pub use crate::facade::{Elicitation, ElicitationAnswer};
pub use bob_messages::approvals::{AskedTool, CHOICES, Decision, Scope, choices};
pub use bob_messages::ids::ApprovalId;
pub use bob_messages::input::ApprovalsMode;
pub use bob_messages::outcome::DeniedCall;
pub use bob_messages::permission::PermissionMode;
