//! Calls that a tool server takes as tasks: the result is asked for, and the tool is called once.

mod approvals;

use super::below_asks::child_of;
use super::world::{Question, World};
use crate::chat::{CallStatus, FinishReason, ServerWait};
use crate::ids::TurnId;
use crate::input::{ApprovalsMode, ResumeReply, TurnInput};
use crate::options::SessionOptions;
use crate::outcome::{SuspendReason, TurnOutcome};
use crate::replay::replay;
use crate::store::StoreError;
use crate::submission::TurnNews;
use crate::tools::ToolReturn;
use crate::turn::tests::stories::{Setup, native, told};
use crate::turn::{Recover, TurnMessage};
use serde_json::json;
use std::sync::Arc;

fn world(calls: &str) -> World {
    told(Setup { approvals: ApprovalsMode::Suspend, ..native() }, &["user go", calls])
}

/// The call has become a task, or still is one.
fn is_task(world: &mut World, id: &str) {
    let output = ServerWait::Task { id: "task-7".into() }.output("it is working");
    comes_back(world, id, ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 });
}

/// The server asks for something.
fn asks(world: &mut World, id: &str) {
    let form = json!({"message": "Who?", "requestedSchema": {"properties": {"name": {}}}});
    let questions = Arc::new(json!({"who": {"method": "elicitation/create", "params": form}}));
    let output = ServerWait::Asks { questions, state: Some("one".into()), reply: None }.output("");
    comes_back(world, id, ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 });
}

fn comes_back(world: &mut World, id: &str, returned: ToolReturn) {
    let returned = world.returns(id, returned);
    world.say(returned);
    world.settle();
}

fn replies(world: &mut World, name: &str, reply: &str) {
    resumes(world, name, ResumeReply::Answer(reply.into()));
}

/// Another process resumes the turn.
fn resumes(world: &mut World, name: &str, reply: ResumeReply) {
    let token = last(world).token.clone().expect("it is suspended");
    world.crash();
    let (submission, turn_config) = (TurnId::new(name), Arc::clone(&world.turn_config));
    world.say(TurnMessage::Resume { submission, token, reply: Box::new(reply), parent: None, turn_config });
    world.settle();
}

/// The actor is gone, and another one goes on.
fn wakes(world: &mut World) {
    world.crash();
    world.say(TurnMessage::Wake { turn_config: Arc::clone(&world.turn_config), recover: Recover::Continue });
    world.settle();
}

fn last(world: &World) -> &TurnOutcome {
    let outcomes = world.news.iter().rev().find_map(|news| match news {
        TurnNews::Finished { outcome, .. } => Some(&**outcome),
        _ => None,
    });
    outcomes.expect("a run has ended")
}

#[track_caller]
fn assert_suspended(world: &World, what: &str) {
    let outcome = last(world);
    assert_eq!(
        (outcome.finish_reason, outcome.suspend_reason),
        (FinishReason::Suspended, Some(SuspendReason::ExternalWait))
    );
    assert_eq!(outcome.question.as_deref(), Some(what));
}

#[track_caller]
fn assert_replayed(world: &World) {
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[track_caller]
fn assert_ends(world: &mut World, status: CallStatus, result: &str) {
    world.llm(Ok(super::world::answer("done", &[])));
    let entry = &last(world).tool_transcript[0];
    assert_eq!((entry.status, entry.result.as_str(), last(world).content.as_str()), (status, result, "done"));
    assert_replayed(world);
}

#[test]
fn the_result_of_a_task_is_asked_for_at_once() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    is_task(&mut world, "1");
    assert_eq!(world.dispatched, ["c00000001", "c00000001 is followed"]);
    world.tool("1", CallStatus::Ok, "42");
    assert_ends(&mut world, CallStatus::Ok, "42");
}

#[test]
fn a_task_is_asked_about_once_its_name_is_durable_or_the_store_refuses_it() {
    for is_stored in [true, false] {
        let mut world = world("calls mcp/far/write {\"a\":1}");
        let output = ServerWait::Task { id: "task-7".into() }.output("it is working");
        let returned = world.returns("1", ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 });
        world.say(returned);
        assert!(!world.questions.iter().any(|asked| matches!(asked, Question::Check(..))), "it is not durable");
        let append = world.questions.iter().position(|asked| matches!(asked, Question::Append(..)));
        let append = world.questions.remove(append.expect("it is stored at once"));
        let answer = match (&append, is_stored) {
            (Question::Append(ticket, ..), false) => {
                TurnMessage::Saved { ticket: *ticket, result: Err(StoreError::Unavailable("no space".into())) }
            }
            _ => world.works(&append).expect("it is confirmed"),
        };
        world.say(answer);
        assert!(world.questions.iter().any(|asked| matches!(asked, Question::Check(..))), "stored: {is_stored}");
        world.settle();
        world.tool("1", CallStatus::Ok, "42");
        assert_ends(&mut world, CallStatus::Ok, "42");
    }
}

