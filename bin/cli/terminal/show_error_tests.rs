//! What is said of errors: every kind of them.

use super::*;
use bob::model::{LlmError, LlmErrorKind};
use bob::sessions::{GuardReason, TurnId};
use bob::{AgentError, SessionId};
use expect_test::expect;

/// Each error says what failed, what was kept, and what to do, in two lines.
#[test]
fn every_error_says_what_failed_what_is_kept_and_what_to_do() {
    use LlmErrorKind as Kind;
    use bob::store::StoreError as Store;
    let kinds = [
        Kind::Unavailable,
        Kind::RateLimited,
        Kind::QuotaExhausted,
        Kind::Timeout,
        Kind::Unauthorized,
        Kind::UnknownModel,
        Kind::UnknownProvider,
        Kind::MissingKey,
        Kind::ContextExceeded,
        Kind::Rejected,
        Kind::TooLarge,
        Kind::Malformed,
        Kind::NotScripted,
        Kind::NotStarted,
        Kind::Gone,
        Kind::Panicked,
    ];
    let what = || "WHAT FAILED".to_owned();
    let models = kinds.map(|kind| AgentError::from(LlmError::new(kind, format!("{kind:?}"))));
    let others = [
        AgentError::Tool(what()),
        AgentError::Skill(what()),
        AgentError::Policy(what()),
        AgentError::timeout(what(), "summary", 1),
        AgentError::GuardExceeded(GuardReason::MaxSteps),
        AgentError::busy(what()),
        AgentError::overloaded(what()),
        AgentError::Invalid(what()),
        AgentError::Internal(what()),
        AgentError::Stopped(what()),
        AgentError::Store(Store::Conflict { version: 7 }),
        AgentError::Store(Store::Fenced { epoch: 7 }),
        AgentError::Store(Store::Busy { owner: what() }),
        AgentError::Store(Store::InDoubt(what())),
        AgentError::Store(Store::Unavailable(what())),
        AgentError::Store(Store::Corrupt(what())),
        AgentError::Store(Store::TooNew { found: 9, known: 1 }),
    ];
    let mut report = String::new();
    for error in models.into_iter().chain(others) {
        for saved in [true, false] {
            let outcome = TurnOutcome { error: Some(error.clone()), saved, ..failed() };
            let said = remarks(&Show::new(false), &outcome);
            assert_eq!(said.len(), 2, "{said:?}");
            assert!(said[0].starts_with("error: ") && said.iter().all(|line| !line.contains('\n')), "{said:?}");
            let (kept, to_do) = said[1].split_once("; ").expect("what was kept, and what to do");
            assert_eq!((kept.contains("not saved"), to_do.len() > 8), (!saved, true), "{said:?}");
            if saved {
                report.push_str(&format!("{}: {}\n    {}\n", error.kind(), said[0], said[1]));
            }
        }
    }
    expect![[r#"
        llm: error: Unavailable
            [saved in session s; try again; `cli-agent doctor` checks the provider]
        llm: error: RateLimited
            [saved in session s; try again later]
        llm: error: QuotaExhausted
            [saved in session s; check the account, or use another model]
        llm: error: Timeout
            [saved in session s; try again; `cli-agent doctor` checks the provider]
        llm: error: Unauthorized
            [saved in session s; fix the API key, then retry]
        llm: error: UnknownModel
            [saved in session s; choose another model with --model]
        llm: error: UnknownProvider
            [saved in session s; choose another model with --model]
        llm: error: MissingKey
            [saved in session s; fix the API key, then retry]
        llm: error: ContextExceeded
            [saved in session s; shorten the message, or begin a new session]
        llm: error: Rejected
            [saved in session s; rephrase the message, or use another model]
        llm: error: TooLarge
            [saved in session s; ask for a shorter answer]
        llm: error: Malformed
            [saved in session s; try again, or use another model]
        llm: error: NotScripted
            [saved in session s; add the answer to the script, or record a new tape]
        llm: error: NotStarted
            [saved in session s; `cli-agent doctor` tests the start]
        llm: error: Gone
            [saved in session s; try again; `cli-agent doctor` checks the provider]
        llm: error: Panicked
            [saved in session s; report it to the author of the model's adapter]
        tool: error: WHAT FAILED
            [saved in session s; `cli-agent doctor` shows what is wrong with the tools]
        skill: error: WHAT FAILED
            [saved in session s; continue without the skill, or fix it]
        policy: error: WHAT FAILED
            [saved in session s; ask for something else, or change [policy]]
        timeout: error: WHAT FAILED
            [saved in session s; try again, or raise the timeout in [runtime]]
        guard_exceeded: error: the guard MaxSteps tripped
            [saved in session s; ask for less, or raise the limit in [runtime]]
        busy: error: WHAT FAILED
            [saved in session s; try again later]
        overloaded: error: WHAT FAILED
            [saved in session s; try again later]
        invalid: error: WHAT FAILED
            [saved in session s; correct it and send it again]
        internal: error: WHAT FAILED
            [saved in session s; try again, and report it if it happens again]
        stopped: error: WHAT FAILED
            [saved in session s; start the runtime again]
        store: error: the session is at version 7, not where this writer believed it to be
            [saved in session s; continue where the session is in use now]
        store: error: the session was taken over by another owner (epoch 7)
            [saved in session s; continue where the session is in use now]
        store: error: the session is in use by WHAT FAILED
            [saved in session s; end the other process, or take the session over with --take-over]
        store: error: it is not known whether the records were stored: WHAT FAILED
            [saved in session s; check the session before you retry]
        store: error: the store is unavailable: WHAT FAILED
            [saved in session s; check the disk and `store.path`, then retry]
        store: error: the journal is damaged: WHAT FAILED
            [saved in session s; keep the file, and continue in another session]
        store: error: the journal has format 9, this program knows 1: use the newer program
            [saved in session s; use the newer program]
    "#]]
    .assert_eq(&report);
}

fn failed() -> TurnOutcome {
    TurnOutcome::bare(SessionId::parse("s").unwrap(), TurnId::new("t"), FinishReason::Error, "")
}

#[test]
fn a_session_in_which_nothing_was_said_or_done_is_not_named_as_something_to_come_back_to() {
    let error = AgentError::from(LlmError::new(LlmErrorKind::Unauthorized, "no such key"));
    let nothing = TurnOutcome { error: Some(error), saved: true, ..failed() };
    let said = |show: Show, outcome: &TurnOutcome| remarks(&show, outcome).join("\n");
    for show in [Show::new(false).of_new_session(), Show::new(false).talking()] {
        assert_eq!(said(show, &nothing), "error: no such key\n[fix the API key, then retry]");
    }
    let named = "error: no such key\n[saved in session s; fix the API key, then retry]";
    assert_eq!(said(Show::new(false), &nothing), named, "its name was given");
    let usage = bob::model::Usage { total_tokens: 3, ..bob::model::Usage::default() };
    assert_eq!(
        said(Show::new(false).of_new_session(), &TurnOutcome { usage, ..nothing }),
        named,
        "a model has answered"
    );
}
