//! Providers with unusual call ids: other sessions are answered, and each call is made once.

use crate::batch::lines::{line, results};
use crate::home::Home;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use serde_json::Value;

const GOOD: usize = 50;

/// One kills a process that believes it, one makes it work for a minute, and the others call several times or never.
const INDEXES: [&str; 6] = ["2147483648", "400000", "-1", "2", "1.0", "null"];

/// The model's replies: to a prompt `bad N`, to its result, and to anything else.
fn reply(body: &Value, folder: &str) -> Reply {
    let text = body["messages"].to_string();
    let bad = text.split_once("bad ").and_then(|(_, rest)| rest.split_once('.')?.0.parse::<usize>().ok());
    let Some(number) = bad.filter(|_| !text.contains("\"role\":\"tool\"")) else { return Reply::text("Done.") };
    let command = format!(r#"{{\"command\":\"echo ran >> '{folder}/ran-{number}'\"}}"#);
    let function = format!(r#"{{"name":"local__shell_exec","arguments":"{command}"}}"#);
    let delta = format!(r#"{{"tool_calls":[{{"index":{},"id":"c","function":{function}}}]}}"#, INDEXES[number]);
    let chunk = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\ndata: [DONE]\n\n");
    Reply::Pieces(vec![chunk.into_bytes()])
}

#[test]
fn l14_a_poisoned_session_harms_no_other_and_its_call_is_made_once() {
    let folder = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = std::sync::Arc::clone(&folder);
    let provider = FakeProvider::answering(move |body| reply(body, known.get().map_or("", String::as_str)));
    let home = Home::served_by(&provider);
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[policy]\ndeny_tools = []\nrequire_high_risk_approval = false\n"));
    folder.set(home.scratch.path().display().to_string()).unwrap();
    let good: String = (0..GOOD).map(|number| line(&format!("good-{number}"), "hello")).collect();
    let bad = |number: usize| line(&format!("bad-{number}"), &format!("bad {number}."));
    let lines: String = (0..INDEXES.len()).map(bad).chain([good]).collect();
    for again in [false, true] {
        let arguments: &[&str] = if again { &["batch", "--finish", "-"] } else { &["batch", "-"] };
        let run = home.agent(arguments.iter().copied()).stdin(&lines).run();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let results = results(&run);
        assert_eq!(results.len(), GOOD + INDEXES.len());
        assert!(results.iter().all(|result| result["content"] == "Done."), "{results:?}");
        for (number, index) in INDEXES.iter().enumerate() {
            assert_eq!(home.scratch.read(format!("ran-{number}").as_str()), "ran\n", "index {index}, again: {again}");
        }
    }
}