#[test]
fn a_task_that_outlives_the_call_suspends_the_turn_and_each_resumption_asks_again() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    is_task(&mut world, "1");
    is_task(&mut world, "1");
    assert_suspended(&world, "the result of the tool server's task task-7: it is working");
    replies(&mut world, "again", "");
    is_task(&mut world, "1");
    assert_suspended(&world, "the result of the tool server's task task-7: it is working");
    replies(&mut world, "once more", "");
    world.tool("1", CallStatus::Error, "no paper");
    let followed = "c00000001 is followed";
    assert_eq!(world.dispatched, ["c00000001", followed, followed, followed]);
    assert_ends(&mut world, CallStatus::Error, "no paper");
}

#[test]
fn a_text_in_place_of_the_result_is_the_result() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    is_task(&mut world, "1");
    is_task(&mut world, "1");
    replies(&mut world, "reply", "it is 43");
    assert_ends(&mut world, CallStatus::Ok, "it is 43");
    assert_eq!(world.dispatched.len(), 2, "the server is not asked");
}

#[test]
fn a_server_that_cannot_be_asked_leaves_the_turn_suspended() {
    for status in [CallStatus::Unknown, CallStatus::Cancelled] {
        let mut world = world("calls mcp/far/write {\"a\":1}");
        is_task(&mut world, "1");
        comes_back(&mut world, "1", ToolReturn::note(status, "it is away"));
        assert_suspended(&world, "the result of the tool server's task task-7: it is away");
        replies(&mut world, "again", "");
        world.tool("1", CallStatus::Ok, "42");
        assert_ends(&mut world, CallStatus::Ok, "42");
    }
}

#[test]
fn after_a_crash_the_task_goes_on_and_the_tool_is_not_called_again() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    is_task(&mut world, "1");
    wakes(&mut world);
    assert_eq!(world.dispatched, ["c00000001", "c00000001 is followed", "c00000001 is followed"]);
    world.tool("1", CallStatus::Ok, "42");
    assert_ends(&mut world, CallStatus::Ok, "42");
}

#[test]
fn a_call_behind_a_task_waits_for_it_and_runs_once_the_turn_would_be_suspended() {
    let mut world = world("calls mcp/far/write {\"a\":1}; local__write {\"b\":1}");
    is_task(&mut world, "1");
    assert_eq!(world.dispatched, ["c00000001", "c00000001 is followed"]);
    is_task(&mut world, "1");
    world.tool("2", CallStatus::Ok, "written");
    assert_suspended(&world, "the result of the tool server's task task-7: it is working");
}

#[test]
fn a_turn_that_ends_gives_the_task_up() {
    let given_up = "mcp/far/write is given up";
    let mut stopped = world("calls mcp/far/write {\"a\":1}");
    is_task(&mut stopped, "1");
    stopped.say(TurnMessage::Stopped { reason: crate::outcome::EndReason::Cancelled, submission: None });
    assert_eq!(stopped.dispatched, ["c00000001", "c00000001 is followed", given_up]);
    assert_eq!(last(&stopped).tool_transcript[0].status, CallStatus::Unknown);

    let mut left = world("calls mcp/far/write {\"a\":1}");
    is_task(&mut left, "1");
    is_task(&mut left, "1");
    let input = super::world::input(7, "never mind", crate::limits::Limits::default());
    left.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&left.turn_config) });
    left.settle();
    assert_eq!(left.dispatched, ["c00000001", "c00000001 is followed", given_up]);
    left.llm(Ok(super::world::answer("fine", &[])));
    assert_replayed(&left);
}

