//! The help texts.

use expect_test::{expect, expect_file};

use crate::home::AGENT;
use crate::support::program::Program;

const COMMANDS: [&[&str]; 49] = [
    &[],
    &["chat"],
    &["run"],
    &["batch"],
    &["submit"],
    &["work"],
    &["sessions"],
    &["sessions", "list"],
    &["sessions", "search"],
    &["sessions", "show"],
    &["sessions", "rename"],
    &["sessions", "fork"],
    &["sessions", "undo"],
    &["sessions", "rewind"],
    &["sessions", "export"],
    &["sessions", "set"],
    &["sessions", "take"],
    &["sessions", "delete"],
    &["memory"],
    &["approvals"],
    &["approvals", "list"],
    &["approvals", "revoke"],
    &["replay"],
    &["tools"],
    &["skills"],
    &["skills", "list"],
    &["skills", "show"],
    &["skills", "update"],
    &["skills", "validate"],
    &["mcp"],
    &["mcp", "list"],
    &["mcp", "restart"],
    &["mcp", "login"],
    &["mcp", "logout"],
    &["mcp", "reload"],
    &["ps"],
    &["top"],
    &["cancel"],
    &["drain"],
    &["doctor"],
    &["soak"],
    &["events-schema"],
    &["init"],
    &["config"],
    &["config", "get"],
    &["config", "set"],
    &["config", "path"],
    &["config", "check"],
    &["completions"],
];

#[test]
fn every_command_explains_itself() {
    let mut all = String::new();
    for command in COMMANDS {
        let run = Program::new(AGENT).args(command.iter().copied()).args(["--help"]).run();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{command:?}");
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 120), "{command:?}: a line is too long");
        all.push_str(&format!("$ cli-agent {}\n{}\n", [command, &["--help"]].concat().join(" "), run.stdout));
    }
    expect_file!["help.txt"].assert_eq(&all);
}

#[test]
fn the_version_is_said() {
    let run = Program::new(AGENT).args(["--version"]).run();
    assert_eq!(run.code, Some(0));
    expect![[r#"
        cli-agent 0.1.0
    "#]]
    .assert_eq(&run.stdout);
}

#[test]
fn a_mistyped_option_is_a_usage_error_with_a_suggestion() {
    let run = Program::new(AGENT).args(["run", "--max-step", "3", "hi"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("--max-steps"), "{}", run.stderr);
}

#[test]
fn the_option_by_which_other_agents_run_one_turn_is_refused_with_the_command_for_it() {
    for line in [&["-p", "hi"][..], &["--print", "hi"], &["chat", "-p", "hi"]] {
        let run = Program::new(AGENT).args(line.iter().copied()).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line:?}");
        assert!(run.stderr.contains("cli-agent run \"MESSAGE\""), "{line:?}: {}", run.stderr);
    }
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = Program::new(AGENT).args(["completions", shell]).run();
        assert_eq!(run.code, Some(0), "{shell}");
        assert!(run.stdout.contains("cli-agent") && run.stdout.contains("sessions"), "{shell}");
    }
}
