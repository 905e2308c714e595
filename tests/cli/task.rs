//! A small task at a terminal, from the first look to the green tests: 30 calls of a model that is scripted, with a real
//! `cargo test`, two refusals and one undo, and no limit in the way.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

use crate::home::{AGENT, Home};
use crate::support::program::Program;
use crate::support::terminal::{CTRL_D, Terminal};

const PROMPT: &str = "you>";
const ASKED: &str = "allow? [y/s/a/e/N] ▏";
const TEST: &str = "cargo test --offline --quiet --lib";

const LIB: &str = "\
pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

pub fn product(numbers: &[i32]) -> i32 {
    numbers.iter().fold(0, |all, number| all * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        assert_eq!(add(2, 3), 5);
    }

    #[test]
    fn products() {
        assert_eq!(product(&[2, 3]), 6);
    }
}
";

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": format!("local/{name}"), "arguments": arguments })
}

fn calls(calls: &[Value]) -> Value {
    json!({ "calls": calls })
}

fn read(path: &str, offset: u32) -> Value {
    call("read_file", json!({ "path": path, "offset": offset }))
}

fn search(pattern: &str) -> Value {
    call("search_files", json!({ "pattern": pattern }))
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    call("edit_file", json!({ "path": path, "old": old, "new": new }))
}

fn shell(command: &str) -> Value {
    call("shell_exec", json!({ "command": command }))
}

/// The steps of the task: 30 calls. This is what is written where a person says no.
fn script((path, content): (&str, &str)) -> Value {
    let steps = [
        calls(&[
            call("list_dir", json!({ "path": "." })),
            call("find_files", json!({ "pattern": "*.rs" })),
            read("Cargo.toml", 1),
        ]),
        calls(&[search("pub fn"), search("assert_eq"), read("src/lib.rs", 1)]),
        calls(&[shell(TEST)]),
        calls(&[read("src/lib.rs", 2), search("a - b"), read("README.md", 1)]),
        calls(&[edit("src/lib.rs", "a - b", "a + b")]),
        calls(&[shell(TEST)]),
        calls(&[shell("git push origin main")]),
        calls(&[call("write_file", json!({ "path": path, "content": content }))]),
        calls(&[read("src/lib.rs", 5), search("fold"), search("product")]),
        calls(&[edit("src/lib.rs", "fold(0,", "fold(1,")]),
        calls(&[shell(TEST)]),
        calls(&[edit("README.md", "Sums.\n", "Sums and products.\n")]),
        calls(&[call("write_file", json!({ "path": "CHANGES.md", "content": "Sums are sums.\n" }))]),
        calls(&[read("README.md", 1), read("CHANGES.md", 1), read("src/lib.rs", 1)]),
        calls(&[search("Sums"), search("add"), call("find_files", json!({ "pattern": "*.md" }))]),
        calls(&[call("list_dir", json!({ "path": "src" })), read("src/lib.rs", 20), read("Cargo.toml", 2)]),
        json!({ "text": "The tests are green." }),
    ];
    let count: usize = steps.iter().filter_map(|step| step["calls"].as_array()).map(Vec::len).sum();
    assert_eq!(count, 30);
    json!([
        { "when": "repair", "replies": steps },
        { "when": "shorter", "replies": [
            calls(&[edit("README.md", "Sums and products.\n", "Maths.\n")]), { "text": "It is shorter." }] },
    ])
}

