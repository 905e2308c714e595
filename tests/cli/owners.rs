//! Two processes, one store: the owner of a session is named, and taking over works.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::home::{Home, STORES, the_line};
use crate::support::program::Running;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const SOON: Duration = Duration::from_secs(60);

/// A model that answers on request.
fn slow() -> (FakeProvider, Sender<()>) {
    let (go_on, told): (Sender<()>, Receiver<()>) = channel();
    let told = Mutex::new(told);
    let provider = FakeProvider::answering(move |_request| {
        told.lock().expect("no other test holds it").recv_timeout(3 * SOON).expect("the test goes on");
        Reply::text("late")
    });
    (provider, go_on)
}

/// The records of a session, with their epochs.
fn journal(home: &Home) -> Vec<(u64, String)> {
    let exported = home.run(["sessions", "export", "s"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let records = exported.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let told = |record: Value| {
        (record["epoch"].as_u64().unwrap_or_default(), record["kind"].as_str().unwrap_or_default().to_owned())
    };
    records.map(told).collect()
}

#[cfg(feature = "sqlite")]
#[test]
fn a_session_of_another_terminal_is_busy_until_it_is_taken_over() {
    let kind = "sqlite";
    let ((slow, go_on), quick) = (slow(), FakeProvider::repeating([Reply::text("hello")]));
    let home = Home::served_by(&quick).keeping(kind);
    let first = home.agent(["run", "--output", "json", "--session", "s", "hi"]);
    let first = first.env("BOB__PROVIDERS__FAKE__BASE_URL", slow.base_url()).spawn();
    assert!(slow.asked_within(1, SOON), "{kind}: the first asks its model");
    let owner = format!("in use by cli-agent (process {})", first.pid());
    first.signal(Signal::STOP);

    let (code, refused) = home.json(["--session", "s", "hi"]);
    assert_eq!((code, &refused["error"]["kind"]), (Some(75), &json!("busy")), "{kind}: {refused}");
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(&owner) && message.contains("--take-over"), "{kind}: {refused}");
    let other = home.json(["--session", "other", "hi"]);
    assert_eq!(other.0, Some(0), "{kind}: other sessions are not touched: {}", other.1);
    for other in [&["sessions", "delete", "s"][..], &["sessions", "rename", "s", "title"]] {
        let run = home.run(other.iter().copied());
        assert!(run.code == Some(75) && run.stderr.contains("--take-over"), "{kind}: {run:?}");
    }

    let (code, taken) = home.json(["--session", "s", "--take-over", "hi"]);
    assert_eq!((code, &taken["content"]), (Some(0), &json!("hello")), "{kind}: {taken}");
    let before = journal(&home);

    first.signal(Signal::CONT);
    go_on.send(()).expect("the provider still serves");
    let run = first.finish();
    assert_eq!(run.code, Some(7), "{kind}: {run:?}");
    let line = the_line(&run);
    assert_eq!((&line["error"]["kind"], &line["saved"]), (&json!("store"), &json!(false)), "{kind}: {line}");
    assert!(
        line["error"]["message"].as_str().is_some_and(|text| text.contains("taken over")),
        "{kind}: its caller is told: {line}"
    );
    assert_eq!(journal(&home), before, "{kind}: it wrote nothing");
    assert!(before.is_sorted_by_key(|(epoch, _)| *epoch), "{kind}: {before:?}");
    assert_eq!(home.json(["--session", "s", "hi"]).0, Some(0), "{kind}: both are gone, it is free");
}

#[cfg(feature = "sqlite")]
#[test]
fn a_chat_says_at_once_that_another_process_has_the_session() {
    let (slow, go_on) = slow();
    let home = Home::served_by(&slow).keeping("sqlite");
    assert_eq!(home.agent(["chat", "--session", "new"]).stdin("").run().code, Some(0), "a new one is nobody's");
    let first = home.agent(["run", "--session", "s", "hi"]).spawn();
    assert!(slow.asked_within(1, SOON), "the first asks its model");
    let owner = format!("session s: the session is in use by cli-agent (process {})", first.pid());
    for args in [&["-c"][..], &["--resume", "s"], &["--session", "s"]] {
        let run = home.agent(["chat"].iter().chain(args).copied()).stdin("").run();
        assert_eq!(run.code, Some(75), "{args:?}: {run:?}");
        assert!(run.stderr.contains(&owner) && run.stderr.contains("--take-over"), "{args:?}: {run:?}");
    }
    // A chat that turns to it stays where it is.
    let other = home.agent(["chat", "--session", "other"]).stdin("/resume s\n/status\n").run();
    assert!(other.stderr.contains(&owner) && other.stderr.contains("session  other\n"), "{other:?}");
    assert_eq!(other.code, Some(75), "{other:?}");
    assert_eq!(home.agent(["chat", "--session", "s", "--take-over"]).stdin("").run().code, Some(0));
    go_on.send(()).expect("the provider still serves");
    assert_eq!(first.finish().code, Some(7), "it was taken over");
}

#[test]
fn a_turn_whose_process_was_killed_is_listed_as_interrupted() {
    for kind in STORES {
        let (slow, _go_on) = slow();
        let home = Home::served_by(&slow).keeping(kind);
        let running = home.agent(["run", "--session", "s", "hi"]).spawn();
        assert!(slow.asked_within(1, SOON), "{kind}: it asks its model");
        let state = || {
            let listed = home.run(["sessions", "list", "--json"]);
            let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
            let shown: Value =
                serde_json::from_str(&home.run(["sessions", "show", "s", "--json"]).stdout).expect("JSON");
            [&listed["sessions"][0]["state"], &shown["state"]]
                .map(|state| state.as_str().unwrap_or_default().to_owned())
        };
        assert_eq!(state(), ["running", "running"], "{kind}");
        running.signal(Signal::KILL);
        let ended = running.finish();
        assert_eq!(ended.code, None, "{kind}: {ended:?}");
        assert_eq!(state(), ["interrupted", "interrupted"], "{kind}");
        let rows = home.run(["sessions", "list"]).stdout;
        assert!(rows.contains("  s  [interrupted] hi"), "{kind}: {rows}");
    }
}

/// A folder of journals is one process's at a time.
#[test]
fn a_folder_of_journals_is_busy_while_another_terminal_has_it_and_can_be_read() {
    let ((slow, go_on), quick) = (slow(), FakeProvider::repeating([Reply::text("hello")]));
    let home = Home::served_by(&quick).keeping("json");
    let first = home.agent(["run", "--output", "json", "--session", "s", "hi"]);
    let first = first.env("BOB__PROVIDERS__FAKE__BASE_URL", slow.base_url()).spawn();
    assert!(slow.asked_within(1, SOON), "the first asks its model");
    let owner = format!("cli-agent (process {})", first.pid());
    for (session, more) in [("s", None), ("other", None), ("s", Some("--take-over"))] {
        let (code, refused) = home.json(["--session", session].into_iter().chain(more).chain(["hi"]));
        assert_eq!((code, &refused["error"]["kind"]), (Some(75), &json!("busy")), "{session}: {refused}");
        let text = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains(&owner) && text.contains("kind json is not taken over"), "{session}: {refused}");
        assert!(!text.contains("--take-over"), "{session}: it would not help: {refused}");
    }
    assert_eq!(home.run(["sessions", "delete", "s"]).code, Some(75));
    assert_eq!(home.run(["sessions", "show", "s"]).code, Some(0), "reading is free");
    assert_eq!(home.run(["sessions", "list"]).code, Some(0));
    assert!(!journal(&home).is_empty());
    go_on.send(()).expect("the provider still serves");
    let run = first.finish();
    assert_eq!(run.code, Some(0), "it notices nothing: {run:?}");
    assert_eq!(home.json(["--session", "s", "hi"]).0, Some(0), "it is free");
}

