//! Journals that come into a folder of one's own.

use std::fs;

use crate::trust::found::Found;
use crate::trust::stores::{as_an_older_program, forget_the_mark, place, record, with_session};

#[test]
fn a_crash_at_each_step_of_the_first_start_leaves_a_store_that_is_ones_own() {
    let found = with_session("json");
    for has_journal in [true, false] {
        // What else the record may be alone with, the part of a file that was being written included.
        for (left, removed, part) in [
            ("the record", &["identity", "accepted"][..], None),
            ("a part of the identity", &["identity", "accepted"], Some("identity-0.new")),
            ("the identity", &["accepted"], None),
            ("a part of the list", &["accepted"], Some("accepted-0.new")),
        ] {
            let file = |name: &str| place(&found, "json").join(name);
            removed.iter().for_each(|name| fs::remove_file(file(name)).expect("removed"));
            if !has_journal {
                fs::remove_file(file("s.jsonl")).expect("removed");
            }
            if let Some(part) = part {
                fs::write(file(part), "01").expect("written");
            }
            for command in [&["sessions", "list"][..], &["run", "--session", "s", "hi"], &["run", "-c", "hi"]] {
                for run in [found.run(command.iter().copied()), found.named(command.iter().copied())] {
                    assert_eq!(run.code, Some(0), "{left}, {has_journal}: {command:?}: {run:?}");
                }
            }
            assert!(place(&found, "json").join("accepted").exists() && record(&found)["is"]["mark"].is_string());
        }
    }
}

#[test]
fn processes_that_look_at_a_store_of_an_older_program_at_once_leave_it_ones_own() {
    let found = with_session("json");
    forget_the_mark(&found);
    as_an_older_program(&found);
    at_once(&found, &["sessions", "list"]);
}

#[track_caller]
fn at_once(found: &Found, command: &[&str]) {
    std::thread::scope(|scope| {
        let run = |is_named: bool| match is_named {
            true => found.named(command.iter().copied()),
            false => found.run(command.iter().copied()),
        };
        let runs: Vec<_> = (0..6).map(|one| scope.spawn(move || run(one % 2 == 0))).collect();
        for run in runs.into_iter().map(|run| run.join().expect("it ran")) {
            assert_eq!(run.code, Some(0), "{run:?}");
        }
    });
    assert!(record(found)["is"]["mark"].is_string());
    let run = found.run(["run", "--session", "s", "hi"]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn an_identity_that_came_before_the_first_use_of_a_store_of_an_older_program_is_not_taken() {
    let (found, other) = (with_session("json"), with_session("json"));
    assert_eq!(other.run(["run", "--session", "theirs", "hi"]).code, Some(0));
    forget_the_mark(&found);
    as_an_older_program(&found);
    let brought = ["identity", "accepted", "theirs.jsonl"];
    for file in brought {
        fs::copy(place(&other, "json").join(file), place(&found, "json").join(file)).expect("a copy");
    }
    for command in [&["sessions", "list"][..], &["run", "hi"], &["run", "-c", "hi"], &["work"]] {
        for run in [found.run(command.iter().copied()), found.named(command.iter().copied())] {
            assert_eq!(run.code, Some(7), "{command:?}: {run:?}");
            assert!(run.stderr.contains("`identity` came later; remove that"), "{command:?}: {run:?}");
        }
    }
    for file in brought {
        fs::remove_file(place(&found, "json").join(file)).expect("removed");
    }
    // Only looking at it settles which it is.
    assert_eq!(found.run(["sessions", "list"]).code, Some(0));
    assert!(record(&found)["is"]["mark"].is_string());
    let run = found.run(["run", "--session", "s", "hi"]);
    assert_eq!(run.code, Some(0), "what was there is one's own: {run:?}");
}

#[test]
fn a_journal_that_was_added_to_ones_own_folder_is_used_by_nothing() {
    let (found, other) = (with_session("json"), with_session("json"));
    assert_eq!(other.run(["run", "--session", "theirs", "hi"]).code, Some(0));
    let (from, to) = (place(&other, "json").join("theirs.jsonl"), place(&found, "json").join("theirs.jsonl"));
    fs::copy(from, &to).expect("a copy");
    let before = fs::read(&to).expect("a journal");
    for command in [
        &["run", "--session", "theirs", "hi"][..],
        &["chat", "--resume", "theirs"],
        &["sessions", "show", "theirs"],
        &["sessions", "export", "theirs"],
        &["sessions", "fork", "theirs"],
    ] {
        let run = found.run(command.iter().copied());
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.code, Some(7), "{command:?}: {run:?}");
        assert!(said.contains("theirs.jsonl") && said.contains("was not begun by a program"), "{command:?}: {run:?}");
    }
    let listed = found.run(["sessions", "list"]);
    assert!(listed.code == Some(0) && !listed.stdout.contains("theirs"), "{listed:?}");
    assert!(listed.stderr.contains("theirs.jsonl: it was not begun by"), "{listed:?}");
    let run = found.run(["run", "-c", "--output", "json", "hi"]);
    assert!(run.code == Some(0) && run.stdout.contains("\"session_id\":\"s\""), "the last one of one's own: {run:?}");
    assert!(fs::read(&to).expect("a journal") == before, "it stays as it is");
    assert_eq!(found.run(["sessions", "delete", "theirs"]).code, Some(0));
    assert!(!to.exists());
}
