//! Large parts of a session at the command line: listed, exported, copied with a fork, deleted with the last session.

use std::fs;

use serde_json::{Value, json};

use crate::home::{Home, STORES};

fn home(kind: &str) -> Home {
    Home::scripted(&json!([{ "replies": [{ "text": "read" }] }])).keeping(kind)
}

/// The artifacts of a session.
fn listed(home: &Home, session: &str) -> Vec<Value> {
    let run = home.run(["artifacts", "list", session, "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let list: Value = serde_json::from_str(&run.stdout).expect("JSON");
    list["artifacts"].as_array().expect("a list").clone()
}

#[test]
fn a_long_input_is_listed_exported_copied_and_deleted_with_the_last_session() {
    for kind in STORES {
        let home = home(kind);
        let text = format!("begin{}end", "line of text\n".repeat(40_000));
        let run = home.agent(["run", "--session", "notes", "-"]).stdin(&text).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "read\n"), "{kind}: {}", run.stderr);
        let exported = home.run(["sessions", "export", "notes"]).stdout;
        assert!(exported.len() < 64 * 1024, "{kind}: the journal has {} bytes", exported.len());

        let list = listed(&home, "not");
        assert_eq!(list.len(), 1, "{kind}");
        assert_eq!(
            (&list[0]["bytes"], &list[0]["kind"], &list[0]["from"]),
            (&json!(text.trim_end().len()), &json!("text"), &json!("input")),
            "{kind}"
        );
        let id = list[0]["id"].as_str().expect("an id");
        let shown = home.run(["artifacts", "list", "notes"]).stdout;
        assert!(shown.starts_with(&id[..16]) && shown.ends_with("text  input\n"), "{kind}: {shown}");

        let run = home.run(["artifacts", "export", "notes", &id[..8], "--output", "out.txt"]);
        assert_eq!(run.code, Some(0), "{kind}: {}", run.stderr);
        assert_eq!(fs::read_to_string(home.scratch.join("out.txt")).unwrap(), text.trim_end(), "{kind}");
        assert_eq!(home.run(["artifacts", "export", "notes", id]).stdout, text.trim_end(), "{kind}");
        let again = home.run(["artifacts", "export", "notes", id, "--output", "out.txt"]);
        assert_eq!(again.code, Some(2), "{kind}: a file that exists is not written over");
        let unknown = home.run(["artifacts", "export", "notes", "ffffffff"]);
        assert!(
            unknown.code == Some(2) && unknown.stderr.contains("artifacts list notes"),
            "{kind}: {}",
            unknown.stderr
        );

        let fork = home.run(["sessions", "fork", "notes"]).stdout.trim().to_owned();
        assert_eq!(home.run(["sessions", "delete", "notes"]).code, Some(0));
        assert_eq!(home.run(["artifacts", "list", "notes"]).code, Some(2), "{kind}");
        assert_eq!(home.run(["artifacts", "export", &fork, id]).stdout, text.trim_end(), "{kind}: the copy names it");
        assert_eq!(home.run(["sessions", "delete", &fork]).code, Some(0));
        let left = files(&home, id);
        assert!(left.is_empty(), "{kind}: {left:?}");
    }
}

/// The files below the store's folder that have this name.
fn files(home: &Home, name: &str) -> Vec<std::path::PathBuf> {
    let mut folders = vec![home.scratch.join(".bob")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if entry.file_name() == name => found.push(path),
                _another => {}
            }
        }
    }
    found
}
