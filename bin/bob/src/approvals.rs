//! Approvals: the questions to a person, and what was decided.

/// The port of lasting decisions, for [`RuntimeBuilder::approval_memory`](crate::RuntimeBuilder::approval_memory).
///
/// ```
/// use bob::approvals::{ApprovalMemory, Standing};
/// use bob::context::Identity;
/// use bob::tools::ToolName;
/// use std::sync::{Arc, Mutex, PoisonError};
///
/// /// Keeps decisions for as long as the program runs.
/// #[derive(Default)]
/// struct Decisions(Mutex<Vec<Arc<Standing>>>);
///
/// impl ApprovalMemory for Decisions {
///     fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
///         let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
///         kept.iter().filter(|one| one.tool == *tool && one.identity == *identity).cloned().collect()
///     }
///
///     fn keep(&self, standing: Arc<Standing>) {
///         standing.join(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
///     }
/// }
/// ```
pub use crate::facade::ApprovalMemory;
/// ```
/// use bob::BoxFuture;
/// use bob::approvals::{ApprovalPort, ApprovalQuestion, Decision};
/// use tokio::sync::{mpsc, oneshot};
///
/// /// Sends each question to the part of the program that shows it.
/// struct Desk(mpsc::Sender<(ApprovalQuestion, oneshot::Sender<Decision>)>);
///
/// impl ApprovalPort for Desk {
///     fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
///         Box::pin(async move {
///             let (decide, decision) = oneshot::channel();
///             let _closed_is_a_no = self.0.send((question, decide)).await;
///             decision.await.unwrap_or_else(|_| Decision::Deny { reason: "no person is at the desk".into() })
///         })
///     }
/// }
/// ```
pub use crate::facade::ApprovalPort;
pub use crate::facade::{ApprovalQuestion, Elicitation, ElicitationAnswer, LimitQuestion, Standing};
pub use bob_messages::approvals::{AskedTool, CHOICES, Decision, Scope, choices};
pub use bob_messages::ids::ApprovalId;
pub use bob_messages::input::ApprovalsMode;
pub use bob_messages::outcome::DeniedCall;
pub use bob_messages::permission::PermissionMode;