/// Nothing is there when they start, so each of them begins the store. What was answered is kept, what was refused is not there.
#[test]
fn programs_that_begin_a_store_at_the_same_moment_answer_or_say_that_it_is_busy() {
    const PROGRAMS: usize = 6;
    for kind in STORES {
        let provider = FakeProvider::repeating([Reply::text("hello")]);
        let home = Home::served_by(&provider).keeping(kind);
        let at_once: Vec<_> = (0..PROGRAMS)
            .map(|number| home.agent(["run", "--output", "json", "--session", &format!("s{number}"), "hi"]).spawn())
            .collect();
        let ended: Vec<_> = at_once.into_iter().map(Running::finish).collect();
        let mut answered = Vec::new();
        for (number, run) in ended.iter().enumerate() {
            let line = the_line(run);
            match run.code {
                Some(0) => answered.push(format!("s{number}")),
                Some(75) if *kind == "json" => assert_eq!(line["error"]["kind"], json!("busy"), "{run:?}"),
                _other => panic!("{kind}: {run:?}"),
            }
        }
        assert!(!answered.is_empty(), "{kind}: {ended:?}");
        let listed = home.run(["sessions", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
        let mut kept: Vec<_> = listed["sessions"].as_array().expect("a list").iter().collect();
        kept.sort_by_key(|session| session["session_id"].as_str());
        let told = |session: &&Value| {
            (session["session_id"].as_str().unwrap_or_default().to_owned(), session["state"].clone())
        };
        let kept: Vec<_> = kept.iter().map(told).collect();
        let wanted: Vec<_> = answered.iter().map(|id| (id.clone(), json!("idle"))).collect();
        assert_eq!(kept, wanted, "{kind}");
        assert_eq!(home.json(["--session", "s0", "hi"]).0, Some(0), "{kind}: it can be used");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_chat_that_loses_its_session_is_told_and_then_hears_whose_it_is() {
    let kind = "sqlite";
    let provider = FakeProvider::repeating([Reply::text("hello")]);
    let home = Home::served_by(&provider).keeping(kind);
    let mut first = home.agent(["chat", "--session", "s"]).open_stdin().spawn();
    first.type_line("one");
    first.wait_stdout("hello");
    let mut second = home.agent(["chat", "--session", "s", "--take-over"]).open_stdin().spawn();
    second.type_line("two");
    second.wait_stdout("hello");
    first.type_line("three");
    first.wait_stderr("taken over");
    first.type_line("four");
    first.wait_stderr("in use by cli-agent");
    second.type_line("five");
    second.end_stdin();
    assert_eq!(second.finish().code, Some(0), "{kind}");
    assert_eq!(first.finish().code, Some(7), "{kind}: the code of the first turn that failed");
    let shown = home.run(["sessions", "show", "s"]).stdout;
    let heard: Vec<_> = shown.lines().filter_map(|line| line.strip_prefix("you: ")).collect();
    assert_eq!(heard, ["one", "two", "five"], "{kind}");
}
