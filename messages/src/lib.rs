//! What is said between Bob's actors, and the order in which it may be said.
//!
//! Owns the vocabulary of every room and the pure machine of a turn. Everybody
//! talks in these words; this crate itself talks to nobody. It never does I/O,
//! reads a clock, draws a random number or knows which actor library is used:
//! time, chance and the world come in as data.
//!
//! No room imports one above it, and none imports the machine but [`replay`]. From the bottom:
//!
//! | room | its mailbox | what is in it |
//! |---|---|---|
//! | [`ids`], [`trace`], [`native`], [`reply`] | – | names, trace headers, names providers accept, a reply that is given once |
//! | [`backoff`], [`breaker`] | – | how long to wait, and whether to ask at all |
//! | [`chat`], [`risk`], [`limits`] | – | messages with their parts, the risk of a call, the bounds of a turn |
//! | [`approvals`] | – | what a person is asked about a call, and what they decide |
//! | [`tools`] | [`tools::ToolsMessage`] | descriptors, verdicts, grants |
//! | [`mcp`] | – | tool servers, as they are shown |
//! | [`llm`] | [`llm::LlmMessage`] | requests, answers, capabilities, errors of a model |
//! | [`skills`], [`condense`] | – | skills, and which of them a turn gets; summaries of a history |
//! | [`error`], [`outcome`] | – | the one error of callers; how a run of a turn ended |
//! | [`options`], [`input`], [`brief`] | – | what holds for a session, what callers say to it, how its turns are run |
//! | [`store`] | [`store::StoreMessage`] | the journal's records and what a store may answer |
//! | [`submission`] | [`submission::SessionsMessage`] | the mailbox of the sessions supervisor, and what turns tell it |
//! | [`session_state`] | – | the fold of a journal: what a session is |
//! | [`event`] | – | what front ends and telemetry may see |
//! | [`turn`] | [`turn::TurnMessage`] | the machine: states as messages, effects, prompts |
//! | [`replay`] | – | a recorded journal through the machine |

pub mod approvals;
pub mod backoff;
pub mod breaker;
pub mod brief;
pub mod chat;
pub mod condense;
pub mod error;
pub mod event;
pub mod ids;
pub mod input;
pub mod limits;
pub mod llm;
pub mod mcp;
pub mod native;
pub mod options;
pub mod outcome;
pub mod replay;
pub mod reply;
pub mod risk;
pub mod session_state;
pub mod skills;
pub mod store;
pub mod submission;
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
