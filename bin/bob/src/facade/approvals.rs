//! The port to a person.

pub use bob_actors::approvals::ApprovalMemory;
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
pub use bob_actors::approvals::ApprovalPort;
pub use bob_messages::approvals::{ApprovalQuestion, LimitQuestion, Standing};
pub use bob_messages::mcp::{Elicitation, ElicitationAnswer};
