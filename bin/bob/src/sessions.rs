//! Sessions: their options, their turns with inputs and outcomes, and how a suspended turn is resumed.

pub use crate::facade::{CondensedHistory, SessionLook};
pub use bob_messages::chat::{FinishReason, GuardReason};
pub use bob_messages::ids::{InvalidId, PoolName, RequestId, ResumeToken, TurnId};
pub use bob_messages::input::ResumeReply;
pub use bob_messages::options::{Change, OnParentEnd, OptionsPatch, ParentTurn, SessionOptions};
pub use bob_messages::outcome::{SuspendReason, TranscriptEntry, TurnOutcome};
pub use bob_messages::store::{SessionFilter, SessionPage, SessionState, SessionSummary};
pub use tokio_util::sync::CancellationToken;
