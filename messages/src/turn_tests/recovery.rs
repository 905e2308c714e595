//! Stories of turns that are taken up again: by an answer, by a decision, after a crash.

use super::world::{Question, World, answer, input, model};
use crate::approvals::Decision;
use crate::chat::{CallStatus, FinishReason, GuardReason, Message};
use crate::ids::ApprovalId;
use crate::input::{ApprovalsMode, TurnInput};
use crate::limits::Limits;
use crate::llm::{LlmError, LlmErrorKind};
use crate::outcome::TurnOutcome;
use crate::submission::TurnNews;
use crate::tools::{CallTraits, Grant, ToolOutput, ToolReturn, Verdict};
use crate::turn::tests::stories::{Setup, check, native};
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::TurnConfig;
use expect_test::expect;
use std::sync::Arc;

fn suspending() -> Setup {
    Setup { approvals: ApprovalsMode::Suspend, ..native() }
}

#[test]
fn a_decision_about_a_call_does_not_answer_the_question_beside_it() {
    check(
        suspending(),
        &[
            "user go",
            "calls local__ask {}; ask_user {\"question\":\"which?\"}",
            "resume s~secret1-5 allow",
            "ok 1 done",
            "resume s~secret1-10 blue",
            "llm fine",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}; ask_user {"question":"which?"}
                save answered, approval_asked
                save outcome
                finish t1 Suspended "" token s~secret1-5
            > resume s~secret1-5 allow
                save resumed, approval_decided
                t2 begins
                save intent
                run c00000001 local/ask {}
            > ok 1 done
                save result
                save outcome
                finish t2 Suspended "" calls Ok token s~secret1-10
            > resume s~secret1-10 blue
                save resumed
                t3 begins
                infer step 2 with 4 messages
            > llm fine
                save answered, outcome
                finish t3 Final "fine" calls Ok Ok
        "#]],
    );
}