#[test]
fn a_task_is_given_up_once_that_is_durable_and_not_by_an_owner_that_is_none_any_more() {
    for is_owner in [true, false] {
        let mut world = world("calls mcp/far/write {\"a\":1}");
        is_task(&mut world, "1");
        is_task(&mut world, "1");
        world.dispatched.clear();
        let input = super::world::input(7, "never mind", crate::limits::Limits::default());
        world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
        let append = world.questions.iter().position(|asked| matches!(asked, Question::Append(..)));
        let append = world.questions.remove(append.expect("it is stored at once"));
        assert_eq!(world.dispatched, [""; 0], "it is not durable");
        let answer = match (&append, is_owner) {
            (Question::Append(ticket, ..), false) => {
                TurnMessage::Saved { ticket: *ticket, result: Err(StoreError::Fenced { epoch: 9 }) }
            }
            _ => world.works(&append).expect("it is confirmed"),
        };
        world.say(answer);
        world.settle();
        let told: &[&str] = if is_owner { &["mcp/far/write is given up"] } else { &[] };
        assert_eq!(world.dispatched, told);
    }
}

#[test]
fn a_sub_agent_gives_a_task_up_that_outlives_its_call_and_its_outcome_is_unknown() {
    let mut world = of_a_sub_agent("mcp/far/write");
    is_task(&mut world, "1");
    is_task(&mut world, "1");
    assert_eq!(world.dispatched, ["c00000001", "c00000001 is followed", "mcp/far/write is given up"]);
    let why = "outcome unknown: the tool server had taken the call, which was given up: the tool waits for something \
               outside, which an agent that works for another one cannot; say so in your answer";
    assert_ends(&mut world, CallStatus::Unknown, why);
    // What only reads has changed nothing.
    let mut world = of_a_sub_agent("mcp/far/read");
    is_task(&mut world, "1");
    is_task(&mut world, "1");
    let why = "the tool waits for something outside, which an agent that works for another one cannot; say so in your \
               answer";
    assert_ends(&mut world, CallStatus::Error, why);
}

/// The session of a sub-agent whose model has called this tool.
fn of_a_sub_agent(tool: &str) -> World {
    let mut world = World::new(native().turn_config);
    let options = SessionOptions { parent: Some(child_of(&["plan"])), ..SessionOptions::default() };
    let input = super::world::input(1, "go", crate::limits::Limits::default());
    let input = Arc::new(TurnInput { options: Some(Arc::new(options)), ..input });
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    world.llm(Ok(super::world::answer("", &[(tool, "{}")])));
    world
}

#[test]
fn a_tool_of_this_program_has_no_task() {
    let mut world = world("calls local__write {\"a\":1}");
    is_task(&mut world, "1");
    assert_suspended(&world, "the result of the tool server's task task-7: it is working");
    replies(&mut world, "again", "");
    assert_ends(&mut world, CallStatus::Ok, "");
    assert_eq!(world.dispatched, ["c00000001"]);
}

/// What a server is asked for that asks `Who?`.
const QUESTION: &str = "the tool server asks: who: Who? (name). Reply with a JSON object of the fields, or decline";

#[test]
fn a_question_of_a_server_suspends_the_turn_and_the_tool_is_called_again_with_the_reply() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    asks(&mut world, "1");
    assert_suspended(&world, QUESTION);
    replies(&mut world, "one", "{\"name\": \"Ada\"}");
    asks(&mut world, "1");
    assert_suspended(&world, QUESTION);
    replies(&mut world, "two", "decline");
    world.tool("1", CallStatus::Ok, "42");
    let (one, two) = ("c00000001 goes on with {\"name\": \"Ada\"}", "c00000001 goes on with decline");
    assert_eq!(world.dispatched, ["c00000001", one, two]);
    assert_ends(&mut world, CallStatus::Ok, "42");
}

#[test]
fn a_reply_that_may_have_been_sent_before_a_crash_is_not_sent_again() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    asks(&mut world, "1");
    replies(&mut world, "one", "decline");
    wakes(&mut world);
    assert_eq!(world.dispatched.len(), 2, "{:?}", world.dispatched);
    assert_ends(&mut world, CallStatus::Unknown, "outcome unknown: the program stopped while the tool was running");
}

#[test]
fn a_crash_before_the_reply_keeps_the_question() {
    let mut world = world("calls mcp/far/write {\"a\":1}");
    asks(&mut world, "1");
    let reply = world.stored.len();
    replies(&mut world, "one", "decline");
    // The reply is durable, and the intent is not.
    world.stored.truncate(reply + 1);
    world.dispatched.clear();
    wakes(&mut world);
    assert_eq!(world.dispatched, ["c00000001 goes on with decline"]);
    world.tool("1", CallStatus::Ok, "42");
    assert_ends(&mut world, CallStatus::Ok, "42");
}
