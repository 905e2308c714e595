//! Turns as a person sees them: each story is a list of events and the pieces printed for them.

use super::*;
use bob::approvals::DeniedCall;
use bob::model::{LlmError, LlmErrorKind};
use bob::sessions::{GuardReason, ResumeToken, SuspendReason, TurnId};
use bob::tools::{ToolKind, ToolName, ToolOutput};
use bob::{AgentError, ModelName, SessionId};
use expect_test::{Expect, expect};
use serde_json::json;
use std::sync::Arc;

fn text(message: &str, text: &str) -> AgentEvent {
    chunk(message, Delta::Text(text.to_owned()))
}

fn chunk(message: &str, delta: Delta) -> AgentEvent {
    AgentEvent::LlmStreamChunk { message_id: message.to_owned(), delta }
}

fn running(id: &str, name: &str, arguments: Value) -> AgentEvent {
    let call = ToolCall {
        id: CallId::new(id),
        name: ToolName::new(name),
        argument_bytes: 0,
        arguments: arguments.into(),
        signatures: Vec::new(),
    };
    let title = name.to_owned();
    AgentEvent::ToolCalled {
        call: Arc::new(call),
        title,
        kind: ToolKind::Read,
        state: CallState::Running,
        progress: None,
    }
}

fn completed(id: &str, name: &str, status: CallStatus, output: &str) -> AgentEvent {
    let result = ToolResult {
        call: CallId::new(id),
        name: ToolName::new(name),
        status,
        output: ToolOutput::text(output),
        duration_ms: 3,
    };
    AgentEvent::ToolCompleted { result: Arc::new(result) }
}

fn finished(reason: FinishReason, content: &str) -> TurnOutcome {
    let bare = TurnOutcome::bare(SessionId::parse("s").unwrap(), TurnId::new("t"), reason, content);
    TurnOutcome { saved: true, ..bare }
}