#[test]
fn the_answer_to_a_question_does_not_decide_about_the_call_beside_it() {
    check(
        suspending(),
        &[
            "user go",
            "calls ask_user {\"question\":\"which?\"}; local__ask {}",
            "user blue",
            "resume s~secret1-7 allow",
            "ok 2 done",
            "llm fine",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls ask_user {"question":"which?"}; local__ask {}
                save answered, approval_asked
                save outcome
                finish t1 Suspended "" token s~secret1-5
            > user blue
                save resumed
                t2 begins
                save outcome
                finish t2 Suspended "" calls Ok token s~secret1-7
            > resume s~secret1-7 allow
                save resumed, approval_decided
                t3 begins
                save intent
                run c00000002 local/ask {}
            > ok 2 done
                save result
                infer step 2 with 4 messages
            > llm fine
                save answered, outcome
                finish t3 Final "fine" calls Ok Ok
        "#]],
    );
}

#[test]
fn two_questions_have_two_tokens() {
    check(
        suspending(),
        &[
            "user go",
            "calls ask_user {\"question\":\"which?\"}; ask_user {\"question\":\"when?\"}",
            "resume s~secret1-4 blue",
            "resume s~secret1-4 blue",
            "resume s~secret1-6 today",
            "llm fine",
        ],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls ask_user {"question":"which?"}; ask_user {"question":"when?"}
                save answered
                save outcome
                finish t1 Suspended "" token s~secret1-4
            > resume s~secret1-4 blue
                save resumed
                t2 begins
                save outcome
                finish t2 Suspended "" calls Ok token s~secret1-6
            > resume s~secret1-4 blue
                refuse t3: no suspended turn has this token; it may have been answered already
            > resume s~secret1-6 today
                save resumed
                t4 begins
                infer step 2 with 4 messages
            > llm fine
                save answered, outcome
                finish t4 Final "fine" calls Ok Ok
        "#]],
    );
}

#[test]
fn who_is_asked_is_asked_again_after_a_crash_and_the_clock_stands() {
    check(
        Setup { approvals: ApprovalsMode::Wait, ..native() },
        &["user go", "calls local__ask {}", "crash", "approve s-c00000001", "ok 1 done", "llm fine"],
        expect![[r#"
            > user go
                save options, input, started
                infer step 1 with 1 messages
            > calls local__ask {}
                save answered, approval_asked
                pause the clock
            > crash
                t1 begins
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
}

fn begun(approvals: ApprovalsMode, limits: Limits, calls: &[(&str, &str)]) -> World {
    let mut world = World::new(TurnConfig::new(model()));
    let input = Arc::new(TurnInput { approvals, ..input(1, "go", limits) });
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    world.llm(Ok(answer("", calls)));
    world
}

fn finished(world: &World) -> Vec<&TurnOutcome> {
    let outcome = |news: &&TurnNews| matches!(news, TurnNews::Finished { .. });
    let outcomes = world.news.iter().filter(outcome);
    outcomes
        .filter_map(|news| if let TurnNews::Finished { outcome, .. } = news { Some(&**outcome) } else { None })
        .collect()
}

#[test]
fn the_results_are_told_when_the_turn_cannot_come_back_to_its_calls() {
    let mut world = begun(ApprovalsMode::Deny, Limits::default(), &[("local__write", "{}"), ("local__read", "{}")]);
    world.tool("c00000001", CallStatus::Ok, "written");
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    while !world.questions.is_empty() {
        let question = world.questions.remove(0);
        let message = match &question {
            Question::Profile(ticket) => {
                let error = LlmError::new(LlmErrorKind::UnknownModel, "the configuration has no such model");
                TurnMessage::Profiled { ticket: *ticket, result: Err(error) }
            }
            question => world.works(question).expect("neither model nor tool is asked"),
        };
        world.say(message);
    }
    let outcome = finished(&world)[0];
    assert_eq!(outcome.finish_reason, FinishReason::Error);
    let statuses: Vec<_> = outcome.tool_transcript.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [CallStatus::Ok, CallStatus::Cancelled]);
    let results = world.folded().history.iter().filter(|message| matches!(***message, Message::Tool { .. })).count();
    assert_eq!(results, 2, "the model will know what was written");
}

/// What is on its way to the store arrives; the actor does not learn it.
fn crash_after_saving(world: &mut World) {
    let append = world.questions.iter().position(|question| matches!(question, Question::Append(..)));
    let Question::Append(_, append, _) = world.questions.remove(append.expect("it saves")) else { unreachable!() };
    world.store(&append).expect("it is stored");
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    world.settle();
}

#[test]
fn a_guard_that_tripped_before_a_crash_ends_the_turn_after_it() {
    let limits = Limits { max_tool_calls: 1, ..Limits::default() };
    let mut world = begun(ApprovalsMode::Deny, limits, &[("local__read", "{}"), ("local__read", "{\"a\":2}")]);
    let returned = ToolReturn { status: CallStatus::Ok, output: ToolOutput::text("seen"), duration_ms: 1 };
    let message = world.returns("1", returned);
    world.say(message);
    // A second input takes the result into the journal before the turn ends.
    let next = Arc::new(input(2, "and then?", Limits::default()));
    world.say(TurnMessage::Start { input: next, turn_config: Arc::clone(&world.turn_config) });
    crash_after_saving(&mut world);
    assert_eq!(finished(&world)[0].guard_reason, Some(GuardReason::MaxToolCalls));
}

#[test]
fn the_malformed_reply_before_a_crash_counts_after_it() {
    let mut world = begun(ApprovalsMode::Deny, Limits::default(), &[("local__read", "{")]);
    let at = world.questions.iter().position(|question| matches!(question, Question::Infer(..))).expect("asked again");
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    let malformed = answer("", &[("local__read", "[]")]);
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(malformed)) });
    // A second input takes the second complaint into the journal before the turn ends.
    let next = Arc::new(input(2, "and then?", Limits::default()));
    world.say(TurnMessage::Start { input: next, turn_config: Arc::clone(&world.turn_config) });
    crash_after_saving(&mut world);
    let error = finished(&world)[0].error.as_ref().expect("an error").to_string();
    assert!(error.contains("malformed twice in a row (the arguments of local__read are not a JSON object)"), "{error}");
}

