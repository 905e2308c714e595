//! The port to a person.

pub use bob_actors::approvals::{ApprovalMemory, ApprovalPort};
pub use bob_messages::approvals::{ApprovalQuestion, LimitQuestion, Standing};
pub use bob_messages::mcp::{Elicitation, ElicitationAnswer};
