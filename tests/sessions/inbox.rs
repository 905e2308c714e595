//! Processes of one machine share sessions without a database server.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::home::Home;

/// A store that processes of one machine share.
fn home(kind: &str) -> Home {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[store]\nkind = \"{kind}\"\npath = \"kept\"\n"));
    home
}

#[test]
fn a_worker_answers_what_another_process_submits() {
    for kind in ["sqlite", "json"] {
        let home = home(kind);
        let first = home.run(["submit", "--no-wait", "--json", "--session", "one", "--request-id", "r", "hi"]);
        assert_eq!(first.code, Some(0), "{kind}: {}", first.stderr);
        let ids: Value = serde_json::from_str(&first.stdout).unwrap();
        assert_eq!(ids, json!({ "session_id": "one", "request_id": "r" }), "{kind}");
        let mut worker = home.agent(["work"]).spawn();
        assert_eq!(worker.next_line().as_deref(), Some("one  final  hello"), "{kind}");
        for (request, outcomes) in [("r", 1), ("r", 1), ("s", 2)] {
            let run = home.run(["submit", "--session", "one", "--request-id", request, "hi"]);
            assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{kind}: {}", run.stderr);
            let journal = home.run(["sessions", "export", "one"]).stdout;
            let count = journal.lines().filter(|line| line.contains("\"kind\":\"outcome\"")).count();
            assert_eq!(count, outcomes, "{kind}: {journal}");
        }
        worker.signal(Signal::TERM);
        let ended = worker.finish();
        assert_eq!(ended.code, Some(0), "{kind}: {}", ended.stderr);
        assert_eq!(ended.stdout, "one  final  hello\none  final  hello\n", "{kind}");
    }
}

#[test]
fn a_store_in_memory_is_refused_in_a_sentence() {
    let home = home("memory");
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&config.replace("path = \"kept\"\n", ""));
    for args in [&["submit", "hi"][..], &["work"]] {
        let run = home.run(args.iter().copied());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("store.kind = \"memory\" is not shared with other processes"), "{}", run.stderr);
    }
}
