//! Files that are not UTF-8: read, searched, edited, shown and put back in their encoding.

use serde_json::{Value, json};

use crate::home::Home;

fn utf_16le(text: &str) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn files_of_other_encodings_are_worked_on_as_any_text() {
    let call = |name: &str, arguments: Value| json!({ "name": format!("local/{name}"), "arguments": arguments });
    let edit = |path: &str| call("edit_file", json!({ "path": path, "old": "café\n", "new": "thé\ncafé\n" }));
    let home = Home::scripted(&json!([{ "replies": [
        { "calls": [call("search_files", json!({ "pattern": "café$" })), call("read_file", json!({ "path": "wide.txt" }))] },
        { "calls": [edit("wide.txt"), edit("western.txt")] },
        { "text": "Done." }
    ] }]));
    let (wide, western) = (utf_16le("one\r\ncafé\r\n"), b"one\ncaf\xe9\n".to_vec());
    let put = |name: &str, bytes: &[u8]| std::fs::write(home.scratch.join(name), bytes).expect("a file");
    let get = |name: &str| std::fs::read(home.scratch.join(name)).expect("a file");
    put("wide.txt", &wide);
    put("western.txt", &western);

    let (code, line) = home.json(["--session", "s", "--mode", "edits", "go"]);
    assert_eq!(code, Some(0), "{line}");
    let results: Vec<&str> =
        line["tool_transcript"].as_array().expect("a list").iter().filter_map(|call| call["result"].as_str()).collect();
    assert_eq!(results[0], "western.txt:2: café\nwide.txt:2: café");
    assert_eq!(results[1], "1\tone\n2\tcafé\n[the file is UTF-16LE]");
    assert_eq!(results[3], "replaced one text in western.txt at line 2, in Windows-1252");
    assert_eq!(get("wide.txt"), utf_16le("one\r\nthé\r\ncafé\r\n"));
    assert_eq!(get("western.txt"), b"one\nth\xe9\ncaf\xe9\n");
    assert_eq!(line["changes"][1]["encoding_after"], "windows-1252", "{line}");
    assert_eq!(line["changes"][1]["after"], "one\nthé\ncafé\n", "{line}");

    let diff = home.run(["sessions", "diff", "s"]).stdout;
    assert!(diff.contains("+++ b/western.txt\n@@ -1,2 +1,3 @@\n one\n+thé\n café\n"), "{diff}");
    let run = home.run(["sessions", "undo", "s"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!((get("wide.txt"), get("western.txt")), (wide, western));
    let again = home.run(["sessions", "undo", "s"]);
    assert!(again.stderr.contains("there is nothing to undo"), "{again:?}");
    assert_eq!(home.run(["sessions", "diff", "s"]).stdout, "");
}

#[test]
fn the_question_about_an_edit_shows_the_text() {
    let edit = json!({ "name": "local/edit_file", "arguments": { "path": "w.txt", "old": "café", "new": "thé" } });
    let home = Home::scripted(&json!([{ "replies": [{ "calls": [edit] }, { "text": "Done." }] }]));
    std::fs::write(home.scratch.join("w.txt"), utf_16le("one\ncafé\n")).expect("a file");
    let run = home.run(["run", "--output", "stream-json", "--approvals", "suspend", "go"]);
    let events = run.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect::<Vec<_>>();
    let asked = events.iter().find(|event| event["type"] == "approval.requested").expect("a question");
    assert!(asked["difference"].as_str().is_some_and(|diff| diff.contains("-café\n+thé\n")), "{asked}");
}
