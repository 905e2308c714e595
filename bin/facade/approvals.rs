//! The port to a person.

#[cfg(feature = "mcp")]
use futures_util::future::BoxFuture;

#[cfg(feature = "mcp")]
pub use bob_actors::mcp::{Answer as ElicitationAnswer, Question as Elicitation};

/// A port to the person behind a program, for whatever only a person can say. Every
/// method has a default that says no, so that a program answers what it can show.
pub trait ApprovalPort: Send + Sync + 'static {
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

/// The port as the actors of tool servers know it.
#[cfg(feature = "mcp")]
pub(super) struct Asks(pub(super) std::sync::Arc<dyn ApprovalPort>);

#[cfg(feature = "mcp")]
impl bob_actors::mcp::Elicit for Asks {
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.0.elicit(question)
    }
}
