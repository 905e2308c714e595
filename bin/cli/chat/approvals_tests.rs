//! Questions about calls as a person sees them, and answers as they are understood.

use super::*;
use bob::SessionId;
use bob::approvals::ApprovalId;
use bob::sessions::TurnId;
use bob::tools::{CallId, ToolCall, ToolName};
use bob_config::sanitise;
use expect_test::{Expect, expect};
use serde_json::json;
use std::sync::Arc;

fn question(arguments: Value) -> ApprovalQuestion {
    let call = ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("local/shell_exec"),
        argument_bytes: 0,
        arguments: arguments.into(),
        signatures: Vec::new(),
    };
    ApprovalQuestion {
        session: SessionId::parse("s").unwrap(),
        context: None,
        turn: TurnId::new("t"),
        approval_id: ApprovalId::new("t-c1"),
        call: Arc::new(call),
        risk: Risk::High,
        reason: "the tool is of high risk".to_owned(),
        title: "shell exec".to_owned(),
        choices: ["allow_once", "allow_session", "allow_always", "edit", "deny"].map(str::to_owned).to_vec(),
        exact: true,
        like: Vec::new(),
        changes: None,
        timeout_ms: 600_000,
        agents: Vec::new(),
    }
}

fn check(question: &ApprovalQuestion, columns: usize, expected: Expect) {
    let shown = shown(question, Look { columns, colour: false }, false);
    assert!(shown.lines().all(|line| textwrap::core::display_width(line) <= columns), "{shown}");
    expected.assert_eq(&shown);
}

#[test]
fn a_question_about_a_command_names_the_sandbox() {
    let asked =
        ApprovalQuestion { title: "shell in a sandbox: no network".to_owned(), ..question(json!({ "command": "ls" })) };
    let shown = shown(&asked, Look { columns: 80, colour: false }, false);
    let head = "┌ allow this command? (high risk)\n│ shell in a sandbox: no network\n│ $ ls\n";
    assert!(shown.starts_with(head), "{shown}");
}

#[test]
fn without_its_frame_a_line_keeps_its_place() {
    let bare: Vec<&str> = ["┌ allow?", "│     a", "│ +    b", "│", "└ until", "  further", "y: yes"].map(bare).to_vec();
    assert_eq!(bare, ["allow?", "    a", "+    b", "", "until", "  further", "y: yes"]);
}

