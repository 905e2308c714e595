//! The events of sub-agents are between those of the turns that they work for.

use bob::events::{AgentEvent, EventsFrom};
use bob::model::ScriptedReply;
use bob::{AgentRuntime, Runtime};
use serde_json::json;

use crate::subagents::stage::{agent, asks, look, playing};
use crate::support::program::Program;
use crate::support::runtime::{build, say, session, within};
use crate::support::scratch::Scratch;

async fn two_levels() -> Runtime {
    let (builder, _) = playing(|who, request| match (who, request.step) {
        ("root", 1) => asks("a", "go"),
        ("a", 1) => asks("b", "go"),
        ("b", 1) => ScriptedReply::call("own/look", json!({})),
        (who, _) => ScriptedReply::text(format!("{who} is done")),
    });
    let builder = builder.subagent(agent("a").max_depth(1)).subagent(agent("b"));
    build(builder.tools(look("own/look")).limits(crate::subagents::ends::generous())).await
}

#[tokio::test]
async fn a_reader_of_a_session_has_the_events_of_all_levels_below_it() {
    let runtime = two_levels().await;
    let mut events = within(runtime.subscribe(session("s"), EventsFrom::Now)).await.unwrap();
    within(runtime.run(say("go"))).await.unwrap();
    let (mut ends, mut numbers, mut child) = (Vec::new(), Vec::new(), None);
    loop {
        let event = within(events.next()).await.unwrap().unwrap();
        let depth = event.parent.as_ref().map_or(0, |parent| parent.depth);
        assert_eq!(depth == 0, event.session_id == Some(session("s")), "{event:?}");
        if depth == 1 {
            let parent = event.parent.as_ref().unwrap();
            assert_eq!((&parent.session, parent.call.to_string()), (&session("s"), "c00000001".to_owned()));
            assert_eq!(event.to_json()["parent"]["call"], json!("c00000001"));
            child.clone_from(&event.session_id);
        }
        if depth == 2 {
            assert_eq!(event.parent.as_ref().map(|parent| &parent.session), child.as_ref(), "{event:?}");
        }
        if depth == 0 {
            numbers.push(event.seq);
        }
        if let AgentEvent::TurnFinished { outcome } = &event.event {
            ends.push((depth, outcome.content.clone()));
            if depth == 0 {
                break;
            }
        }
    }
    let told = |depth, who: &str| (depth, format!("{who} is done"));
    assert_eq!(ends, [told(2, "b"), told(1, "a"), told(0, "root")], "a child ends before its caller");
    assert!(numbers.is_sorted_by(|one, next| one + 1 == *next), "the numbers of its own have no gap: {numbers:?}");
}

#[tokio::test]
async fn a_stream_of_a_turn_has_them_if_they_are_wanted_and_an_answer_is_that_of_the_turn() {
    let runtime = two_levels().await;
    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap().with_children();
    let mut depths = std::collections::BTreeSet::new();
    while let Some(event) = within(stream.next_event()).await {
        depths.insert(event.parent.as_ref().map_or(0, |parent| parent.depth));
    }
    assert_eq!(depths.into_iter().collect::<Vec<_>>(), [0, 1, 2]);

    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap();
    while let Some(event) = within(stream.next_event()).await {
        assert_eq!((event.session_id.clone(), event.parent.clone()), (Some(session("s")), None));
    }

    let mut text = String::new();
    let mut stream = within(runtime.run_stream(say("go"))).await.unwrap().with_children();
    while let Some(item) = within(stream.next()).await {
        if let bob::events::AgentStreamEvent::TextDelta { text: more, .. } = &item.event {
            text.push_str(more);
        }
    }
    assert_eq!(text, "root is done");
}

#[test]
fn a_run_shows_what_its_sub_agents_call() {
    let scratch = Scratch::new();
    let reads = json!({"calls": [{"name": "local/read_file", "arguments": {"path": "a.txt"}}]});
    let asks = json!({"calls": [{"name": "agent/reader", "arguments": {"task": "read it"}}]});
    let reader = json!({"when": "read it", "replies": [reads, {"text": "it says hello"}]});
    let root = json!({"when": "go", "replies": [asks, {"text": "hello, it says"}]});
    scratch.write("s.json", json!([reader, root]).to_string());
    scratch.write("a.txt", "hello\n");
    scratch.agent_toml(
        "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
         [[subagents]]\nid = \"reader\"\ndescription = \"Reads.\"\nallow_tools = [\"local/*\"]\n",
    );
    let program = Program::new(env!("CARGO_BIN_EXE_cli-agent")).dir(scratch.path());
    let program = program.env("XDG_STATE_HOME", scratch.join("state")).args(["--config", "agent.toml", "run", "go"]);
    let run = program.run();
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<_> = run.stderr.lines().collect();
    let [call, inner, result, end] = &lines[..] else { panic!("{run:?}") };
    assert!(call.starts_with("> agent/reader {"), "{call}");
    assert!(inner.starts_with("  reader: local/read_file {\"path\":\"a.txt\"}"), "{inner}");
    assert!(result.starts_with("  reader: local/read_file ok, "), "{result}");
    assert!(end.starts_with("  ok, ") && end.ends_with(": it says hello"), "{end}");
    assert!(run.stdout.contains("hello, it says"), "{run:?}");
}
