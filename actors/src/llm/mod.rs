//! The model side: who may ask which provider when, and how often.
//!
//! Owns admission to the providers, the retries (they are made nowhere else) and the pieces of text that are shown
//! while an answer grows. Turns talk to it in [`LlmMessage`](bob_messages::llm::LlmMessage)s; it talks to providers
//! through the [`LlmPort`]. It never waits for a provider in a handler, reads an answer's meaning or journals anything.
//!
//! | file | what it holds |
//! |---|---|
//! | [`actor`] | the mailbox: one task per call |
//! | `attempts`, `bounds`, [`retry`], `budget`, `breakers` | one call with its retries and fallbacks |
//! | `admission`, `fairness` | places at a provider, and whose turn it is |
//! | [`port`], [`deltas`], `envelope` | what a provider must do, and what is shown meanwhile |
//! | [`providers`] | the well-known providers and what their models can do |
//! | [`scripted`] | a model that answers from a script |
//! | [`router`] | several ports behind one |
//! | `caught` | a port whose panics are caught |
//! | `estimate` | how many tokens a port takes a prompt for |
//! | `contract` | the contract suites of the port (feature `testing`) |
//! | `genai` | real providers over HTTP (feature `genai`) |

pub mod actor;
mod admission;
mod arguments;
mod attempts;
mod bounds;
mod breakers;
mod budget;
mod caught;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod deltas;
mod envelope;
mod estimate;
mod fairness;
#[cfg(feature = "genai")]
pub mod genai;
pub mod port;
pub mod providers;
pub mod retry;
pub mod router;
pub mod scripted;
#[cfg(test)]
pub(crate) mod testing;

pub use actor::LlmActor;
pub use arguments::LlmArguments;
pub use breakers::DEFAULT_BREAKER;
pub use caught::caught;
#[cfg(any(test, feature = "testing"))]
pub use contract::Heard;
pub use deltas::DeltaSink;
pub use estimate::tokens_per_kb;
#[cfg(feature = "genai")]
pub use genai::GenaiLlm;
pub use port::{LlmPort, ProviderLimits, Readiness};
pub use retry::RetryPolicy;
pub use router::Router;
pub use scripted::{ScriptError, ScriptedCall, ScriptedLlm, ScriptedReply, ScriptedRule};

use bob_messages::llm::{LlmError, LlmErrorKind};

/// What is said of a question to a model room that went away, or of one that is dropped while its port panics.
pub(crate) fn gone() -> LlmError {
    if std::thread::panicking() {
        return panicked();
    }
    LlmError::new(LlmErrorKind::Gone, "the model room was restarted during the call; try again")
}

fn panicked() -> LlmError {
    LlmError::new(LlmErrorKind::Panicked, "the port of the model panicked: it has a fault of its own")
}
