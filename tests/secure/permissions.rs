//! All stored files are readable by their user only, also with a permissive umask.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use crate::secure::fixture::{AGENT, Fixture, LONG, STORES};
use crate::support::program::Program;
use crate::support::terminal::{CTRL_D, Terminal};

const OPEN: &str = "umask 000; exec \"$0\" \"$@\"";

fn program(fixture: &Fixture, args: &[&str]) -> Program {
    let program = Program::new("/bin/sh").args(["-c", OPEN, AGENT]).args(args.iter().copied());
    program.dir(fixture.scratch.path()).deadline(LONG).env("XDG_STATE_HOME", fixture.scratch.join("state"))
}

/// Everything below a folder that others may touch, and how much there is.
fn offenders(folder: &Path) -> (Vec<String>, usize) {
    let (mut bad, mut count) = (Vec::new(), 0);
    let mut left: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        // A file may go away while it is looked at.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        count += 1;
        let mode = found.permissions().mode() & 0o7777;
        let allowed = if found.is_dir() { 0o700 } else { 0o600 };
        if mode & !allowed != 0 {
            bad.push(format!("{} {mode:o}", path.display()));
        }
        if found.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    (bad, count)
}

#[test]
fn g4_nothing_that_is_kept_is_open_to_others() {
    for kind in STORES {
        let fixture = Fixture::new(&format!(
            "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
             [store]\nkind = \"{kind}\"\n[[mcp.servers]]\nid = \"gone\"\ncommand = \"false\"\n"
        ));
        let script = json!([
            { "when": "stall", "replies": ["stall"] },
            { "when": "list", "replies": [{ "calls": [{ "name": "local/list_dir", "arguments": { "path": "." } }] }, { "text": "listed" }] },
            { "when": "large", "replies": [{ "calls": [{ "name": "local/read_file", "arguments": { "path": "large.txt" } }] }, { "text": "read" }] },
            { "replies": [{ "text": "hello" }] },
        ]);
        fixture.scratch.write("s.json", script.to_string());
        fixture.scratch.write("large.txt", "a line of text\n".repeat(60_000));
        let check = |when: &str, least: usize| {
            let (data, kept) = offenders(&fixture.scratch.join(".bob"));
            let (state, _) = offenders(&fixture.scratch.join("state"));
            assert_eq!((data, state), (vec![], vec![]), "{kind}, {when}");
            assert!(kept >= least, "{kind}, {when}: only {kept}");
        };
        assert_eq!(program(&fixture, &["trust", "--yes"]).run().code, Some(0));
        assert!(fixture.scratch.join("state/bob/trusted.jsonl").exists());
        for prompt in ["hi", "list", "large"] {
            let run = program(&fixture, &["run", "--session", "Some-Session", prompt]).run();
            assert_eq!(run.code, Some(0), "{run:?}");
        }
        check("after three turns", 2);
        let lines: String =
            (0..4).map(|n| format!("{}\n", json!({"session": format!("b{n}"), "prompt": "hi"}))).collect();
        assert_eq!(program(&fixture, &["batch", "-"]).stdin(lines).run().code, Some(0));
        assert_eq!(program(&fixture, &["sessions", "export", "b1"]).run().code, Some(0));

        let path = fixture.scratch.path();
        let state = fixture.scratch.join("state").display().to_string();
        let arguments = ["-c", OPEN, AGENT, "chat", "--session", "c"];
        let mut terminal = Terminal::start("/bin/sh", &arguments, path, &[("XDG_STATE_HOME", &state)]).deadline(LONG);
        terminal.wait_for("you>");
        terminal.type_line("hi");
        terminal.wait_until("the answer, and a prompt", |screen| {
            let shown = screen.contents();
            shown.contains("hello") && shown.trim_end().ends_with("you>")
        });
        check("in a chat", 3);
        terminal.press(CTRL_D);
        assert!(terminal.wait_exit().success());

        let stalled = program(&fixture, &["run", "--session", "k", "--output", "stream-json", "stall"]).spawn();
        stalled.wait_stdout("llm.requested");
        check("in the middle of a turn", 4);
        stalled.signal(Signal::KILL);
        assert_eq!(stalled.finish().signal, Some(9));
        check("after a kill", 4);
        assert_eq!(program(&fixture, &["run", "--session", "k", "hi"]).run().code, Some(0));
        check("at the end", 3);
        let histories = fixture.scratch.join("state/bob/histories").read_dir().expect("a folder");
        assert_eq!(histories.count(), 1, "{kind}: a history was kept");
    }
}
