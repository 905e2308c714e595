//! The port to a person.

use bob_actors::approvals::Approve;
use bob_messages::approvals::Decision;
use futures_util::future::BoxFuture;
use std::sync::Arc;

pub use bob_actors::approvals::ApprovalMemory;
pub use bob_messages::approvals::{ApprovalQuestion, LimitQuestion, Standing};
pub use bob_messages::mcp::{Elicitation, ElicitationAnswer};

/// Port for questions that only a person can answer. Every method has a default that declines, so a program
/// implements what it can show.
///
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
pub trait ApprovalPort: Send + Sync + 'static {
    /// Asks for approval of a call, in a turn whose request uses
    /// [`ApprovalsMode::Wait`](bob_messages::input::ApprovalsMode). Runs in its own task; several questions may be
    /// open at a time, also for one session.
    ///
    /// The first decision wins: this one, or [`AgentRuntime::decide`](super::AgentRuntime::decide). The future is
    /// dropped when another decision came first, when the question expires, or when the turn ends; after a crash of
    /// the turn's actor the question is asked again. A panic denies.
    ///
    /// Texts in the question come from the model and the tool; sanitise them before showing them in a terminal.
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        drop(question);
        let reason = "no approval is possible here".to_owned();
        Box::pin(std::future::ready(Decision::Deny { reason }))
    }

    /// Asks whether a turn goes on that reached one of its limits, if its request has
    /// [`ask_at_limits`](super::AgentRequest::ask_at_limits). With `true` the turn has as much of that limit again; else it
    /// ends, as it does after [`approval_timeout_ms`](bob_messages::limits::Limits::approval_timeout_ms) without an answer.
    /// The future is dropped when [`AgentRuntime::decide`](super::AgentRuntime::decide) was first, when a turn without
    /// progress makes some, or when the turn ends. A panic ends the turn. The default is no.
    fn go_on(&self, question: LimitQuestion) -> BoxFuture<'_, bool> {
        drop(question);
        Box::pin(std::future::ready(false))
    }

    /// Answers a form of a few flat fields that a tool server requests during a call. Its texts come from the server;
    /// sanitise them before showing them in a terminal. The future is dropped when the server withdraws the request
    /// or ends, or after ten minutes without an answer. Fields left out of an accepted form get the defaults of its
    /// schema. Without the feature `mcp` no server asks.
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        drop(question);
        Box::pin(std::future::ready(ElicitationAnswer::Decline))
    }
}

/// The port as the actors know it.
pub(super) struct Asks(pub(super) Arc<dyn ApprovalPort>);

impl Approve for Asks {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        self.0.approve(question)
    }

    fn go_on(&self, question: LimitQuestion) -> BoxFuture<'_, bool> {
        self.0.go_on(question)
    }
}

#[cfg(feature = "mcp")]
impl bob_actors::mcp::Elicit for Asks {
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.0.elicit(question)
    }
}
