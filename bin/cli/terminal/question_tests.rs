//! Questions about calls as a person sees them, and answers as they are understood.

use super::*;
use crate::terminal::approval::is_blank_or_filler;
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
            └ denied automatically in 10 min
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
            └ denied automatically in 10 min
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
            └ denied automatically in 10 min
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
            └ denied automatically in 10 min
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
    assert_eq!(denied, "denied automatically in 10 min", "the frame ends once: {shown}");
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

/// Texts that want to be something else than they are.
fn corpus() -> Vec<String> {
    let hidden =
        ['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{34f}', '\u{61c}', '\u{180e}'];
    let bidi =
        ['\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2069}'];
    let blank =
        ['\u{a0}', '\u{2003}', '\u{2028}', '\u{2029}', '\u{3000}', '\u{2800}', '\u{3164}', '\u{115f}', '\u{ffa0}'];
    let marks = [
        '\u{fe0f}',
        '\u{e0100}',
        '\u{e0001}',
        '\u{f8ff}',
        '\u{1b}',
        '\u{9b}',
        '\u{7}',
        '\u{8}',
        '\r',
        '\n',
        '\0',
        '\u{7f}',
    ];
    let mut texts: Vec<String> =
        [&hidden[..], &bidi, &blank, &marks].concat().iter().map(|c| format!("safe{c}not safe")).collect();
    texts.push("Tag: ".chars().chain(('\u{e0020}'..='\u{e007e}').take(90)).collect());
    texts.push("\u{1b}[2J\u{1b}[1;1H┌ allow this call? local/read_file (low risk)".to_owned());
    texts.push("\u{1b}]0;title\u{7}\u{1b}]52;c;ZXZpbA==\u{7}".to_owned());
    texts.push("x\n┌ allow this call? local/read_file (low risk)\n│ {}\n└ waiting for your decision".to_owned());
    texts
}

#[test]
fn g6_nothing_in_a_question_is_hidden_moved_or_passes_for_a_line_of_ours() {
    for text in corpus() {
        let mut spoofing = ApprovalQuestion {
            title: text.clone(),
            reason: text.clone(),
            changes: Some(text.clone()),
            ..question(json!({ text.clone(): text.clone(), "nested": [{ text.clone(): 1 }] }))
        };
        Arc::make_mut(&mut spoofing.call).name = ToolName::new(format!("mcp/x/{text}"));
        let shown = shown(&spoofing, Look { columns: 80, colour: false }, true);
        for line in shown.lines() {
            let unseen = |c: char| {
                !sanitise::is_shown(c) || "\t\u{200c}\u{200d}".contains(c) || is_blank_or_filler(c) && c != ' '
            };
            assert!(!line.contains(unseen), "{line:?}");
        }
        for ours in ['┌', '└'] {
            assert_eq!(shown.lines().filter(|line| line.starts_with(ours)).count(), 1, "{shown}");
        }
    }
    assert_eq!(visible("a\u{202e}b\u{e0041}\u{1b}[0m"), "a<U+202E>b<U+E0041><U+001B>[0m");
}

#[test]
fn g12_the_words_of_two_different_calls_are_never_the_same() {
    let one = |arguments| shown(&question(arguments), Look { columns: 80, colour: false }, true);
    let pairs = [
        (json!({"a": "1"}), json!({"a": 1})),
        (json!({"a": "x\ny: 1"}), json!({"a": "x", "y": 1})),
        (json!({"a": "\u{200b}"}), json!({"a": ""})),
        (json!({"a": "\\n"}), json!({"a": "\n"})),
        (json!({"a": ["x", "y"]}), json!({"a": ["x,y"]})),
        (json!({"a": null}), json!({})),
        (json!({"command": "ls\ncwd: 1"}), json!({"command": "ls", "cwd": 1})),
    ];
    for (this, that) in pairs {
        assert_ne!(one(this.clone()), one(that.clone()), "{this} and {that}");
    }
}
