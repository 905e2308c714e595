//! Advice for each kind of error, in one short sentence.

use bob::AgentError;
use bob::approvals::DeniedCall;
use bob::model::{LlmError, LlmErrorKind};
use bob::store::StoreError;

/// Whether a session can be taken from this owner; a store says with its name where it cannot.
pub(crate) fn can_be_taken_from(owner: &str) -> bool {
    !owner.contains("not taken over")
}

fn about_owner(owner: &str) -> &'static str {
    match can_be_taken_from(owner) {
        true => "end the other process, or take the session over with --take-over",
        false => "end the other process, or try again when it has ended",
    }
}

/// Returns the advice, without repeating the error.
pub(crate) fn what_to_do(error: &AgentError) -> &'static str {
    match error {
        AgentError::Llm(error) => about_model(error),
        AgentError::Store(error) => about_store(error),
        AgentError::Kept(_) => "repair the store, then run the session with --finish",
        AgentError::Tool(_) => "`cli-agent doctor` shows what is wrong with the tools",
        AgentError::Skill(_) => "continue without the skill, or fix it",
        AgentError::Policy(_) => "ask for something else, or change [policy]",
        AgentError::Timeout { .. } => "try again, or raise the timeout in [runtime]",
        AgentError::GuardExceeded(_) => "ask for less, or raise the limit in [runtime]",
        AgentError::Busy { owner: Some(owner), .. } => about_owner(owner),
        AgentError::Busy { .. } | AgentError::Overloaded { .. } => "try again later",
        AgentError::Invalid(_) => "correct it and send it again",
        AgentError::Stopped(_) => "start the runtime again",
        _internal => "try again, and report it if it happens again",
    }
}

/// Reasons of an approval that a wider mode makes unnecessary.
const BY_MODE: [&str; 3] =
    ["the tool changes something", "the tool is of high risk", "its server does not say what the tool may do"];

/// What would have allowed a call that was denied by its mode, or for want of a person: options of the command line, and
/// `policy.allow`, which takes a rule about single calls. Nothing allows what the policy or a person denies.
pub(crate) fn allowed_by(denied: &DeniedCall) -> Vec<&'static str> {
    let says = |words: &str| denied.reason.contains(words);
    let is_edit = matches!(denied.name.as_str(), "local/write_file" | "local/edit_file");
    let modes = is_edit.then_some(EDITS).into_iter().chain([AUTO]);
    match says("needs a person's approval (") {
        _ if says("in the mode \"plan\"") => modes.collect(),
        true if BY_MODE.iter().any(|reason| says(&format!("({reason}"))) => modes.chain([SUSPEND, ALLOW]).collect(),
        true => vec![SUSPEND],
        false => Vec::new(),
    }
}

const EDITS: &str = "--mode edits";
const AUTO: &str = "--mode auto";
const SUSPEND: &str = "--approvals suspend";
const ALLOW: &str = "policy.allow";

/// How the calls would be allowed that were denied for want of a person, or by the mode. In a chat on a pipe no decision
/// can be put off.
pub(crate) fn to_allow(denied: &[DeniedCall], is_chat: bool) -> Option<String> {
    let all: Vec<_> = denied.iter().flat_map(allowed_by).collect();
    let has = |what: &str| all.contains(&what);
    let modes = match (has(EDITS), has(AUTO)) {
        (true, _) => Some("--mode edits allows changes of files, --mode auto also commands and other tools"),
        (false, true) => Some("--mode auto allows commands and other tools"),
        (false, false) => None,
    };
    match (modes, has(SUSPEND) && !is_chat) {
        (Some(modes), true) => Some(format!(
            "[{modes}; --approvals suspend has them decided later, and rules of [policy] allow single ones]"
        )),
        (Some(modes), false) if has(ALLOW) => Some(format!("[{modes}; rules of [policy] allow single ones]")),
        (Some(modes), false) => Some(format!("[{modes}]")),
        (None, true) => Some("[--approvals suspend has a person decide later]".to_owned()),
        (None, false) => None,
    }
}

fn about_model(error: &LlmError) -> &'static str {
    match error.kind {
        LlmErrorKind::Unavailable | LlmErrorKind::Timeout | LlmErrorKind::Gone => {
            "try again; `cli-agent doctor` checks the provider"
        }
        LlmErrorKind::RateLimited => "try again later",
        LlmErrorKind::QuotaExhausted => "check the account, or use another model",
        LlmErrorKind::Unauthorized | LlmErrorKind::MissingKey => "fix the API key, then retry",
        LlmErrorKind::UnknownModel | LlmErrorKind::UnknownProvider => "choose another model with --model",
        LlmErrorKind::ContextExceeded => "shorten the message, or begin a new session",
        LlmErrorKind::Rejected => "rephrase the message, or use another model",
        LlmErrorKind::TooLarge => "ask for a shorter answer",
        LlmErrorKind::Malformed => "try again, or use another model",
        LlmErrorKind::NotScripted => "add the answer to the script, or record a new tape",
        LlmErrorKind::Panicked => "report it to the author of the model's adapter",
        LlmErrorKind::NotStarted => "`cli-agent doctor` tests the start",
        _of_a_later_version => "try again, or use another model",
    }
}

fn about_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { owner } => about_owner(owner),
        StoreError::Unreachable { .. } => {
            "use a process of that pool, or unbind it with `sessions set ID --clear pool`"
        }
        StoreError::Conflict { .. } | StoreError::Fenced { .. } => "continue where the session is in use now",
        StoreError::InDoubt(_) => "check the session before you retry",
        StoreError::Unavailable(_) => "check the disk and `store.path`, then retry",
        StoreError::Away(_) => "check that the database runs and can be reached, then retry",
        StoreError::Corrupt(_) => "keep the file, and continue in another session",
        _written_by_a_newer_program => "use the newer program",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::tools::ToolName;
    use serde_json::json;

    fn hint(name: &str, reason: &str, is_chat: bool) -> String {
        let reason = reason.to_owned();
        let denied = DeniedCall { mode: None, name: ToolName::new(name), arguments: json!({}).into(), reason };
        to_allow(&[denied], is_chat).unwrap_or_default()
    }

    #[test]
    fn a_mode_is_named_where_it_would_have_allowed_a_call() {
        let asks = "it needs a person's approval (the tool changes something)";
        let shell = hint("local/shell_exec", asks, false);
        assert!(shell.starts_with("[--mode auto allows commands and other tools; --approvals suspend"), "{shell}");
        let write = hint("local/write_file", asks, false);
        assert!(write.starts_with("[--mode edits allows changes of files, --mode auto also commands"), "{write}");
        let chat = hint("local/shell_exec", asks, true);
        assert_eq!(chat, "[--mode auto allows commands and other tools; rules of [policy] allow single ones]");
        let rule = "it needs a person's approval (a rule of the policy)";
        assert_eq!(hint("local/shell_exec", rule, false), "[--approvals suspend has a person decide later]");
        assert_eq!(hint("local/shell_exec", rule, true), "");
    }
}
