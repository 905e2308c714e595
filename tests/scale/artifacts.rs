//! Large parts of sessions in a database: each machine lists, exports and undoes them, and they go with the last session.

use std::fs;

use serde_json::{Value, json};

use crate::home::Home;
use crate::scale::database::{Database, Machine};

/// How many contents there are, and how many bytes their pieces have.
const KEPT: &str = "SELECT (SELECT count(*) FROM bob_artifacts), (SELECT coalesce(sum(octet_length(content)), 0) FROM bob_artifact_pieces)";

#[test]
fn large_parts_are_listed_exported_copied_and_deleted_on_each_machine() {
    let Some(database) = Database::new("large_parts_are_listed_exported_copied_and_deleted") else { return };
    let (here, there) = (database.scripted(), database.scripted());
    let text = format!("begin{}end", "line of text\n".repeat(60_000));
    let run = here.agent(["run", "--session", "notes", "-"]).stdin(&text).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{}", run.stderr);
    let list: Value = serde_json::from_str(&there.run(["artifacts", "list", "notes", "--json"]).stdout).unwrap();
    let bytes = text.len();
    assert_eq!(
        (&list["artifacts"][0]["bytes"], &list["artifacts"][0]["from"]),
        (&json!(bytes), &json!("input")),
        "{list}"
    );
    let id = list["artifacts"][0]["id"].as_str().expect("an id");
    let run = there.run(["artifacts", "export", "notes", &id[..8], "--output", "out.txt"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(fs::read_to_string(there.home.scratch.join("out.txt")).unwrap() == text);
    let fork = there.run(["sessions", "fork", "notes"]).stdout.trim().to_owned();
    assert_eq!(database.sql(KEPT), format!("1|{bytes}"), "the copy has what the first session has");
    assert_eq!(here.run(["sessions", "delete", "notes"]).code, Some(0));
    assert!(here.run(["artifacts", "export", &fork, id]).stdout == text);
    assert_eq!(here.run(["sessions", "delete", &fork]).code, Some(0));
    assert_eq!(database.sql(KEPT), "0|0");
}

#[test]
fn a_file_that_was_no_text_is_put_back_and_a_long_output_is_kept() {
    let Some(database) = Database::new("a_file_that_was_no_text_is_put_back") else { return };
    let write = json!({ "name": "local/write_file", "arguments": { "path": "small.bin", "content": "text\n" } });
    let shell =
        json!({ "name": "local/shell_exec", "arguments": { "command": "seq 30000; echo the heron; seq 30000" } });
    let script = json!([{ "replies": [{ "calls": [write] }, { "calls": [shell] }, { "text": "Done." }] }]);
    let machine = Machine::of(&database, Home::scripted(&script));
    let content = b"\x89PNG\r\n\xff\0".to_vec();
    fs::write(machine.home.scratch.join("small.bin"), &content).unwrap();
    let run = machine.run(["run", "--session", "s", "--mode", "auto", "go"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let list: Value = serde_json::from_str(&machine.run(["artifacts", "list", "s", "--json"]).stdout).unwrap();
    let from: Vec<_> = list["artifacts"].as_array().unwrap().iter().map(|one| one["from"].to_string()).collect();
    assert!(from.len() == 2 && from.contains(&"\"local/shell_exec\"".to_owned()), "{list}");
    let run = machine.run(["sessions", "undo", "s"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(fs::read(machine.home.scratch.join("small.bin")).unwrap(), content);
    assert_eq!(machine.run(["sessions", "delete", "s"]).code, Some(0));
    assert_eq!(database.sql(KEPT), "0|0");
}
