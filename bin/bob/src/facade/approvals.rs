//! The port to a person.

use bob_actors::people::Approve;
use bob_messages::approvals::Decision;
use futures_util::future::BoxFuture;
use std::sync::Arc;

#[cfg(feature = "mcp")]
pub use bob_actors::mcp::{Answer as ElicitationAnswer, Question as Elicitation};
pub use bob_actors::people::ApprovalMemory;
pub use bob_messages::approvals::{ApprovalQuestion, Standing};

/// A port to the person behind a program, for whatever only a person can say. Every
/// method has a default that says no, so that a program answers what it can show.
pub trait ApprovalPort: Send + Sync + 'static {
    /// A call of a turn whose request says
    /// [`ApprovalsMode::Wait`](bob_messages::input::ApprovalsMode) needs a person. Asked
    /// in a task of its own; several questions may be open at a time, also of one session.
    ///
    /// Whoever decides first counts: this answer, or
    /// [`AgentRuntime::decide`](super::AgentRuntime::decide). The future is dropped when
    /// somebody else was first, when the question's time is over, or when the turn ends;
    /// after a crash of the turn's actor the same question is asked again. A panic denies.
    ///
    /// Texts in the question are the model's and the tool's own: they are to be cleaned
    /// before a terminal shows them.
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        drop(question);
        let reason = "nobody can be asked here".to_owned();
        Box::pin(std::future::ready(Decision::Deny { reason }))
    }

    /// A tool server asks the person something in the middle of a call: a form of a few
    /// flat fields. What it asks is the server's own text, to be cleaned before a
    /// terminal shows it. The future is dropped when the server takes its question back,
    /// when it ends, or when nobody has answered for ten minutes. Fields left out of an
    /// accepted form get the defaults of its schema.
    #[cfg(feature = "mcp")]
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
}

#[cfg(feature = "mcp")]
impl bob_actors::mcp::Elicit for Asks {
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.0.elicit(question)
    }
}
