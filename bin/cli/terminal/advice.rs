//! What a person can do about an error: one short sentence for each kind there is.

use bob::store::StoreError;
use bob::{AgentError, LlmError, LlmErrorKind};

/// What to do, to be read after what was kept. Says nothing of the fault itself, which the error does.
pub(crate) fn what_to_do(error: &AgentError) -> &'static str {
    match error {
        AgentError::Llm(error) => about_model(error),
        AgentError::Store(error) => about_store(error),
        AgentError::Kept(_) => "see to the store, then run the session with --finish",
        AgentError::Tool(_) => "`cli-agent doctor` shows what is wrong with the tools",
        AgentError::Skill(_) => "go on without the skill, or mend it",
        AgentError::Policy(_) => "ask for something else, or change [policy]",
        AgentError::Timeout(_) => "try again, or raise the timeout in [runtime]",
        AgentError::GuardExceeded(_) => "ask for less, or raise the limit in [runtime]",
        AgentError::Busy(_) | AgentError::Overloaded(_) => "try again later",
        AgentError::Invalid(_) => "correct it and send it again",
        AgentError::Internal(_) => "try again, and report it if it happens again",
    }
}

fn about_model(error: &LlmError) -> &'static str {
    match error.kind {
        LlmErrorKind::Unavailable | LlmErrorKind::Timeout | LlmErrorKind::Gone => {
            "try again; `cli-agent doctor` checks the provider"
        }
        LlmErrorKind::RateLimited => "try again later",
        LlmErrorKind::QuotaExhausted => "see to the account, or use another model",
        LlmErrorKind::Unauthorized | LlmErrorKind::MissingKey => "mend the key and send it again",
        LlmErrorKind::UnknownModel | LlmErrorKind::UnknownProvider => "name another model with --model",
        LlmErrorKind::ContextExceeded => "say less, or begin a new session",
        LlmErrorKind::Rejected => "say it differently, or use another model",
        LlmErrorKind::TooLarge => "ask for a shorter answer",
        LlmErrorKind::Malformed => "try again, or use another model",
        LlmErrorKind::NotScripted => "add the answer to the script, or record the tape anew",
        LlmErrorKind::NotStarted => "mend its start command; `cli-agent doctor` tries it",
    }
}

fn about_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { .. } => "end the other process, or use another session",
        StoreError::Conflict { .. } | StoreError::Fenced { .. } => "go on where the session is used now",
        StoreError::InDoubt(_) => "look at the session before you send it again",
        StoreError::Unavailable(_) => "see to the disk and `store.path`, then send it again",
        StoreError::Corrupt(_) => "keep the file, and go on in another session",
        StoreError::TooNew { .. } => "use the newer program",
    }
}