fn check(grows: bool, events: &[AgentEvent], outcome: &TurnOutcome, expected: Expect) {
    let mut show = Show::new(grows);
    let mut pieces: Vec<Piece> = events.iter().flat_map(|event| show.event(event, Some(1))).collect();
    pieces.extend(show.outcome(outcome));
    let lines = pieces.iter().map(|piece| match piece {
        Piece::Answer(text) => format!("out {text:?}\n"),
        Piece::Note(line) | Piece::Change(line) => format!("err {line}\n"),
        Piece::Call { line, .. } => format!("err > {line}\n"),
        Piece::Result { name: None, line, .. } => format!("err   {line}\n"),
        Piece::Result { name: Some(name), line, .. } => format!("err   {name}: {line}\n"),
        Piece::NewMessage | Piece::Doing(_) | Piece::Output(_) | Piece::End => String::new(),
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn a_growing_answer_is_not_said_twice() {
    let events = [text("m1", "Hello "), text("m1", "there.")];
    check(
        true,
        &events,
        &finished(FinishReason::Final, "Hello there."),
        expect![[r#"
            out "Hello "
            out "there."
            out "\n"
        "#]],
    );
}

#[test]
fn on_a_pipe_the_answer_comes_whole() {
    let events = [text("m1", "Hello "), text("m1", "there.")];
    check(
        false,
        &events,
        &finished(FinishReason::Final, "Hello there."),
        expect![[r#"
            out "Hello there.\n"
        "#]],
    );
}

#[test]
fn calls_are_shown_as_they_happen() {
    let events = [
        text("m1", "Let me look."),
        running("c1", "local/list_dir", json!({"path": "."})),
        completed("c1", "local/list_dir", CallStatus::Ok, "a.txt\nb.txt"),
        text("m2", "Two files."),
    ];
    check(
        true,
        &events,
        &finished(FinishReason::Final, "Two files."),
        expect![[r#"
            out "Let me look."
            out "\n"
            err > local/list_dir {"path":"."}
            err   ok, 3 ms: a.txt…
            out "Two files."
            out "\n"
        "#]],
    );
}

#[test]
fn results_of_calls_side_by_side_say_whose_they_are() {
    let events = [
        running("c1", "local/read_file", json!({"path": "a"})),
        running("c2", "local/read_file", json!({"path": "b"})),
        completed("c2", "local/read_file", CallStatus::Error, "no such file"),
        completed("c1", "local/read_file", CallStatus::Ok, "text"),
        completed("c3", "local/shell_exec", CallStatus::Denied, "the policy denies it"),
    ];
    check(
        true,
        &events,
        &finished(FinishReason::Final, "Done."),
        expect![[r#"
            err > local/read_file {"path":"a"}
            err > local/read_file {"path":"b"}
            err   local/read_file: error, 3 ms: no such file
            err   ok, 3 ms: 1 line
            err   local/shell_exec: denied: the policy denies it
            out "Done.\n"
        "#]],
    );
}

#[test]
fn an_answer_that_broke_off_begins_again() {
    let retried = AgentEvent::LlmRetried {
        attempt: 1,
        of: 2,
        delay_ms: 1_250,
        model: ModelName::parse("local:m").unwrap(),
        reason: "the stream was cut".to_owned(),
    };
    let events = [text("m1", "Hel"), chunk("m1", Delta::Reset), retried, text("m1", "Hello.")];
    check(
        true,
        &events,
        &finished(FinishReason::Final, "Hello."),
        expect![[r#"
            out "Hel"
            out "\n"
            err [the answer broke off and begins again]
            err [the stream was cut; retrying local:m in 1.2 s (1/2)]
            out "Hello."
            out "\n"
        "#]],
    );
}

#[test]
fn of_a_long_reason_to_ask_again_the_beginning_is_shown() {
    let retried = AgentEvent::LlmRetried {
        attempt: 1,
        of: 2,
        delay_ms: 100,
        model: ModelName::parse("fake:m").unwrap(),
        reason: format!(
            "HTTP 500 from provider fake: the provider failed: try again later; it said: {}",
            "no ".repeat(99)
        ),
    };
    let shown = Show::new(true).event(&retried, None);
    let [Piece::Note(line)] = &shown[..] else { panic!("one line") };
    assert!(line.starts_with("[HTTP 500 from provider fake: the provider failed; it said: no no "), "{line}");
    assert!(line.ends_with("…; retrying fake:m in 0.1 s (1/2)]") && line.chars().count() < 210, "{line}");
}

#[test]
fn a_sequence_split_over_pieces_is_still_removed() {
    let events = [text("m1", "a\u{1b}]52;c;"), text("m1", "c2VjcmV0\u{7}b\u{1b}[3"), text("m1", "1mc")];
    check(
        true,
        &events,
        &finished(FinishReason::Final, "a\u{1b}]52;c;c2VjcmV0\u{7}b\u{1b}[31mc"),
        expect![[r#"
            out "a"
            out "b"
            out "c"
            out "\n"
        "#]],
    );
}

#[test]
fn what_went_wrong_is_said_once() {
    let error = AgentError::from(LlmError::new(LlmErrorKind::Unavailable, "no connection to local"));
    let outcome = TurnOutcome { error: Some(error), ..finished(FinishReason::Error, "") };
    check(
        true,
        &[],
        &outcome,
        expect![[r#"
            err error: no connection to local
            err [saved in session s; try again; `cli-agent doctor` checks the provider]
        "#]],
    );
}

#[test]
fn a_guard_and_a_denial_are_named() {
    let denied = DeniedCall {
        mode: None,
        name: ToolName::new("local/shell_exec"),
        arguments: json!({}).into(),
        reason: "the tool is of high risk".to_owned(),
    };
    let outcome = TurnOutcome {
        guard_reason: Some(GuardReason::MaxSteps),
        denied: vec![denied],
        ..finished(FinishReason::GuardExceeded, "So far.")
    };
    let tripped = AgentEvent::GuardTripped { guard: GuardReason::MaxSteps, limit: 1 };
    check(
        false,
        &[tripped],
        &outcome,
        expect![[r#"
            out "So far.\n"
            err Stopped: 1 model call used in this turn.
            err [to go on: cli-agent run --resume s --max-steps N "continue"; or raise runtime.max_steps]
            err [denied: local/shell_exec: the tool is of high risk]
        "#]],
    );
}

#[test]
fn a_cancelled_turn_that_is_not_saved_says_so() {
    let outcome = TurnOutcome { saved: false, ..finished(FinishReason::Cancelled, "Half an ans") };
    check(
        true,
        &[text("m1", "Half an ans")],
        &outcome,
        expect![[r#"
            out "Half an ans"
            out "\n"
            err [cancelled]
            err [warning: this turn could not be saved, or is not saved yet]
        "#]],
    );
}

#[test]
fn words_that_were_shown_are_not_followed_by_a_sentence_about_them() {
    check(
        true,
        &[text("m1", "Half an ans")],
        &finished(FinishReason::Cancelled, "Cancelled before there was an answer."),
        expect![[r#"
            out "Half an ans"
            out "\n"
            err [cancelled]
        "#]],
    );
}

#[test]
fn a_question_is_part_of_the_answer() {
    let outcome = TurnOutcome {
        question: Some("Which file?".to_owned()),
        suspend_reason: Some(SuspendReason::AskUser),
        token: Some(ResumeToken::new("s~1-2")),
        ..finished(FinishReason::Suspended, "")
    };
    check(
        true,
        &[],
        &outcome,
        expect![[r#"
            out "Which file?\n"
            err [the turn waits for your answer: send it as the next message of the session, or: cli-agent resume s~1-2 ANSWER]
        "#]],
    );
    check(
        true,
        &[],
        &TurnOutcome { suspend_reason: Some(SuspendReason::ApprovalRequired), ..outcome },
        expect![[r#"
            out "Which file?\n"
            err [the turn waits for a decision: cli-agent resume s~1-2 allow, or allow-session, always, deny REASON, deny-always REASON, edit JSON]
        "#]],
    );
}

/// Asked again is what the model was, and not what it would have been.
#[test]
fn a_reply_that_ends_the_turn_is_not_asked_for_again() {
    let asked = || AgentEvent::LlmRequested { model: ModelName::parse("demo:one").unwrap() };
    let malformed = || AgentEvent::ActionMalformed { complaint: "no JSON".to_owned() };
    let error = AgentError::from(LlmError::new(LlmErrorKind::Malformed, "twice in a row"));
    let outcome = TurnOutcome { error: Some(error), ..finished(FinishReason::Error, "") };
    check(
        true,
        &[asked(), malformed(), asked(), malformed()],
        &outcome,
        expect![[r#"
            err [the reply was not understood; asking again]
            err error: twice in a row
            err [saved in session s; try again, or use another model]
        "#]],
    );
}

/// A journal has what the model asked for and what came of it, and nothing of the time between.
#[test]
fn a_call_that_a_journal_has_is_shown_before_its_result() {
    let proposed = |id: &str| match running(id, "local/a", json!({"n": 1})) {
        AgentEvent::ToolCalled { call, title, kind, progress, .. } => {
            AgentEvent::ToolCalled { call, title, kind, state: CallState::Proposed, progress }
        }
        other => panic!("no call: {other:?}"),
    };
    let shown = |mut show: Show| {
        let events = [proposed("c1"), completed("c1", "local/a", CallStatus::Ok, "done")];
        events
            .iter()
            .flat_map(|event| show.event(event, Some(1)))
            .filter(|piece| matches!(piece, Piece::Call { .. }))
            .count()
    };
    assert_eq!((shown(Show::of_journal()), shown(Show::new(false))), (1, 0));
}
