//! Stores that came with a folder, or were emptied, replaced or removed.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "sqlite")]
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::trust::found::{Found, below, scripted};

pub(crate) const STORES: &[&str] = if cfg!(feature = "sqlite") { &["sqlite", "json"] } else { &["json"] };

pub(crate) fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("a kind") {
            kind if kind.is_dir() => copied(&from, &to),
            kind if kind.is_file() => drop(fs::copy(&from, &to).expect("a copy")),
            _socket => {}
        }
    }
}

pub(crate) fn with_session(kind: &str) -> Found {
    let found = Found::with(&scripted(&format!("[store]\nkind = \"{kind}\"\n")));
    found.script("local/list_dir", &json!({}));
    assert_eq!(found.run(["trust", "--yes"]).code, Some(0));
    let run = found.run(["run", "--session", "s", "hi"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    found
}

#[test]
fn a_store_of_ones_own_is_asked_about_by_nobody() {
    for kind in STORES {
        let found = with_session(kind);
        for command in [&["run", "--session", "s", "hi"][..], &["sessions", "list"], &["run", "-c", "hi"]] {
            let run = found.run(command.iter().copied());
            assert_eq!(run.code, Some(0), "{kind} {command:?}: {run:?}");
        }
        let ignored = found.scratch.read("folder/.bob/.gitignore");
        assert!(ignored.lines().any(|line| line == "*"), "{ignored}");
    }
}

#[test]
fn g19_a_store_that_came_with_a_folder_needs_trust() {
    for kind in STORES {
        let (theirs, mine) = (with_session(kind), Found::new());
        mine.configure(&format!("[runtime]\ndefault_model = \"openai:gpt-4o-mini\"\n[store]\nkind = \"{kind}\"\n"));
        assert_eq!(mine.run(["sessions", "list"]).code, Some(0), "without a store there is nothing to trust");
        let _made_by_looking = fs::remove_dir_all(mine.folder().join(".bob"));
        copied(&theirs.folder().join(".bob"), &mine.folder().join(".bob"));
        let before = below(&mine.folder());
        for command in
            [&["run", "-c", "hi"][..], &["run", "hi"], &["chat"], &["sessions", "show", "s"], &["tools"], &["doctor"]]
        {
            let run = mine.run(command.iter().copied());
            assert_eq!(run.code, Some(2), "{kind} {command:?}: {run:?}");
            let said = format!("{}{}", run.stdout, run.stderr);
            assert!(said.contains("sessions that came with it"), "{kind} {command:?}: {said}");
        }
        assert_eq!(below(&mine.folder()), before, "{kind}");
        let shown = mine.run(["trust"]);
        assert!(shown.code == Some(2) && shown.stderr.contains(".bob/sessions"), "{shown:?}");
        assert_eq!(mine.run(["trust", "--yes"]).code, Some(0));
        let listed = mine.run(["sessions", "list"]);
        assert!(listed.code == Some(0) && listed.stdout.contains(" s"), "{kind}: {listed:?}");
    }
}

/// Has a chat leave its turn in the log of the database: it is killed.
#[cfg(feature = "sqlite")]
fn kill_a_chat(found: &Found) {
    let mut chat = found.program(["chat"]).open_stdin().spawn();
    chat.type_line("hi");
    chat.wait_stdout("done");
    chat.signal(Signal::KILL);
    chat.finish();
    let log = fs::metadata(found.folder().join(".bob/sessions.db-wal")).expect("a log");
    assert!(log.len() > 0, "the turn is in the log");
}

#[cfg(feature = "sqlite")]
#[test]
fn parts_of_a_database_that_is_not_there_are_used_by_nothing() {
    let theirs = with_session("sqlite");
    kill_a_chat(&theirs);
    assert_eq!(theirs.run(["submit", "--no-wait", "--session", "s", "obey"]).code, Some(0));
    kill_a_chat(&theirs);
    fs::write(theirs.folder().join(".bob/sessions.db-journal"), [0xd9; 512]).expect("written");
    for part in ["sessions.db-wal", "sessions.db-journal", "sessions.db-inbox", "sessions.db-shm"] {
        let mine = Found::with(&scripted("[store]\nkind = \"sqlite\"\n"));
        mine.script("local/list_dir", &json!({}));
        let (from, to) = (theirs.folder().join(".bob").join(part), mine.folder().join(".bob").join(part));
        fs::create_dir(mine.folder().join(".bob")).expect("a folder");
        let bring = || match from.is_dir() {
            true => copied(&from, &to),
            false => drop(fs::copy(&from, &to).expect("a copy")),
        };
        bring();
        let before = below(&mine.folder());
        let run = mine.run(["run", "hi"]);
        assert!(run.code == Some(2) && run.stderr.contains("sessions that came with it"), "{part}: {run:?}");
        assert_eq!(mine.run(["trust", "--yes"]).code, Some(0), "{part}: the configuration can be trusted");
        for command in
            [&["run", "hi"][..], &["run", "--session", "s", "hi"], &["sessions", "list"], &["work"], &["trust"]]
        {
            let run = mine.run(command.iter().copied());
            assert_eq!(run.code, Some(7), "{part} {command:?}: {run:?}");
            assert!(run.stderr.contains(part) && run.stderr.contains("remove them"), "{part} {command:?}: {run:?}");
        }
        assert_eq!(below(&mine.folder()), before, "{part}");
        match to.is_dir() {
            true => fs::remove_dir_all(&to).expect("removed"),
            false => fs::remove_file(&to).expect("removed"),
        }
        let run = mine.run(["run", "--session", "mine", "hi"]);
        assert_eq!(run.code, Some(0), "{part}: without it a store begins: {run:?}");
        let listed = mine.run(["sessions", "list", "--json"]).stdout;
        assert!(listed.contains("mine") && !listed.contains("obey"), "{part}: {listed}");
        // What was left of one's own, and what the store itself refuses where no trust is asked for.
        fs::remove_file(mine.folder().join(".bob/sessions.db")).expect("removed");
        if part != "sessions.db-shm" {
            bring();
            for run in [mine.run(["run", "hi"]), mine.named(["run", "hi"])] {
                assert!(run.code == Some(7) && run.stderr.contains(part), "{part}: {run:?}");
            }
        }
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_database_that_came_with_a_folder_is_not_opened_by_those_who_ask_nothing() {
    let (theirs, mine) = (with_session("sqlite"), Found::new());
    mine.configure("[runtime]\ndefault_model = \"openai:gpt-4o-mini\"\n");
    kill_a_chat(&theirs);
    copied(&theirs.folder().join(".bob"), &mine.folder().join(".bob"));
    let content = |end: &str| fs::read(mine.folder().join(format!(".bob/sessions.db{end}"))).expect("a file");
    let before = (below(&mine.folder()), content(""), content("-wal"));
    for command in [&["ps"][..], &["ps", "--json"], &["cancel", "s"], &["drain"]] {
        let run = mine.run(command.iter().copied());
        assert_eq!(run.code, Some(2), "{command:?}: {run:?}");
        assert!((below(&mine.folder()), content(""), content("-wal")) == before, "{command:?} has opened it");
    }
}

#[test]
fn what_belongs_to_journals_is_a_store_that_came_with_the_folder() {
    for part in ["inbox/s~00", "artifacts/s/00", "identity"] {
        let mine = Found::with("[runtime]\ndefault_model = \"openai:gpt-4o-mini\"\n[store]\nkind = \"json\"\n");
        mine.scratch.write(&format!("folder/.bob/sessions/{part}"), "theirs");
        let before = below(&mine.folder());
        for command in [&["run", "hi"][..], &["work"], &["sessions", "list"]] {
            let run = mine.run(command.iter().copied());
            assert_eq!(run.code, Some(2), "{part} {command:?}: {run:?}");
            assert!(run.stderr.contains("sessions that came with it"), "{part} {command:?}: {run:?}");
        }
        assert_eq!(below(&mine.folder()), before, "{part}");
        assert_eq!(mine.run(["trust", "--yes"]).code, Some(0), "{part}");
        assert_eq!(mine.run(["sessions", "list"]).code, Some(0), "{part}");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn s15_a_database_that_was_emptied_is_a_failure_and_not_an_empty_store() {
    let found = with_session("sqlite");
    fs::write(found.folder().join(".bob/sessions.db"), "").expect("emptied");
    for command in [&["sessions", "list"][..], &["run", "hi"], &["run", "--output", "json", "hi"], &["doctor"]] {
        for run in [found.run(command.iter().copied()), found.named(command.iter().copied())] {
            assert_eq!(run.code, Some(7), "{command:?}: {run:?}");
            let said = format!("{}{}", run.stdout, run.stderr);
            assert!(said.contains("truncated") && !said.contains("no sessions yet"), "{command:?}: {said}");
        }
    }
}

#[test]
fn s15_a_journal_that_was_emptied_is_a_failure_and_its_session_does_not_begin_anew() {
    let found = with_session("json");
    fs::write(found.folder().join(".bob/sessions/s.jsonl"), "").expect("emptied");
    let listed = found.run(["sessions", "list"]);
    assert!(listed.stderr.contains("s.jsonl: it is empty"), "{listed:?}");
    assert!(!listed.stderr.contains("no sessions yet"), "{listed:?}");
    for _again in 0..2 {
        for command in [&["run", "--session", "s", "hi"][..], &["run", "--session", "s", "--output", "json", "hi"]] {
            for run in [found.run(command.iter().copied()), found.named(command.iter().copied())] {
                assert_eq!(run.code, Some(7), "{command:?}: {run:?}");
                let said = format!("{}{}", run.stdout, run.stderr);
                assert!(said.contains("s.jsonl.corrupt-1") && said.contains("delete session s"), "{said}");
            }
        }
    }
    let run = found.run(["run", "--session", "other", "hi"]);
    assert_eq!(run.code, Some(0), "one journal stops no other session: {run:?}");
}

/// Where a store of this kind is kept.
pub(crate) fn place(found: &Found, kind: &str) -> PathBuf {
    found.folder().join(if kind == "json" { ".bob/sessions" } else { ".bob/sessions.db" })
}

#[test]
fn s15_a_store_that_was_replaced_is_reported_until_it_is_taken() {
    for kind in STORES {
        let (found, other) = (with_session(kind), with_session(kind));
        let (store, new) = (place(&found, kind), found.scratch.join("other"));
        match *kind {
            "json" => copied(&place(&other, kind), &new),
            _ => drop(fs::copy(place(&other, kind), &new).expect("a copy")),
        }
        for end in ["-wal", "-shm"] {
            let _folded_in_already = fs::remove_file(found.folder().join(format!(".bob/sessions.db{end}")));
        }
        fs::rename(&store, found.scratch.join("aside")).expect("moved away");
        fs::rename(new, &store).expect("replaced");
        is_refused_until_it_is_taken(&found, kind, "it was replaced");
    }
}

#[test]
fn s15_a_store_that_was_overwritten_in_place_is_another_one() {
    for kind in STORES {
        let (found, other) = (with_session(kind), with_session(kind));
        // The files stay, with other content.
        copied(&other.folder().join(".bob"), &found.folder().join(".bob"));
        is_refused_until_it_is_taken(&found, kind, "it was replaced");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn the_log_of_another_database_brings_no_sessions() {
    let (found, other) = (with_session("sqlite"), with_session("sqlite"));
    kill_a_chat(&other);
    let (database, log) = (place(&found, "sqlite"), found.folder().join(".bob/sessions.db-wal"));
    let before = fs::read(&database).expect("a database");
    fs::copy(other.folder().join(".bob/sessions.db-wal"), &log).expect("a copy");
    for command in [&["sessions", "list"][..], &["run", "hi"], &["run", "-c", "hi"], &["work"], &["doctor"]] {
        for run in [found.run(command.iter().copied()), found.named(command.iter().copied())] {
            assert_eq!(run.code, Some(7), "{command:?}: {run:?}");
            let told = format!("{}{}", run.stdout, run.stderr);
            assert!(told.contains("sessions.db-wal") && !told.contains(" trust\n"), "{command:?}: {run:?}");
        }
    }
    assert!(fs::read(&database).expect("a database") == before, "nothing was folded into it");
    fs::remove_file(&log).expect("removed");
    let run = found.run(["sessions", "show", "s"]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[cfg(feature = "sqlite")]
#[test]
fn what_a_killed_process_left_in_the_log_is_ones_own() {
    let found = with_session("sqlite");
    for times in 2..4 {
        kill_a_chat(&found);
        let listed = found.run(["sessions", "list", "--json"]);
        assert_eq!((listed.code, listed.stdout.matches("\"session_id\"").count()), (Some(0), times), "{listed:?}");
    }
}

/// What is recorded of the store.
pub(crate) fn record(found: &Found) -> Value {
    serde_json::from_str(&fs::read_to_string(record_file(found)).expect("a record")).expect("JSON")
}

fn record_file(found: &Found) -> PathBuf {
    let files = fs::read_dir(found.scratch.join("state/bob/stores")).expect("records");
    let records: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    let [record] = &records[..] else { panic!("{records:?}") };
    record.clone()
}

pub(crate) fn forget_the_mark(found: &Found) {
    let mut older = record(found);
    older["is"].as_object_mut().expect("an object").remove("mark");
    fs::write(record_file(found), older.to_string()).expect("written");
}

/// Leaves a folder of journals as a program did that knew no identities.
pub(crate) fn as_an_older_program(found: &Found) {
    for file in ["identity", "accepted"] {
        fs::remove_file(place(found, "json").join(file)).expect("removed");
    }
}

#[test]
fn a_record_of_an_older_program_takes_the_mark_of_its_store_once() {
    for kind in STORES {
        let (found, other) = (with_session(kind), with_session(kind));
        let kept = record(&found);
        assert!(kept["is"]["mark"].is_string(), "{kept}");
        forget_the_mark(&found);
        if *kind == "json" {
            as_an_older_program(&found);
        }
        assert_eq!(found.run(["sessions", "list"]).code, Some(0), "{kind}");
        let now = record(&found);
        assert!(now["is"]["mark"].is_string(), "{now}");
        assert_eq!(now == kept, *kind != "json", "a folder of journals got its identity now: {now}");
        copied(&other.folder().join(".bob"), &found.folder().join(".bob"));
        is_refused_until_it_is_taken(&found, kind, "it was replaced");
    }
}

#[test]
fn s15_an_empty_folder_in_place_of_the_journals_is_a_store_that_was_replaced() {
    let found = with_session("json");
    let (store, aside) = (place(&found, "json"), found.scratch.join("aside"));
    fs::rename(&store, &aside).expect("moved away");
    fs::create_dir(&store).expect("a folder");
    is_refused_until_it_is_taken(&found, "json", "an empty folder is in its place");
    let run = found.run(["run", "hi"]);
    assert_eq!(run.code, Some(0), "taken, it is one's own: {run:?}");
}

#[track_caller]
fn is_refused_until_it_is_taken(found: &Found, kind: &str, why: &str) {
    for command in [&["sessions", "list"][..], &["run", "hi"], &["run", "--session", "b", "hi"]] {
        for run in [found.run(command.iter().copied()), found.named(command.iter().copied())] {
            assert_eq!(run.code, Some(7), "{kind} {command:?}: {run:?}");
            assert!(run.stderr.contains(why) && run.stderr.contains("trust"), "{kind}: {run:?}");
        }
    }
    assert_eq!(found.named(["trust", "--yes"]).code, Some(0), "{kind}");
    assert_eq!(found.named(["sessions", "list"]).code, Some(0), "{kind}");
}

#[test]
fn s15_a_store_that_is_gone_is_reported_once() {
    for kind in STORES {
        let found = with_session(kind);
        fs::remove_dir_all(found.folder().join(".bob")).expect("removed");
        let run = found.named(["sessions", "list"]);
        assert!(run.code == Some(0) && run.stderr.contains("is gone"), "{kind}: {run:?}");
        let run = found.run(["run", "hi"]);
        assert!(run.code == Some(0) && !run.stderr.contains("is gone"), "{kind}: {run:?}");
        assert_eq!(found.run(["run", "hi"]).code, Some(0), "{kind}: the new one is one's own");
    }
}