fn git(folder: &Path, args: &[&str]) -> String {
    let mut all = vec!["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "core.pager=cat"];
    all.extend(args);
    let run = Program::new("git").args(all).dir(folder).run();
    assert_eq!(run.code, Some(0), "git {args:?}: {run:?}");
    run.stdout
}

fn home(written: (&str, &str)) -> Home {
    let tables = "[providers.demo]\nkind = \"scripted\"\nscript = \".bob/s.json\"\n";
    let home = Home::with("default_model = \"demo:one\"", tables);
    home.scratch.write(".bob/s.json", script(written).to_string());
    // Not a member of the workspace that this test is in.
    home.scratch
        .write("Cargo.toml", "[package]\nname = \"sums\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n");
    home.scratch.write("src/lib.rs", LIB);
    home.scratch.write("README.md", "Sums.\n");
    home.scratch.write(".gitignore", "/target\n/Cargo.lock\n/.bob\n/state\n/agent.toml\n");
    git(home.scratch.path(), &["init", "--quiet"]);
    git(home.scratch.path(), &["add", "--all"]);
    git(home.scratch.path(), &["commit", "--quiet", "--message", "before"]);
    home
}

/// Answers the question that shows this.
fn answer(terminal: &mut Terminal, shows: &str, word: &str) {
    terminal.wait_until(&format!("the question with {shows:?}"), |screen| {
        let text = screen.contents();
        text.contains(shows) && text.trim_end().ends_with(ASKED)
    });
    terminal.type_line(word);
    terminal.wait_until("the answer is taken", |screen| !screen.contents().trim_end().ends_with(ASKED));
}

/// The lines of a difference without what only git writes.
fn plain(diff: &str) -> Vec<String> {
    let gits = |line: &&str| !["diff --git", "index ", "new file"].iter().any(|begins| line.starts_with(begins));
    let lines =
        diff.lines().filter(gits).map(|line| match line.strip_prefix("@@ ").and_then(|rest| rest.split_once(" @@")) {
            Some((place, _context)) => format!("@@ {place} @@"),
            None => line.trim_end().to_owned(),
        });
    lines.collect()
}

#[test]
fn a_task_of_thirty_calls_is_done_seen_and_undone_as_git_tells_it() {
    let home = home(("src/lib.rs", ""));
    let folder = home.scratch.path();
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let mut terminal = Terminal::start(AGENT, &args, folder, &[]).deadline(Duration::from_secs(120));
    terminal.wait_for(PROMPT);
    terminal.type_line("repair the tests");
    // Red: from now on this command needs no question.
    answer(&mut terminal, &format!("$ {TEST}"), "s");
    answer(&mut terminal, "+    a + b", "y");
    assert!(terminal.screen().contains("-    a - b"), "{}", terminal.screen());
    // Red again, then two refusals.
    answer(&mut terminal, "$ git push origin main", "n not yet");
    answer(&mut terminal, "-pub fn product(numbers", "n");
    answer(&mut terminal, "fold(1,", "y");
    // Green.
    answer(&mut terminal, "+Sums and products.", "y");
    answer(&mut terminal, "+Sums are sums.", "y");
    terminal.wait_for("The tests are green.");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
    assert!(folder.join("src/lib.rs").metadata().is_ok_and(|file| file.len() > 0), "what was refused did not run");

    terminal.type_line("make it shorter");
    answer(&mut terminal, "+Maths.", "y");
    terminal.wait_for("It is shorter.");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
    terminal.type_line("/undo");
    terminal.wait_for("README.md: restored");
    terminal.wait_until("the prompt", |screen| screen.contents().trim_end().ends_with(PROMPT));
    assert_eq!(home.scratch.read("README.md"), "Sums and products.\n");
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!written.contains("Stopped:") && !written.contains("go on?"), "no limit is in the way: {written}");

    // Behind each edit stands what it changed.
    for (changed, times) in [("src/lib.rs: +1 -1", 2), ("README.md: +1 -1", 2), ("CHANGES.md: new, +1 -0", 1)] {
        assert!(written.matches(changed).count() >= times, "{changed} {times} times in {written}");
    }

    // What the calls were: red, red, green; two refusals; 30 calls in one turn.
    let journal = home.run(["sessions", "export", "s"]).stdout;
    let records: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let results: Vec<&Value> =
        records.iter().filter(|record| record["kind"] == "result").map(|record| &record["body"]).collect();
    assert_eq!(results.len(), 31);
    let tests = results.iter().filter(|result| result["name"] == "local/shell_exec" && result["status"] == "ok");
    let exits: Vec<_> = tests.map(|result| result["output"]["structured"]["exit_status"].as_i64()).collect();
    assert_eq!(exits, [Some(101), Some(101), Some(0)]);
    assert_eq!(results.iter().filter(|result| result["status"] == "denied").count(), 2);

    // What git sees is what the session says.
    git(folder, &["add", "--intent-to-add", "--all"]);
    let of_git = plain(&git(folder, &["diff"]));
    let chat = home.agent(["chat", "--session", "s"]).stdin("/diff all\n").run();
    let of_chat = plain(&chat.stderr);
    assert!(of_chat.len() > 20, "{chat:?}");
    assert_eq!(files(&of_chat), files(&of_git));
}

/// The files of a difference, sorted by path as git does; a session has them in the order of the changes.
fn files(lines: &[String]) -> Vec<Vec<String>> {
    let mut files: Vec<Vec<String>> = Vec::new();
    for line in lines {
        if line.starts_with("--- ") || files.is_empty() {
            files.push(Vec::new());
        }
        files.last_mut().expect("a file").push(line.clone());
    }
    files.sort_by_key(|file| file.get(1).cloned());
    files
}

/// Without a person: how many of the 30 calls are ok, are errors and are denied.
#[test]
fn without_a_person_the_task_does_in_each_mode_what_the_mode_allows() {
    for (mode, wanted) in [("plan", [20, 1, 9]), ("ask", [20, 1, 9]), ("edits", [26, 0, 4]), ("auto", [30, 0, 0])] {
        let home = home(("notes.txt", "To do.\n"));
        let (code, line) = home.json(["--session", "s", "--mode", mode, "repair the tests"]);
        assert_eq!((code, &line["content"]), (Some(0), &json!("The tests are green.")), "{mode}: {line}");
        let transcript = line["tool_transcript"].as_array().expect("a list");
        let count = |status: &str| transcript.iter().filter(|call| call["status"] == status).count();
        assert_eq!(["ok", "error", "denied"].map(count), wanted, "{mode}: {line}");
        assert_eq!(line["denied"].as_array().map(Vec::len), Some(wanted[2]), "each is listed: {line}");

        let folder = home.scratch.path();
        git(folder, &["add", "--intent-to-add", "--all"]);
        let (of_git, told) = (plain(&git(folder, &["diff"])), home.run(["sessions", "diff", "s"]).stdout);
        assert_eq!(files(&plain(&told)), files(&of_git), "{mode}");
        assert_eq!(of_git.is_empty(), wanted[2] == 9, "{mode}: {of_git:?}");
    }
}
