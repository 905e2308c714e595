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
        let seen = home.run(["ps"]);
        assert_eq!(seen.code, Some(0), "{kind}: {}", seen.stderr);
        assert!(seen.stdout.starts_with("inbox: 1 message for 1 session, the oldest for "), "{kind}: {}", seen.stdout);
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

/// The end of a request removes the message that cancels it, which is found by its name.
#[test]
fn a_message_is_not_named_as_the_cancellation_of_another() {
    let home = home("sqlite");
    let run = home.run(["submit", "--no-wait", "--session", "one", "--request-id", "cancel-r", "hi"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
    assert!(
        run.stderr.contains("a request id that begins with \"cancel-\" is of the cancellation of another"),
        "{}",
        run.stderr
    );
}

#[test]
fn what_waits_for_a_worker_is_cancelled_also_on_one_machine() {
    for kind in ["sqlite", "json"] {
        let home = home(kind);
        let submitted = home.agent(["submit", "--session", "one", "--request-id", "r", "hi"]).spawn();
        let inbox = if kind == "sqlite" { "kept-inbox" } else { "kept/inbox" };
        let count = || home.scratch.list(inbox).iter().filter(|name| !name.ends_with(".new")).count();
        until(|| count() == 1);
        let cancel = home.agent(["cancel", "one"]).spawn();
        cancel.wait_stderr("waiting for a worker that has the session");
        let worker = home.agent(["work"]).spawn();
        assert_eq!(cancel.finish().code, Some(0), "{kind}");
        assert_eq!(submitted.finish().code, Some(130), "{kind}");
        let nothing = home.run(["cancel", "two"]);
        assert_eq!(nothing.code, Some(2), "{kind}: {}", nothing.stderr);
        assert!(nothing.stderr.contains("nothing runs in the session two"), "{kind}: {}", nothing.stderr);
        worker.signal(Signal::TERM);
        assert_eq!(worker.finish().code, Some(0), "{kind}");
    }
}

/// Waits for this, a minute at most.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_session_of_a_folder_is_not_taken_from_its_process_and_one_of_a_database_is() {
    for (kind, code) in [("json", 7), ("sqlite", 0)] {
        let home = home(kind);
        assert_eq!(home.run(["run", "--session", "one", "hi"]).code, Some(0), "{kind}");
        let taken = home.run(["sessions", "take", "one"]);
        assert_eq!(taken.code, Some(code), "{kind}: {}", taken.stderr);
        let said = match kind {
            "json" => "belongs to one process as a whole, and no session is taken from it; end that process",
            _ => "no process owns one; nothing was changed",
        };
        assert!(taken.stderr.contains(said), "{kind}: {}", taken.stderr);
    }
}
