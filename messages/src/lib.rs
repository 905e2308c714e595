//! Messages between actors, and the pure state machine of a turn.
//!
//! This crate never does I/O, reads a clock, draws a random number or depends on an actor library: time, chance and
//! the outside world are passed in as data.
//!
//! No module imports one above it in this table, and only [`replay`] imports the machine:
//!
//! | module | mailbox | contents |
//! |---|---|---|
//! | [`ids`], [`trace`], [`native`], [`reply`] | – | identifiers, trace headers, names that providers accept, single-use replies |
//! | [`backoff`], [`breaker`] | – | retry delays, circuit breaker |
//! | [`cause`] | – | what an error comes from |
//! | [`context`] | – | on whose behalf a request is made |
//! | [`models`] | [`models::ModelsMessage`] | the catalogue of models, prices, and how a model is selected |
//! | [`chat`], [`cost`], [`risk`], [`permission`], [`limits`] | – | messages with their parts, amounts of money, the risk of a call, the permission mode of a session, the limits of a turn |
//! | [`approvals`] | – | questions about calls, and decisions |
//! | [`tools`] | [`tools::ToolsMessage`] | descriptors, verdicts, grants |
//! | [`pool`] | – | the tool servers that not all sessions share |
//! | [`mcp`] | – | tool servers and their states |
//! | [`llm`] | [`llm::LlmMessage`] | requests, answers, capabilities, errors of a model |
//! | [`skills`], [`condense`] | – | skills and their selection; summaries of a history |
//! | [`error`], [`outcome`] | – | the error type of callers; outcomes of turns |
//! | [`artifact`] | – | large content that is kept beside the journal |
//! | [`options`], [`agent`] | – | options of a session; agents as values, and what a sub-agent may use |
//! | [`input`], [`turn_config`] | – | requests of callers, configuration of turns |
//! | [`store`] | [`store::StoreMessage`] | the records of the journal, and replies of a store |
//! | [`inbox`] | – | messages to sessions that a store keeps until their effect is in the journal |
//! | [`tenants`], [`admission`], [`share`] | – | limits of tenants and what they spent; how many turns run at once, and which is next; what one of several processes has of a limit |
//! | [`submission`] | [`submission::SessionsMessage`] | the mailbox of the sessions supervisor, and reports of turns |
//! | [`session_state`], [`file_changes`] | – | a session, folded from its journal; what its turns changed of files |
//! | [`event`] | – | events for front ends and telemetry |
//! | [`turn`] | [`turn::TurnMessage`] | the machine: states as messages, effects, prompts |
//! | [`replay`] | – | replays a recorded journal through the machine |

pub mod admission;
pub mod agent;
pub mod approvals;
pub mod artifact;
pub mod backoff;
pub mod breaker;
pub mod cause;
pub mod chat;
pub mod condense;
pub mod context;
pub mod cost;
pub mod error;
pub mod event;
pub mod file_changes;
pub mod ids;
pub mod inbox;
pub mod input;
pub mod limits;
pub mod llm;
pub mod mcp;
pub mod models;
pub mod native;
pub mod options;
pub mod outcome;
pub mod permission;
pub mod pool;
pub mod replay;
pub mod reply;
pub mod risk;
pub mod session_state;
pub mod share;
pub mod skills;
pub mod store;
pub mod submission;
pub mod tenants;
pub mod tools;
pub mod trace;
pub mod turn;
pub mod turn_config;

/// Milliseconds since the Unix epoch.
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
