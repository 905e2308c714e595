//! What is said between Bob's actors, and the order in which it may be said.
//!
//! Owns the vocabulary of every room and the pure machine of a turn. Everybody
//! talks in these words; this crate itself talks to nobody. It never does I/O,
//! reads a clock, draws a random number or knows which actor library is used:
//! time, chance and the world come in as data.
//!
//! | room | its mailbox | what is in it |
//! |---|---|---|
//! | [`turn`] | [`turn::TurnMessage`] | the machine: states as messages, effects, guards, prompts |
//! | [`llm`] | [`llm::LlmMessage`] | requests, answers, capabilities, errors of a model |
//! | [`tools`] | [`tools::ToolsMessage`] | descriptors, verdicts, grants, outputs |
//! | [`mcp`] | – | tool servers, as they are shown |
//! | [`skills`] | – | skills, and which of them a turn gets |
//! | [`store`] | [`store::StoreMessage`] | the journal's records and what a store may answer |
//! | [`sessions`] | [`sessions::SessionsMessage`] | submissions, outcomes, ends |
//! | [`session`] | – | the fold of a journal: what a session is |
//! | [`event`] | – | what front ends and telemetry may see |
//! | [`approvals`] | – | what a person is asked about a call |
//! | [`backoff`], [`breaker`] | – | how long to wait, and whether to ask at all |

pub mod approvals;
pub mod backoff;
pub mod breaker;
pub mod chat;
pub mod condense;
pub mod error;
pub mod event;
pub mod ids;
pub mod journal;
pub mod llm;
pub mod mcp;
pub mod native;
pub mod reply;
pub mod session;
pub mod sessions;
pub mod skills;
pub mod store;
pub mod tools;
pub mod trace;
pub mod turn;

/// Milliseconds since the Unix epoch, as told by whoever owns a clock.
pub type Millis = i64;

/// A turn is plain data: it can be printed, compared, saved, sent and resumed.
const _: fn() = || {
    fn plain_data<T>()
    where
        T: Clone + PartialEq + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
    }
    plain_data::<turn::Turn>();
    plain_data::<turn::TurnMessage>();
    plain_data::<turn::Effect>();
    plain_data::<store::Record>();
};