#[test]
fn a_question_shows_the_call_as_it_would_run() {
    let asked = question(json!({ "command": "git push --force origin main", "quiet": true }));
    check(
        &asked,
        80,
        expect![[r#"
            ┌ allow this command? (high risk)
            │ $ git push --force origin main
            │ quiet: true
            └ denied automatically in 10 min 0 s
            y: yes, once · s: this exact call, this session · a: this exact call, always
            e: edit · n [REASON]: no
        "#]],
    );
    check(
        &asked,
        40,
        expect![[r#"
            ┌ allow this command? (high risk)
            │ $ git push --force origin main
            │ quiet: true
            └ denied automatically in 10 min 0 s
            y: yes, once
            s: this exact call, this session
            a: this exact call, always · e: edit
            n [REASON]: no
        "#]],
    );
}

#[test]
fn what_a_lasting_yes_applies_to_is_beside_its_letter() {
    let like = ["cd sub", "cargo test *"].map(|about| format!("local/shell_exec({about})")).to_vec();
    let asked = ApprovalQuestion { like, ..question(json!({ "command": "cd sub && cargo test -q" })) };
    check(
        &asked,
        60,
        expect![[r#"
            ┌ allow this command? (high risk)
            │ $ cd sub && cargo test -q
            └ denied automatically in 10 min 0 s
            y: yes, once · s: `cd sub` and `cargo test *`, this
            session
            a: `cd sub` and `cargo test *`, always · e: edit
            n [REASON]: no
        "#]],
    );
}

#[test]
fn a_tool_that_changed_shows_how() {
    let changes = Some("- reads a file\n+ reads a file and sends it\u{202e}".to_owned());
    check(
        &ApprovalQuestion { changes, exact: false, ..question(json!({})) },
        60,
        expect![[r#"
            ┌ allow this call? local/shell_exec (shell exec; high risk)
            │ {}
            │ the tool has changed since you decided about it:
            │ - reads a file
            │ + reads a file and sends it<U+202E>
            └ denied automatically in 10 min 0 s
            y: yes, once · s: this tool, this session
            a: this tool, always · e: edit · n [REASON]: no
        "#]],
    );
}

#[test]
fn g6_nothing_in_a_question_is_invisible_and_nothing_is_left_out() {
    let hostile = "rm\u{200b} -rf\u{202e} /\u{e0041}\u{200d}\u{1b}[2K\r\n└ harmless\ny: once";
    let mut asked = question(json!({ hostile: hostile }));
    asked.title = hostile.to_owned();
    asked.reason = hostile.to_owned();
    asked.changes = Some(hostile.to_owned());
    let shown = shown(&asked, Look { columns: 80, colour: false }, true);
    assert!(shown.chars().all(|c| c == '\n' || (sanitise::is_shown(c) && c != '\u{200d}')), "{shown}");
    for number in ["<U+200B>", "<U+202E>", "<U+E0041>", "<U+200D>"] {
        assert!(shown.matches(number).count() >= 4, "{number}: {shown}");
    }
    // What looks like nothing, or pushes the rest out of sight, is counted.
    let blank = question(json!({ "command": format!("ls{};\u{3164}\u{a0}rm x", " ".repeat(200)) }));
    let asked = super::shown(&blank, Look { columns: 80, colour: false }, true);
    assert!(asked.contains("$ ls<200 blanks>;<U+3164><U+00A0>rm x\n"), "{asked}");
    // Only our own lines begin without a bar: the frame and the choices.
    let (framed, choices) = shown.split_once("\n└ ").expect("the end of the frame");
    assert!(framed.starts_with("┌ ") && framed.lines().skip(1).all(|line| line.starts_with("│ ")), "{shown}");
    let denied = choices.lines().next().unwrap_or_default();
    assert_eq!(denied, "denied automatically in 10 min 0 s", "the frame ends once: {shown}");
    assert!(choices.lines().skip(1).all(|line| line.contains(": ") && !line.contains("harmless")), "{shown}");
    // A command of several lines is none of the arguments beside it.
    let lines = question(json!({ "command": "ls\ncwd: /\r\n$ rm x", "cwd": "src" }));
    let lines = super::shown(&lines, Look { columns: 80, colour: false }, true);
    assert!(lines.contains("│ $ ls\n│ > cwd: /<U+000D>\n│ > $ rm x\n│ cwd: \"src\"\n"), "{lines}");
}

#[test]
fn g12_long_arguments_are_shown_in_part_and_on_demand_whole() {
    let asked = question(json!({ "lines": (0..500).collect::<Vec<_>>() }));
    let look = Look { columns: 80, colour: false };
    let (part, whole) = (shown(&asked, look, false), shown(&asked, look, true));
    assert!(part.contains("more lines; v shows all of them") && part.lines().count() < 70, "{part}");
    assert!(whole.contains(" 499\n") && !whole.contains("more lines"));
}

#[test]
fn g12_only_what_is_offered_allows_and_nothing_means_no() {
    let asked = question(json!({}));
    let said = |line: &str| understood(line, &asked);
    let denied = |reason: &str| Said::Decided(Decision::Deny { reason: reason.to_owned() });
    for (line, decision) in [
        ("y", Decision::AllowOnce),
        ("YES", Decision::AllowOnce),
        (" s ", Decision::AllowSession),
        ("always", Decision::AllowAlways),
    ] {
        assert_eq!(said(line), Said::Decided(decision), "{line}");
    }
    assert_eq!((said(""), said("  ")), (denied("denied by the user"), denied("denied by the user")));
    assert_eq!((said("n"), said("no not on main")), (denied("denied by the user"), denied("not on main")));
    assert_eq!((said("e"), said("v")), (Said::Edit, Said::Whole));
    for line in ["yes please", "ok", "yy", "make it shorter", "never", "1", "Ы"] {
        assert_eq!(said(line), Said::Unclear, "{line}");
    }
    let asked = ApprovalQuestion { choices: vec!["deny".to_owned()], ..asked };
    assert_eq!((understood("y", &asked), understood("e", &asked)), (Said::Unclear, Said::Unclear));
}

#[test]
fn edited_arguments_are_an_object() {
    assert_eq!(edited(r#"{"a": 1}"#), Ok(Decision::Edit { arguments: json!({"a": 1}) }));
    assert!(edited("[1]").is_err_and(|why| why.contains("object")));
    assert!(edited("{").is_err_and(|why| why.contains("JSON")));
    let asked = question(json!({ "a": "b\u{202e}\n" }));
    let line = to_edit(&asked);
    assert!(line.chars().all(|c| sanitise::is_shown(c) && c != '\n'), "{line}");
    assert_eq!(edited(&line), Ok(Decision::Edit { arguments: json!({ "a": "b\u{202e}\n" }) }));
}
