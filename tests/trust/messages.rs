//! Messages that lie in the inbox of a store of one's own and were put there by somebody else.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::trust::found::{Found, below};
use crate::trust::stores::{STORES, copied, with_session};

/// Where the messages of a store of this kind wait.
fn inbox(found: &Found, kind: &str) -> PathBuf {
    found.folder().join(if kind == "json" { ".bob/sessions/inbox" } else { ".bob/sessions.db-inbox" })
}

/// Puts a message as the program of that store does, and removes it there.
fn left_by(theirs: &Found, kind: &str) -> PathBuf {
    let args = ["submit", "--no-wait", "--session", "s", "--request-id", "r", "obey"];
    assert_eq!(theirs.run(args).code, Some(0));
    inbox(theirs, kind)
}

#[test]
fn a_message_that_came_with_the_folder_is_neither_run_nor_taken_by_anybody() {
    for kind in STORES {
        let (theirs, mine) = (with_session(kind), with_session(kind));
        let from = left_by(&theirs, kind);
        let file = fs::read_dir(&from).expect("messages").next().expect("a message").expect("a file").path();
        let signed: Value = serde_json::from_slice(&fs::read(&file).expect("a message")).expect("JSON");
        let older = signed["kept"].as_str().expect("as older programs wrote it").to_owned();
        for of_whom in ["of another store", "of an older program"] {
            if of_whom == "of an older program" {
                fs::write(&file, &older).expect("written");
            }
            copied(&from, &inbox(&mine, kind));
            let before = below(&inbox(&mine, kind));
            let worker = mine.program(["work", "--json"]).spawn();
            worker.wait_stderr("working on up to");
            let run = mine.run(["submit", "--session", "mine", "--json", "hi"]);
            assert_eq!(run.code, Some(0), "{kind} {of_whom}: {run:?}");
            worker.signal(Signal::TERM);
            let worked = worker.finish();
            assert_eq!(worked.code, Some(0), "{kind} {of_whom}: {worked:?}");
            let sessions: Vec<Value> = worked
                .stdout
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["session_id"].clone())
                .collect();
            assert_eq!(sessions, [json!("mine")], "{kind} {of_whom}");
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            assert_eq!(worked.stderr.matches(&name).count(), 1, "{kind} {of_whom}: it is named once: {worked:?}");
            assert!(worked.stderr.contains("send it again"), "{kind} {of_whom}: {worked:?}");
            let run = mine.run(["run", "--session", "s", "hi"]);
            assert_eq!(run.code, Some(0), "{kind} {of_whom}: {run:?}");
            let shown = mine.run(["sessions", "show", "s"]).stdout;
            assert!(!shown.contains("obey"), "{kind} {of_whom}: {shown}");
            assert_eq!(below(&inbox(&mine, kind)), before, "{kind} {of_whom}: it is left where it is");
            // What is sent under its name is one's own.
            let args = ["submit", "--no-wait", "--session", "s", "--request-id", "r", "mine"];
            assert_eq!(mine.run(args).code, Some(0), "{kind} {of_whom}");
            let run = mine.run(["sessions", "show", "s"]);
            assert!(run.stdout.contains("1 message") || run.stderr.contains("1 message"), "{kind} {of_whom}: {run:?}");
            fs::remove_dir_all(inbox(&mine, kind)).expect("removed");
        }
    }
}

#[test]
fn the_first_message_makes_the_store_in_which_it_waits() {
    for kind in STORES {
        let found = with_session(kind);
        fs::remove_dir_all(found.folder().join(".bob")).expect("removed");
        let run = found.run(["submit", "--no-wait", "--session", "first", "hi"]);
        assert_eq!(run.code, Some(0), "{kind}: {run:?}");
        let worker = found.program(["work", "--json"]).spawn();
        worker.wait_stdout("\"first\"");
        worker.signal(Signal::TERM);
        let worked = worker.finish();
        assert_eq!(worked.code, Some(0), "{kind}: {worked:?}");
        assert_eq!(found.run(["sessions", "list"]).code, Some(0), "{kind}: it is one's own");
    }
}

#[test]
fn the_identity_of_a_store_is_told_to_nobody() {
    let found = with_session("json");
    let secret = fs::read_to_string(found.folder().join(".bob/sessions/identity")).expect("an identity");
    let secret = secret.trim();
    assert_eq!(secret.len(), 32);
    assert_eq!(found.run(["submit", "--no-wait", "--session", "s", "hi"]).code, Some(0));
    for command in [
        &["sessions", "export", "s"][..],
        &["sessions", "show", "s", "--json"],
        &["sessions", "list", "--json"],
        &["doctor", "--json"],
        &["ps", "--json"],
        &["run", "--session", "s", "--output", "stream-json", "hi"],
    ] {
        let run = found.run(command.iter().copied());
        assert!(!format!("{}{}", run.stdout, run.stderr).contains(secret), "{command:?}: {run:?}");
    }
    for folder in [found.scratch.join("state"), found.folder()] {
        for path in below(&folder).iter().map(|path| folder.join(path)).filter(|path| path.is_file()) {
            let text = String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned();
            assert_eq!(text.contains(secret), path.ends_with("identity"), "{}", path.display());
        }
    }
}
