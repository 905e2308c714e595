//! A reader that subscribes after the turn, in another process, receives the events of the turn's own reader.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bob::AgentRuntime;
use bob::events::EventsFrom;
use bob::store::{FileStore, SessionStore, StoreOptions};
use serde_json::{Value, json};

use crate::home::{Home, STORES};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{build, scripted, session, within};

/// Live-only events, and keys that are not in the journal or are specific to the reader.
const LIVE: [&str; 5] = ["prompt.built", "llm.requested", "llm.stream.chunk", "llm.retried", "skills.selected"];
const UNKNOWN: [&str; 5] = ["seq", "time", "tools", "servers", "version"];

fn store(folder: &Path, kind: &str) -> Arc<dyn SessionStore> {
    let options = StoreOptions::default();
    #[cfg(feature = "sqlite")]
    if kind == "sqlite" {
        return bob::store::SqliteStore::open(&folder.join(".bob/sessions.db"), options).expect("the program's store");
    }
    FileStore::open(&folder.join(".bob/sessions"), options).expect("the program's store")
}

/// The events without live-only data.
fn durable(events: &[Value]) -> Vec<Value> {
    let is_durable = |event: &&Value| {
        let kind = event["type"].as_str().unwrap();
        !LIVE.contains(&kind) && (kind != "tool.called" || event["state"] == "proposed")
    };
    let mut all: Vec<Value> = events.iter().filter(is_durable).cloned().collect();
    for event in &mut all {
        let is_action = event["type"] == "action.parsed";
        event
            .as_object_mut()
            .unwrap()
            .retain(|key, _| !UNKNOWN.contains(&key.as_str()) || (is_action && key == "tools"));
    }
    all
}

/// The pieces of one kind, joined for each message.
fn pieces(events: &[Value], kind: &str) -> BTreeMap<String, String> {
    let mut messages: BTreeMap<String, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event["delta"]["kind"] == kind) {
        let text = event["delta"]["text"].as_str().unwrap();
        messages.entry(event["message_id"].as_str().unwrap().to_owned()).or_default().push_str(text);
    }
    messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_reader_is_told_what_the_turns_own_reader_was_told() {
    for kind in STORES {
        let look = ("call_1".to_owned(), "local__list_dir".to_owned(), json!({ "path": "." }).to_string());
        let provider = FakeProvider::start([
            Reply::Reasoning { thought: "let me see".into(), text: "I look first.".into(), calls: vec![look] },
            Reply::Reasoning { thought: "so that is it".into(), text: "There is a file.".into(), calls: Vec::new() },
        ]);
        let home = Home::served_by(&provider).keeping(kind);
        let run = tokio::task::block_in_place(|| {
            home.run(["run", "--session", "s", "What is here?", "--cwd", ".", "--output", "stream-json"])
        });
        let live: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(run.code, Some(0), "{kind}: {run:?}");

        let runtime = build(scripted(Vec::new()).store(store(home.scratch.path(), kind))).await;
        let mut events = within(runtime.subscribe(session("s"), EventsFrom::Beginning)).await.expect("a reader");
        let mut late = Vec::new();
        while late.last().is_none_or(|event: &Value| event["type"] != "turn.finished") {
            late.push(within(events.next()).await.unwrap().unwrap().to_json());
        }
        for (late, live) in durable(&late).iter().zip(&durable(&live)) {
            assert_eq!(late, live, "{kind}");
        }
        assert_eq!(durable(&late).len(), durable(&live).len(), "{kind}");

        let of = |name: &str| late.iter().filter(|event| event["type"] == name).cloned().collect::<Vec<_>>();
        let turn = late[0]["turn_id"].as_str().unwrap().to_owned();
        let said = of("message.user");
        assert_eq!(said.len(), 1, "{kind}: {late:#?}");
        assert_eq!(said[0]["parts"], json!([{ "type": "text", "text": "What is here?" }]));
        let answers = of("message.assistant");
        let told = |key: &str| -> BTreeMap<String, String> {
            let text = |event: &Value| event.pointer(key).unwrap().as_str().unwrap().to_owned();
            answers.iter().map(|event| (text_of(event, "/message_id"), text(event))).collect()
        };
        assert_eq!(told("/text"), pieces(&live, "text"), "{kind}");
        assert_eq!(told("/reasoning/text"), pieces(&live, "reasoning"), "{kind}");
        assert_eq!(told("/text")[&format!("{turn}-1")], "I look first.", "{kind}");
        let (called, completed) = (&of("tool.called")[0], &of("tool.completed")[0]);
        assert_eq!((&called["title"], &called["kind"]), (&json!("list dir"), &json!("read")), "{called}");
        assert!(completed["output"]["locations"][0]["path"].is_string(), "{completed}");
        within(runtime.shutdown()).await;
    }
}

fn text_of(event: &Value, key: &str) -> String {
    event.pointer(key).unwrap().as_str().unwrap().to_owned()
}
