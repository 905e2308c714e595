//! Stories of single turns: what is said, and what the machine asks of the world.

use super::message::{Recover, ResumeReply};
use super::world::{Question, World, answer, input};
use super::{Brief, Limits, TurnMessage};
use crate::chat::{CallStatus, StopReason};
use crate::ids::ResumeToken;
use crate::llm::{LlmAnswer, LlmError, LlmErrorKind, ToolModeChoice};
use crate::session::{ApprovalsMode, TurnInput};
use crate::sessions::{Decision, EndReason, TurnNews};
use crate::store::StoreError;
use expect_test::{Expect, expect};
use std::fmt::Write;
use std::sync::Arc;

/// Plays a story and compares what the machine asked for.
///
/// `user TEXT` · `llm TEXT` · `calls NAME JSON; NAME JSON` · `cut TEXT` ·
/// `refuse TEXT` · `llm-fails` · `ok ID TEXT` · `error ID TEXT` · `stop REASON` ·
/// `crash` (and a new actor goes on) · `restart TEXT` (a new program with an input)
/// · `approve ID` · `deny ID` · `resume TOKEN TEXT` · `store-fails`
pub(super) fn check(setup: Setup, steps: &[&str], expected: Expect) {
    let mut told = Teller::new(setup);
    for step in steps {
        told.step(step);
    }
    expected.assert_eq(&told.trace);
}

#[derive(Clone)]
pub(super) struct Setup {
    pub(super) brief: Brief,
    pub(super) limits: Limits,
    pub(super) approvals: ApprovalsMode,
}

pub(super) fn native() -> Setup {
    let brief = Brief::new(super::world::model());
    Setup { brief, limits: Limits::default(), approvals: ApprovalsMode::Deny }
}

fn json() -> Setup {
    let mut setup = native();
    setup.brief.tool_mode = ToolModeChoice::Json;
    setup
}

fn limited(change: impl FnOnce(&mut Limits)) -> Setup {
    let mut setup = native();
    change(&mut setup.limits);
    setup
}

struct Teller {
    world: World,
    setup: Setup,
    trace: String,
    inputs: u32,
    said: usize,
    store_fails: bool,
}

impl Teller {
    fn new(setup: Setup) -> Self {
        let world = World::new(setup.brief.clone());
        Self { world, setup, trace: String::new(), inputs: 0, said: 0, store_fails: false }
    }

    fn next_input(&mut self, text: &str) -> Arc<TurnInput> {
        self.inputs += 1;
        Arc::new(TurnInput { approvals: self.setup.approvals, ..input(self.inputs, text, self.setup.limits) })
    }

