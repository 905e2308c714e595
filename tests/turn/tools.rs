//! Calls of a turn: real files, several at once, tools that fail.

use std::time::Duration;

use bob::sessions::FinishReason;
use bob::tools::{ToolOutput, tool};
use bob_messages::chat::CallStatus;
use serde_json::Value;

use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{KINDS, Nothing, at, build, in_folder, provided, say, session, turn};
use crate::support::scratch::Scratch;
use crate::support::stopwatch::Stopwatch;
use bob::AgentRequest;
use bob::config::Limits;
use bob_actors::llm::providers::ProviderKind;

fn read(id: &str, path: &str) -> (String, String, String) {
    (id.into(), "local__read_file".into(), format!(r#"{{"path":"{path}"}}"#))
}

/// The results the model was given, as text, in order.
fn results(kind: ProviderKind, body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().into_iter().flatten();
    match kind {
        ProviderKind::Anthropic => messages
            .flat_map(|message| message["content"].as_array().into_iter().flatten())
            .filter(|block| block["type"] == "tool_result")
            .map(|block| block["content"].to_string())
            .collect(),
        _ => messages.filter(|message| message["role"] == "tool").map(|said| said["content"].to_string()).collect(),
    }
}

#[tokio::test]
async fn two_native_calls_give_two_results() {
    for kind in KINDS {
        let folder = Scratch::new();
        folder.write("a.txt", "from a");
        folder.write("b.txt", "from b");
        let provider = FakeProvider::start([
            Reply::Calls(vec![read("x1", "a.txt"), read("x2", "b.txt")]),
            Reply::text("Both were read."),
        ]);
        let runtime = build(provided(&provider, kind).turn_config(at(folder.path()))).await;
        let answer = turn(&runtime, say("read both")).await;
        assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "Both were read."));
        let seen: Vec<_> = answer.tool_transcript.iter().map(|call| (call.status, call.result.as_str())).collect();
        assert_eq!(seen, [(CallStatus::Ok, "1\tfrom a"), (CallStatus::Ok, "1\tfrom b")], "{kind:?}");
        let told = results(kind, &provider.requests()[1].body);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("from a") && told[1].contains("from b"), "in call order: {told:?}");
    }
}

#[tokio::test]
async fn same_read_in_two_turns_runs_twice() {
    for kind in KINDS {
        let folder = Scratch::new();
        folder.write("a.txt", "before");
        let ask = Reply::Calls(vec![read("x1", "a.txt")]);
        let provider = FakeProvider::start([ask.clone(), Reply::text("one"), ask, Reply::text("two")]);
        let runtime = build(provided(&provider, kind).turn_config(at(folder.path()))).await;
        let first = turn(&runtime, say("read it")).await;
        folder.write("a.txt", "after");
        let second = turn(&runtime, say("read it again")).await;
        assert_eq!(first.tool_transcript[0].result, "1\tbefore", "{kind:?}");
        assert_eq!(second.tool_transcript[0].result, "1\tafter", "nothing is remembered between turns");
        assert_ne!(first.tool_transcript[0].id, second.tool_transcript[0].id, "ids are unique in a session");
    }
}

#[tokio::test]
async fn panicking_tool_is_an_error_result() {
    fn panics() -> Result<ToolOutput, bob::tools::ToolError> {
        panic!("the tool was told to panic")
    }
    let panics = tool("test/panics", "Panics.", |_: Nothing, _| async move { panics() });
    let provider = FakeProvider::start([Reply::call("x1", "test__panics", "{}"), Reply::text("It broke.")]);
    let builder = provided(&provider, ProviderKind::OpenAi).tools(std::sync::Arc::new(panics));
    let runtime = build(builder).await;
    let answer = turn(&runtime, say("go")).await;
    assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "It broke."));
    assert_eq!(answer.tool_transcript[0].status, CallStatus::Error);
    assert_eq!(results(ProviderKind::OpenAi, &provider.requests()[1].body).len(), 1, "the model is told");
}

#[tokio::test]
async fn slow_tool_is_an_error_result_and_the_turn_goes_on() {
    let slow = tool("test/slow", "Takes a minute.", |_: Nothing, _| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(ToolOutput::text("late"))
    });
    let provider = FakeProvider::start([Reply::call("x1", "test__slow", "{}"), Reply::text("It was slow.")]);
    let builder = provided(&provider, ProviderKind::OpenAi).tools(std::sync::Arc::new(slow.read_only()));
    let runtime = build(builder).await;
    let limits = Limits { tool_timeout_ms: 50, ..Limits::default() };
    let began = Stopwatch::start();
    let answer = turn(&runtime, AgentRequest { limits: Some(limits), ..say("go") }).await;
    began.assert_within(Duration::from_secs(10), "the tool's minute is not waited for");
    assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "It was slow."));
    let call = &answer.tool_transcript[0];
    assert_eq!(call.status, CallStatus::Error);
    assert!(call.result.contains("50 ms"), "it names its limit: {}", call.result);
}

#[tokio::test]
async fn tools_work_in_the_folder_of_their_session_and_nowhere_else() {
    let both = Scratch::new();
    let mine = both.join("mine");
    std::fs::create_dir(&mine).expect("a folder");
    both.write("mine/note.txt", "mine");
    both.write("note.txt", "other");
    let outside = both.join("note.txt").display().to_string();
    let provider = FakeProvider::start([
        Reply::Calls(vec![read("x1", "note.txt"), read("x2", &outside)]),
        Reply::text("done"),
        Reply::Calls(vec![read("x3", "note.txt")]),
        Reply::text("done"),
    ]);
    let runtime = build(provided(&provider, ProviderKind::OpenAi).turn_config(at(both.path()))).await;
    let request = AgentRequest { options: Some(in_folder(&mine)), ..say("read") };
    let first = turn(&runtime, request).await;
    assert_eq!(first.tool_transcript[0].result, "1\tmine");
    assert_eq!(first.tool_transcript[1].status, CallStatus::Error, "outside: {:?}", first.tool_transcript[1]);
    let elsewhere = turn(&runtime, AgentRequest::text(session("t"), "read")).await;
    assert_eq!(elsewhere.tool_transcript[0].result, "1\tother", "another session keeps the folder of the runtime");
}

#[tokio::test]
async fn an_allow_list_narrows_what_is_offered_and_what_runs() {
    let folder = Scratch::new();
    folder.write("note.txt", "text");
    let provider = FakeProvider::start([Reply::Calls(vec![read("x1", "note.txt")]), Reply::text("no")]);
    let runtime = build(provided(&provider, ProviderKind::OpenAi).turn_config(at(folder.path()))).await;
    let allow_tools = Some(vec!["local/list_*".to_owned()]);
    let answer = turn(&runtime, AgentRequest { allow_tools, ..say("read") }).await;
    let offered = provider.requests()[0].body["tools"].to_string();
    assert!(offered.contains("local__list_dir") && !offered.contains("read_file"), "{offered}");
    assert_ne!(answer.tool_transcript[0].status, CallStatus::Ok, "a tool that was not offered does not run");
    assert_ne!(answer.tool_transcript[0].result, "text");
}