#[test]
fn changed_arguments_that_are_no_object_deny() {
    let mut world = begun(ApprovalsMode::Wait, Limits::default(), &[("local__ask", "{}")]);
    for arguments in [serde_json::Value::Null, serde_json::json!(["rm"])] {
        let mut world = world.clone();
        let approval = ApprovalId::new("s-c00000001");
        world.say(TurnMessage::Decided { approval, decision: Box::new(Decision::Edit { arguments }), asker: None });
        world.settle();
        assert_eq!(world.dispatched, Vec::<String>::new());
        let session = world.turn.session().expect("a session");
        let transcript = session.running().expect("it goes on").full_transcript();
        assert_eq!(transcript[0].status, CallStatus::Denied);
    }
    let approval = ApprovalId::new("s-c00000001");
    let arguments = serde_json::json!({"a": 7});
    world.say(TurnMessage::Decided { approval, decision: Box::new(Decision::Edit { arguments }), asker: None });
    world.settle();
    assert_eq!(world.dispatched, ["c00000001"]);
}

#[test]
fn the_permission_of_one_call_is_none_for_another() {
    let mut world = World::new(TurnConfig::new(model()));
    let input = Arc::new(input(1, "go", Limits::default()));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    let at = world.questions.iter().position(|question| matches!(question, Question::Infer(..))).expect("asked");
    let Question::Infer(ticket, _) = world.questions.remove(at) else { unreachable!() };
    let calls = answer("", &[("local__write", "{}"), ("local__read", "{}")]);
    world.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(calls)) });
    world.say(TurnMessage::CallTool);
    let check = world.questions.iter().position(|question| matches!(question, Question::Check(..))).expect("judged");
    let Question::Check(ticket, _) = world.questions.remove(check) else { unreachable!() };
    let other = world.questions.iter().find_map(|question| match question {
        Question::Check(_, other) => Some(other.call.id.clone()),
        _ => None,
    });
    let grant = Grant { call: other.expect("both are judged"), seal: "read".into() };
    let traits = CallTraits { read_only: true, idempotent: true };
    world.say(TurnMessage::Checked { ticket, verdict: Some(Verdict::Allow { grant, traits }) });
    assert_eq!(world.dispatched, Vec::<String>::new());
}

#[test]
fn a_request_that_is_suspended_is_answered_with_its_question_and_not_by_itself() {
    let mut world = World::new(TurnConfig::new(model()));
    let request_id = Some(crate::ids::RequestId::new("r"));
    for number in [1, 2] {
        let input = TurnInput { request_id: request_id.clone(), ..input(number, "go", Limits::default()) };
        world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
        world.settle();
        if number == 1 {
            world.llm(Ok(answer("", &[("ask_user", "{\"question\":\"which?\"}")])));
        }
    }
    let questions: Vec<_> = finished(&world).iter().map(|outcome| outcome.question.as_deref()).collect();
    assert_eq!(questions, [Some("which?"), Some("which?")]);
}

#[test]
fn a_session_whose_input_could_not_be_kept_is_nobodys_until_the_next_one() {
    let mut world = World::new(TurnConfig::new(model()));
    let input = Arc::new(input(1, "go", Limits::default()));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    let claim = world.questions.remove(0);
    let loaded = world.works(&claim).expect("it is read");
    world.say(loaded);
    let is_append = |question: &Question| matches!(question, Question::Append(..));
    let at = world.questions.iter().position(is_append).expect("the input is to be kept");
    let Question::Append(ticket, ..) = world.questions.remove(at) else { unreachable!() };
    let full = Err(crate::store::StoreError::Unavailable("the disk is full".into()));
    let effects = world.turn.apply(world.now, TurnMessage::Saved { ticket, result: full });
    let released = |effect: &crate::turn::Effect| matches!(effect, crate::turn::Effect::Release { epoch: 1, .. });
    assert!(effects.iter().any(released), "{effects:?}");
}