    fn step(&mut self, step: &str) {
        writeln!(self.trace, "> {step}").unwrap();
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (id, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let brief = Arc::clone(&self.world.brief);
        match word {
            "user" => {
                let input = self.next_input(rest);
                self.say(TurnMessage::Start { input, brief });
            }
            "llm" => self.llm(Ok(answer(rest, &[]))),
            "calls" => {
                let calls: Vec<_> = rest.split("; ").filter_map(|call| call.split_once(' ')).collect();
                self.llm(Ok(answer("", &calls)));
            }
            "cut" => self.llm(Ok(LlmAnswer { stop_reason: StopReason::MaxTokens, ..answer(rest, &[]) })),
            "refuse" => self.llm(Ok(LlmAnswer { stop_reason: StopReason::Refusal, ..answer(rest, &[]) })),
            "llm-fails" => self.llm(Err(LlmError::new(LlmErrorKind::Unavailable, "the provider is down"))),
            "ok" => self.tool(id, CallStatus::Ok, text),
            "error" => self.tool(id, CallStatus::Error, text),
            "stop" => self.say(TurnMessage::Stopped { reason: rest.parse().unwrap() }),
            "crash" => {
                self.world.crash();
                self.say(TurnMessage::Wake { brief, recover: Recover::Continue });
            }
            "killed" => {
                self.world.crash();
                self.say(TurnMessage::Wake { brief, recover: Recover::Close(EndReason::Cancelled) });
            }
            "restart" => {
                self.world.crash();
                let input = self.next_input(rest);
                self.say(TurnMessage::Start { input, brief });
            }
            "approve" => {
                self.say(TurnMessage::Decided {
                    approval: crate::ids::ApprovalId::new(rest),
                    decision: Decision::AllowOnce,
                });
            }
            "deny" => {
                let decision = Decision::Deny { reason: "not today".into() };
                self.say(TurnMessage::Decided { approval: crate::ids::ApprovalId::new(rest), decision });
            }
            "resume" => {
                self.inputs += 1;
                let submission = crate::ids::TurnId::new(format!("t{}", self.inputs));
                let reply = match text {
                    "allow" => ResumeReply::Decision(Decision::AllowOnce),
                    text => ResumeReply::Answer(text.to_owned()),
                };
                self.say(TurnMessage::Resume { submission, token: ResumeToken::new(id), reply, brief });
            }
            "steer" => self.say(TurnMessage::Steered { parts: vec![crate::chat::ContentPart::text(rest)] }),
            "store-fails" => self.store_fails = true,
            other => panic!("no such step: {other}"),
        }
    }

    fn llm(&mut self, result: Result<LlmAnswer, LlmError>) {
        let is = |q: &Question| matches!(q, Question::Infer(..));
        let at = self.world.questions.iter().position(is).expect("the model was asked");
        let Question::Infer(ticket, _) = self.world.questions.remove(at) else { unreachable!() };
        self.say(TurnMessage::ParseAction { ticket, result: result.map(Arc::new) });
    }

    fn tool(&mut self, id: &str, status: CallStatus, text: &str) {
        let is = |q: &Question| matches!(q, Question::Call(_, call) if call.id.as_str().ends_with(id));
        let at = self.world.questions.iter().position(is).expect("the call runs");
        let Question::Call(ticket, _) = self.world.questions.remove(at) else { unreachable!() };
        let output =
            crate::tools::ToolOutput { is_error: status != CallStatus::Ok, ..crate::tools::ToolOutput::text(text) };
        let returned = crate::tools::ToolReturn { status, output, duration_ms: 1 };
        self.say(TurnMessage::ToolReturned { ticket, returned });
    }

    /// One message, then everything the rooms answer at once; what is asked is written down.
    fn say(&mut self, message: TurnMessage) {
        let before: Vec<_> = self.world.questions.clone();
        self.world.say(message);
        self.write_down(&before);
        loop {
            let quick = |q: &Question| !matches!(q, Question::Infer(..) | Question::Call(..));
            let Some(at) = self.world.questions.iter().position(quick) else { break };
            let question = self.world.questions.remove(at);
            let before = self.world.questions.clone();
            let answer = match &question {
                Question::Append(ticket, _) if self.store_fails => {
                    let error = StoreError::Unavailable("the disk is full".into());
                    Some(TurnMessage::Saved { ticket: *ticket, result: Err(error) })
                }
                question => self.world.works(question),
            };
            if let Some(message) = answer {
                self.world.say(message);
                self.write_down(&before);
            }
        }
    }

    fn write_down(&mut self, before: &[Question]) {
        for question in self.world.questions.iter().filter(|question| !before.contains(question)) {
            match question {
                Question::Infer(_, request) => {
                    writeln!(self.trace, "    infer step {} with {} messages", request.step, request.messages.len())
                }
                Question::Call(_, call) => writeln!(self.trace, "    run {} {} {}", call.id, call.name, call.arguments),
                Question::Append(_, append) => {
                    let kinds: Vec<_> = append.records.iter().map(|record| kind(record)).collect();
                    writeln!(self.trace, "    save {}", kinds.join(", "))
                }
                _ => Ok(()),
            }
            .unwrap();
        }
        for news in &self.world.news[self.said..] {
            match news {
                TurnNews::Finished { submission, outcome } => {
                    let guard = outcome.guard_reason.map(|guard| format!(" {guard:?}")).unwrap_or_default();
                    let error = outcome.error.as_ref().map(|error| format!(" [{error}]")).unwrap_or_default();
                    let token = outcome.token.as_ref().map(|token| format!(" token {token}")).unwrap_or_default();
                    let saved = if outcome.saved { "" } else { " (not saved)" };
                    let calls: Vec<_> = outcome.tool_transcript.iter().map(|e| format!("{:?}", e.status)).collect();
                    let calls = if calls.is_empty() { String::new() } else { format!(" calls {}", calls.join(" ")) };
                    writeln!(
                        self.trace,
                        "    finish {submission} {:?}{guard} {:?}{calls}{token}{error}{saved}",
                        outcome.finish_reason, outcome.content
                    )
                }
                TurnNews::Refused { submission, error } => writeln!(self.trace, "    refuse {submission}: {error}"),
                TurnNews::Paused { .. } => writeln!(self.trace, "    pause the clock"),
                TurnNews::Unpaused { .. } => writeln!(self.trace, "    the clock goes on"),
                TurnNews::Accepted { .. } | TurnNews::Left => Ok(()),
            }
            .unwrap();
        }
        self.said = self.world.news.len();
    }
}

fn kind(record: &crate::store::Record) -> String {
    let value = serde_json::to_value(record).unwrap();
    value["kind"].as_str().unwrap().to_owned()
}

#[test]
fn final_without_tools() {
    check(
        native(),
        &["user hi", "llm hello"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            save answered, outcome
            finish t1 Final "hello"
    "#]],
    );
}

#[test]
fn plain_text_in_native_mode_is_a_final_answer() {
    check(
        native(),
        &["user hi", "llm {not json"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm {not json
            save answered, outcome
            finish t1 Final "{not json"
    "#]],
    );
}

#[test]
fn an_envelope_in_native_mode_is_what_it_says() {
    check(
        native(),
        &["user hi", r#"llm {"type":"ask_user","question":"which one?"}"#, "user the red one", "llm red"],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > llm {"type":"ask_user","question":"which one?"}
                save answered
                save outcome
                finish t1 Suspended "" token secret1-4
            > user the red one
                save resumed
                infer step 2 with 3 messages
            > llm red
                save answered, outcome
                finish t2 Final "red" calls Ok
        "#]],
    );
}

#[test]
fn tool_then_final() {
    check(
        native(),
        &["user go", "calls local__write {}", "ok 1 done", "llm finished"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > llm finished
                save answered, outcome
                finish t1 Final "finished" calls Ok
        "#]],
    );
}

#[test]
fn two_native_calls_give_two_results() {
    check(
        native(),
        &["user go", r#"calls local__read {"a":1}; local__read {"a":2}"#, "ok 2 second", "ok 1 first", "llm both"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"a":1}; local__read {"a":2}
                run c00000001 local/read {"a":1}
                run c00000002 local/read {"a":2}
                save answered
            > ok 2 second
                save result
            > ok 1 first
                save result
                infer step 2 with 4 messages
            > llm both
                save answered, outcome
                finish t1 Final "both" calls Ok Ok
        "#]],
    );
}

#[test]
fn a_call_with_side_effects_runs_alone_and_in_order() {
    check(
        native(),
        &[
            "user go",
            "calls local__read {}; local__write {}; local__read {\"b\":1}",
            "ok 1 a",
            "ok 2 b",
            "ok 3 c",
            "llm all",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}; local__write {}; local__read {"b":1}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                save intent
                run c00000002 local/write {}
            > ok 2 b
                save result
                run c00000003 local/read {"b":1}
            > ok 3 c
                save result
                infer step 2 with 5 messages
            > llm all
                save answered, outcome
                finish t1 Final "all" calls Ok Ok Ok
        "#]],
    );
}

#[test]
fn malformed_once_is_asked_again() {
    check(
        json(),
        &["user hi", "llm hello", r#"llm {"type":"final","content":"hello"}"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            infer step 2 with 3 messages
        > llm {"type":"final","content":"hello"}
            save malformed, answered, outcome
            finish t1 Final "hello"
    "#]],
    );
}

#[test]
fn malformed_twice_is_a_model_failure() {
    check(
        json(),
        &["user hi", "llm hello", "llm hello again"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            infer step 2 with 3 messages
        > llm hello again
            save malformed, malformed, outcome
            finish t1 Error "" [the model's reply was malformed twice in a row (the reply is not one JSON object: expected value at line 1 column 1); try another model]
    "#]],
    );
}

#[test]
fn max_steps_is_exact() {
    check(
        limited(|limits| limits.max_steps = 2),
        &["user go", r#"calls local__read {"n":1}"#, "ok 1 a", r#"calls local__read {"n":2}"#, "ok 2 b"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"n":1}
                run c00000001 local/read {"n":1}
                save answered
            > ok 1 a
                save result
                infer step 2 with 3 messages
            > calls local__read {"n":2}
                run c00000002 local/read {"n":2}
                save answered
            > ok 2 b
                save result
                save outcome
                finish t1 GuardExceeded MaxSteps "Stopped: the turn used its 2 model calls (max_steps)." calls Ok Ok
        "#]],
    );
}

#[test]
fn max_tool_calls_lets_exactly_so_many_run() {
    check(
        limited(|limits| limits.max_tool_calls = 3),
        &[
            "user go",
            r#"calls local__read {"n":1}; local__read {"n":2}; local__read {"n":3}; local__read {"n":4}"#,
            "ok 1 a",
            "ok 2 b",
            "ok 3 c",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"n":1}; local__read {"n":2}; local__read {"n":3}; local__read {"n":4}
                run c00000001 local/read {"n":1}
                run c00000002 local/read {"n":2}
                run c00000003 local/read {"n":3}
                save answered, result
            > ok 1 a
                save result
            > ok 2 b
                save result
            > ok 3 c
                save result
                save outcome
                finish t1 GuardExceeded MaxToolCalls "Stopped: the turn used its 3 tool calls (max_tool_calls)." calls Ok Ok Ok Cancelled
        "#]],
    );
    check(
        limited(|limits| limits.max_tool_calls = 1),
        &["user go", "calls local__read {}", "ok 1 a", "llm answered"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                infer step 2 with 3 messages
            > llm answered
                save answered, outcome
                finish t1 Final "answered" calls Ok
        "#]],
    );
}

#[test]
fn the_second_error_in_a_row_ends_the_turn_when_the_results_are_in() {
    check(
        native(),
        &[
            "user go",
            r#"calls local__read {"n":1}"#,
            "error 1 no",
            r#"calls local__read {"n":2}; local__bad {}"#,
            "ok 2 yes",
            "calls local__deny {}",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {"n":1}
                run c00000001 local/read {"n":1}
                save answered
            > error 1 no
                save result
                infer step 2 with 3 messages
            > calls local__read {"n":2}; local__bad {}
                run c00000002 local/read {"n":2}
                save answered, result
            > ok 2 yes
                save result
                infer step 3 with 6 messages
            > calls local__deny {}
                save answered, result, outcome
                finish t1 GuardExceeded MaxConsecutiveErrors "Stopped: 2 tool calls in a row failed (max_consecutive_errors)." calls Error Ok Error Denied
        "#]],
    );
}

#[test]
fn the_fourth_identical_call_is_not_run() {
    let calls = "calls local__read {}";
    check(
        native(),
        &["user go", calls, "ok 1 a", calls, "ok 2 a", calls, "ok 3 a", calls],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                infer step 2 with 3 messages
            > calls local__read {}
                run c00000002 local/read {}
                save answered
            > ok 2 a
                save result
                infer step 3 with 5 messages
            > calls local__read {}
                run c00000003 local/read {}
                save answered
            > ok 3 a
                save result
                infer step 4 with 7 messages
            > calls local__read {}
                save answered, result, outcome
                finish t1 GuardExceeded MaxIdenticalCalls "Stopped: the model repeated the same call more than 3 times (max_identical_calls)." calls Ok Ok Ok Cancelled
        "#]],
    );
}

#[test]
fn max_total_tokens_ends_the_turn_before_the_next_call() {
    check(
        limited(|limits| limits.max_total_tokens = 15),
        &["user go", "calls local__read {}", "ok 1 a"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                save outcome
                finish t1 GuardExceeded MaxTotalTokens "Stopped: the turn used its 15 tokens (max_total_tokens)." calls Ok
        "#]],
    );
}

#[test]
fn a_provider_error_ends_the_turn_and_the_session_goes_on() {
    check(
        native(),
        &["user hi", "llm-fails", "user again", "llm hello"],
        expect![[r#"
            > user hi
                save options, input, started
                infer step 1 with 1 messages
            > llm-fails
                save outcome
                finish t1 Error "" [the provider is down]
            > user again
                save input, started
                infer step 1 with 3 messages
            > llm hello
                save answered, outcome
                finish t2 Final "hello"
        "#]],
    );
}

#[test]
fn a_cut_answer_and_a_refusal_are_final() {
    check(
        native(),
        &["user hi", "cut half an ans"],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > cut half an ans
            save answered, outcome
            finish t1 Final "half an ans"
    "#]],
    );
    check(
        native(),
        &["user hi", "refuse "],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > refuse 
            save answered, outcome
            finish t1 Final ""
    "#]],
    );
}

#[test]
fn a_cut_envelope_is_malformed() {
    check(
        json(),
        &["user hi", r#"cut {"type":"final","content":"half"#],
        expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > cut {"type":"final","content":"half
            infer step 2 with 3 messages
    "#]],
    );
}

#[test]
fn an_input_for_a_busy_session_waits_its_turn() {
    check(
        native(),
        &["user one", "user two", "llm first", "llm second"],
        expect![[r#"
        > user one
            save options, input, started
            infer step 1 with 1 messages
        > user two
            save input
        > llm first
            save answered, outcome
            save started
            finish t1 Final "first"
            infer step 1 with 3 messages
        > llm second
            save answered, outcome
            finish t2 Final "second"
    "#]],
    );
}

#[test]
fn the_queue_is_bounded() {
    let mut setup = native();
    setup.brief.max_waiting = 1;
    check(
        setup,
        &["user one", "user two", "user three"],
        expect![[r#"
        > user one
            save options, input, started
            infer step 1 with 1 messages
        > user two
            save input
        > user three
            refuse t3: the session has 1 inputs waiting; try again when it has answered
    "#]],
    );
}

#[test]
fn a_cancel_pairs_what_runs_and_what_waits() {
    check(
        native(),
        &["user go", "calls local__write {}; local__read {}", "stop cancelled"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}; local__read {}
                save answered, intent
                run c00000001 local/write {}
            > stop cancelled
                save result, result, outcome
                finish t1 Cancelled "Cancelled before there was an answer." calls Unknown Cancelled (not saved)
        "#]],
    );
}

#[test]
fn a_turn_timeout_says_so() {
    check(
        native(),
        &["user go", "stop turn_timeout"],
        expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > stop turn_timeout
            save outcome
            finish t1 GuardExceeded TurnTimeout "Stopped: the turn took longer than 90000 ms (turn_timeout_ms)." (not saved)
    "#]],
    );
}

#[test]
fn a_cancel_while_the_outcome_is_being_saved_keeps_the_outcome() {
    let mut told = Teller::new(native());
    told.step("user hi");
    let Some(Question::Infer(ticket, _)) = told.world.questions.pop() else { panic!() };
    told.world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer("hello", &[]))) });
    let Some(Question::Own(done)) = told.world.questions.pop() else { panic!() };
    told.world.say(done);
    told.step("stop cancelled");
    expect![[r#"
        > user hi
            save options, input, started
            infer step 1 with 1 messages
        > stop cancelled
            save answered, outcome
            finish t1 Final "hello" (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn a_crash_runs_reads_again_and_doubts_effects() {
    check(
        native(),
        &["user go", "calls local__read {}", "crash", "ok 1 again", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > crash
                run c00000001 local/read {}
            > ok 1 again
                save result
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
    check(
        native(),
        &["user go", "calls local__write {}", "crash", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > crash
                save result
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Unknown
        "#]],
    );
    check(
        native(),
        &["user go", "calls local__idem {}", "crash", "ok 1 again", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__idem {}
                save answered, intent
                run c00000001 local/idem {}
            > crash
                save intent
                run c00000001 local/idem {}
            > ok 1 again
                save result
                infer step 2 with 3 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
}

#[test]
fn a_killed_turn_is_closed_from_its_journal() {
    check(
        native(),
        &["user go", "calls local__write {}", "killed"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > killed
                save result, outcome
                finish t1 Cancelled "Cancelled before there was an answer." calls Unknown
        "#]],
    );
}

#[test]
fn after_a_restart_of_the_program_the_interrupted_turn_is_reported() {
    check(
        native(),
        &["user go", "calls local__write {}", "restart next", "llm hello"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > restart next
                save result, input
                save outcome
                save started
                finish t1 Error "(a crash of the program interrupted the turn; its calls are marked)" calls Unknown [a crash of the program interrupted the turn; its calls are marked]
                infer step 1 with 5 messages
            > llm hello
                save answered, outcome
                finish t2 Final "hello"
        "#]],
    );
}

#[test]
fn after_a_restart_the_interrupted_turn_is_finished_first_if_asked() {
    let mut setup = native();
    setup.brief.on_restart = super::OnRestart::Resume;
    check(
        setup,
        &["user go", "calls local__write {}", "restart next", "llm finished", "llm hello"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__write {}
                save answered, intent
                run c00000001 local/write {}
            > restart next
                save result
                save input
                infer step 2 with 3 messages
            > llm finished
                save answered, outcome
                save started
                finish t1 Final "finished" calls Unknown
                infer step 1 with 5 messages
            > llm hello
                save answered, outcome
                finish t2 Final "hello"
        "#]],
    );
}

#[test]
fn an_approval_waits_inside_the_turn() {
    let setup = Setup { approvals: ApprovalsMode::Wait, ..native() };
    check(
        setup.clone(),
        &["user go", "calls local__ask {}", "approve s-c00000001", "ok 1 done", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > approve s-c00000001
                the clock goes on
                save approval_decided, intent
                run c00000001 local/ask {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > llm fine
                save answered, outcome
                finish t1 Final "fine" calls Ok
        "#]],
    );
    check(
        setup,
        &["user go", "calls local__ask {}", "deny s-c00000001", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > deny s-c00000001
                the clock goes on
                infer step 2 with 3 messages
            > llm fine
                save approval_decided, result, answered, outcome
                finish t1 Final "fine" calls Denied
        "#]],
    );
}

#[test]
fn an_approval_suspends_the_turn_and_a_new_program_goes_on() {
    let setup = Setup { approvals: ApprovalsMode::Suspend, ..native() };
    check(
        setup.clone(),
        &["user go", "calls local__ask {}", "crash", "resume secret1-5 allow", "ok 1 done", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                save outcome
                finish t1 Suspended "" token secret1-5
            > crash
            > resume secret1-5 allow
                save resumed, approval_decided
                save intent
                run c00000001 local/ask {}
            > ok 1 done
                save result
                infer step 2 with 3 messages
            > llm fine
                save answered, outcome
                finish t2 Final "fine" calls Ok
        "#]],
    );
    check(
        setup,
        &["user go", "calls local__ask {}", "resume guess allow", "user something else", "llm well"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                save outcome
                finish t1 Suspended "" token secret1-5
            > resume guess allow
                refuse t2: no suspended turn has this token; it may have been answered already
            > user something else
                save resumed, result, outcome, input, started
                infer step 1 with 5 messages
            > llm well
                save answered, outcome
                finish t3 Final "well"
        "#]],
    );
}

#[test]
fn nobody_to_ask_denies() {
    check(
        native(),
        &["user go", "calls local__ask {}", "llm then not"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                infer step 2 with 3 messages
            > llm then not
                save answered, result, answered, outcome
                finish t1 Final "then not" calls Denied
        "#]],
    );
}

#[test]
fn a_question_suspends_and_the_next_message_answers_it() {
    check(
        native(),
        &[
            "user go",
            r#"calls local__read {}; ask_user {"question":"which?"}"#,
            "ok 1 a",
            "crash",
            "user red",
            "llm red then",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}; ask_user {"question":"which?"}
                run c00000001 local/read {}
                save answered
            > ok 1 a
                save result
                save outcome
                finish t1 Suspended "" calls Ok token secret1-5
            > crash
            > user red
                save resumed
                infer step 2 with 4 messages
            > llm red then
                save answered, outcome
                finish t2 Final "red then" calls Ok Ok
        "#]],
    );
}

#[test]
fn what_is_steered_in_is_taken_at_the_next_boundary() {
    check(
        native(),
        &["user go", "calls local__read {}", "steer and hurry", "ok 1 a", "llm done"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__read {}
                run c00000001 local/read {}
                save answered
            > steer and hurry
                save steered
            > ok 1 a
                save result
                infer step 2 with 4 messages
            > llm done
                save answered, outcome
                finish t1 Final "done" calls Ok
        "#]],
    );
}

#[test]
fn an_effect_that_cannot_be_journaled_is_not_run() {
    let mut told = Teller::new(native());
    told.step("user go");
    told.step("store-fails");
    told.step("calls local__write {}");
    told.step("llm well");
    expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > store-fails
        > calls local__write {}
            save answered, intent
            infer step 2 with 3 messages
        > llm well
            save answered, intent, result, answered, outcome
            finish t1 Final "well" calls Error (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn an_input_that_cannot_be_journaled_is_refused_and_the_next_one_works() {
    let mut told = Teller::new(native());
    told.step("store-fails");
    told.step("user go");
    told.store_fails = false;
    told.step("user again");
    told.step("llm hello");
    expect![[r#"
        > store-fails
        > user go
            save options, input, started
            finish t1 Error "" [the store is unavailable: the disk is full] (not saved)
        > user again
            save options, input, started
            infer step 1 with 1 messages
        > llm hello
            save answered, outcome
            finish t2 Final "hello"
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn a_fenced_owner_writes_nothing_more() {
    let mut told = Teller::new(native());
    told.step("user go");
    told.world.epoch += 1;
    told.step("calls local__write {}");
    expect![[r#"
        > user go
            save options, input, started
            infer step 1 with 1 messages
        > calls local__write {}
            save answered, intent
            finish t1 Error "" [the session was taken over by another owner (epoch 2)] (not saved)
    "#]]
    .assert_eq(&told.trace);
}

#[test]
fn a_repeated_request_id_returns_the_first_outcome() {
    let mut told = Teller::new(native());
    let brief = Arc::clone(&told.world.brief);
    let named = |told: &mut Teller| {
        let input = told.next_input("go");
        Arc::new(TurnInput { request_id: Some(crate::ids::RequestId::new("r")), ..(*input).clone() })
    };
    let first = named(&mut told);
    told.say(TurnMessage::Start { input: first, brief: Arc::clone(&brief) });
    let second = named(&mut told);
    told.say(TurnMessage::Start { input: second, brief: Arc::clone(&brief) });
    told.step("llm once");
    let third = named(&mut told);
    told.say(TurnMessage::Start { input: third, brief });
    expect![[r#"
            save options, input, started
            infer step 1 with 1 messages
            refuse t2: a request of this request_id is running; its outcome comes once
        > llm once
            save answered, outcome
            finish t1 Final "once"
            finish t3 Final "once"
    "#]]
    .assert_eq(&told.trace);
}
