//! What a lasting yes is kept as, and what it lets through afterwards.

use super::*;
use crate::tools::local::fixture::Workspace;
use crate::tools::{Gate, Policy};
use bob_messages::approvals::{Scope, Standing};
use bob_messages::context::Identity;
use bob_messages::ids::{CallId, ToolName};
use bob_messages::permission::PermissionMode;
use bob_messages::tools::{CheckRequest, Risk, ToolSource, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const SHELL: &str = "local/shell_exec";

fn tool(name: &str, kind: ToolKind) -> ToolDescriptor {
    ToolDescriptor::new(ToolName::new(name), String::new(), json!({}))
        .with_title("")
        .with_kind(kind)
        .with_source(ToolSource::Local)
        .with_risk(Risk::High)
}

fn call(name: &str, arguments: Value) -> ToolCall {
    let argument_bytes = arguments.to_string().len();
    let (id, name) = (CallId::new("c1"), ToolName::new(name));
    ToolCall { id, name, arguments: arguments.into(), argument_bytes, signatures: Vec::new() }
}

fn context() -> CallContext {
    CallContext {
        roots: ["/project".to_owned()].into(),
        mode: Some(PermissionMode::Ask),
        allow: None,
        ..Workspace::nowhere()
    }
}

fn kept(name: &str, kind: ToolKind, arguments: Value) -> Vec<String> {
    let rules = like(&tool(name, kind), &call(name, arguments), &context());
    rules
        .iter()
        .map(|rule| rule.strip_prefix(&format!("{name}(")).unwrap().strip_suffix(')').unwrap().to_owned())
        .collect()
}

fn of(line: &str) -> Vec<String> {
    kept(SHELL, ToolKind::Execute, json!({ "command": line }))
}

#[test]
fn a_line_is_kept_by_what_its_programs_are_known_to_do() {
    for (line, patterns) in [
        ("cargo test --workspace", &["cargo test *"][..]),
        ("git status", &["git status *"]),
        ("git commit -m 'a; rm -r x'", &["git commit *"]),
        ("ls -la src", &["ls *"]),
        ("cd sub && cargo test 2>&1 | tail -20", &["cd sub", "cargo test *", "tail -20"]),
        ("git add a; git add b && git diff", &["git add *", "git diff *"]),
        ("npm run lint -- --fix", &["npm run lint *"]),
        ("uv run pytest -x", &["uv run pytest *"]),
        ("cargo run --release", &["cargo run *"]),
    ] {
        assert_eq!(of(line), patterns, "{line}");
    }
}

#[test]
fn a_line_whose_programs_could_do_anything_is_kept_as_it_is() {
    for line in [
        "rm -r x",
        "cargo",
        "cargo --version",
        "python3 x.py",
        "sh -c 'git status'",
        "FOO=1 git status",
        "/usr/bin/git status",
        "./git status",
        "git -C / status",
        "git 'st*' x",
        "git status; $X",
        "git status > x",
        "git status; python3 'a b.py'",
        "npm run",
        "npm exec 'x y'",
        "go run ./cmd",
        "cat x",
        "",
        "git a; git b; git c; git d; git e; git f; git g; git h; git i",
    ] {
        assert_eq!(of(line), [] as [&str; 0], "{line}");
    }
}

#[test]
fn a_file_is_kept_by_its_folder_and_an_address_by_its_host() {
    let path = |kind, path: &str| kept("local/x", kind, json!({ "path": path }));
    assert_eq!(path(ToolKind::Edit, "src/a/b.rs"), ["src/a/**"]);
    assert_eq!(path(ToolKind::Edit, "./src/b.rs"), ["src/**"]);
    assert_eq!(path(ToolKind::Edit, "/project/src/b.rs"), ["src/**"]);
    assert_eq!(path(ToolKind::Edit, "README.md"), ["README.md"]);
    assert_eq!(path(ToolKind::Read, "s[a]*/b"), ["s[[]a[]][*]/**"]);
    for other in ["../x", "src/../../x", "/etc/passwd", "", "."] {
        assert_eq!(path(ToolKind::Edit, other), [] as [&str; 0], "{other}");
    }
    assert_eq!(path(ToolKind::Delete, "src/b.rs"), [] as [&str; 0]);
    let url = |url: &str| kept("local/web_fetch", ToolKind::Fetch, json!({ "url": url }));
    assert_eq!(url("https://docs.rs/a/b?c=/d"), ["https://docs.rs/**"]);
    for other in ["https://docs.rs@other.example/x", "https://docs.rs", "file:///etc/passwd", "docs.rs/x"] {
        assert_eq!(url(other), [] as [&str; 0], "{other}");
    }
}

/// What stands after a lasting yes to a call of the one tool of this gate.
fn allowed_for_good(gate: &mut Gate, call: ToolCall) -> Standing {
    let check = CheckRequest { call: Arc::new(call), approved: None, standing: Vec::new(), run: false };
    let verdict = gate.check(&check, &context());
    let Verdict::Ask { tool, .. } = verdict else { panic!("{:?}: {verdict:?}", check.call.arguments) };
    Standing::of(&check.call, &tool, Scope::Always, (true, ""), Identity::default())
}

#[test]
fn a_yes_without_a_pattern_is_of_exactly_its_call_whatever_path_the_model_chose() {
    let asks_for_docs = vec!["local/x(docs/**)".to_owned()];
    for (kind, key, values, ask) in [
        (ToolKind::Edit, "path", &["src/../x", "../x", "/etc/passwd", "", "."][..], Vec::new()),
        (ToolKind::Other, "path", &["src/../x", "/second/folder/a"], Vec::new()),
        (ToolKind::Delete, "path", &["src/a"], Vec::new()),
        (ToolKind::Move, "from", &["src/a"], Vec::new()),
        (ToolKind::Fetch, "url", &["https://docs.rs", "https://docs.rs@other.example/x"], Vec::new()),
        (ToolKind::Edit, "path", &["docs/a.md"], asks_for_docs),
    ] {
        for value in values {
            let policy = Policy { ask: ask.clone(), deny_tools: Vec::new(), ..Policy::default() };
            let mut gate = Gate::new([vec![tool("local/x", kind)]], policy).unwrap();
            let standing = allowed_for_good(&mut gate, call("local/x", json!({ key: value })));
            let mut is_asked = |value: &str| {
                let call = Arc::new(call("local/x", json!({ key: value })));
                let standing = vec![Arc::new(standing.clone())];
                let check = CheckRequest { call, approved: None, standing, run: false };
                matches!(gate.check(&check, &context()), Verdict::Ask { .. })
            };
            assert!(!is_asked(value), "{kind:?} {value}: the call itself");
            for other in ["deep/other/file.txt", "src/b", "https://other.example/"] {
                assert!(is_asked(other), "{kind:?} {value}: {other}");
            }
        }
    }
}

/// One that leaves the shell to questions.
fn policy() -> Policy {
    Policy { deny_tools: Vec::new(), ..Policy::default() }
}

fn gate(policy: Policy) -> Gate {
    Gate::new([vec![tool(SHELL, ToolKind::Execute)]], policy).unwrap()
}

fn asks(line: &str, standing: &[Standing]) -> CheckRequest {
    let call = Arc::new(call(SHELL, json!({ "command": line })));
    CheckRequest { call, approved: None, standing: standing.iter().cloned().map(Arc::new).collect(), run: false }
}

/// What stands after a person who was asked about this line said yes or no for good.
fn decided(line: &str, allowed: bool) -> Standing {
    let check = asks(line, &[]);
    let verdict = gate(policy()).check(&check, &context());
    let Verdict::Ask { tool, .. } = verdict else { panic!("{line}: {verdict:?}") };
    Standing::of(&check.call, &tool, Scope::Always, (allowed, "no"), Identity::default())
}

#[test]
fn what_is_like_an_allowed_line_runs_and_nothing_else() {
    let standing = [decided("cargo test -q", true), decided("git status", true), decided("cargo publish", false)];
    let verdict = |line: &str| gate(policy()).check(&asks(line, &standing), &context());
    for fine in ["cargo test", "cargo test -p x && git status", "git status -s; cargo test | git status"] {
        assert!(matches!(verdict(fine), Verdict::Allow { .. }), "{fine}: {:?}", verdict(fine));
    }
    for other in ["cargo build", "cargo test; touch x", "git push", "git status > x", "cargo publish --dry-run"] {
        assert!(matches!(verdict(other), Verdict::Ask { .. }), "{other}: {:?}", verdict(other));
    }
    assert!(matches!(verdict("cargo publish"), Verdict::Deny { .. }), "a no is of the very arguments");
}

#[test]
fn a_policy_that_denies_or_asks_stays_above_what_was_allowed() {
    let standing = [decided("git push", true)];
    let ask = Policy { ask: vec![format!("{SHELL}(git push *)")], ..policy() };
    let deny = Policy { deny: vec![format!("{SHELL}(git push *)")], ..policy() };
    let verdict = |policy| gate(policy).check(&asks("git push origin", &standing), &context());
    let Verdict::Ask { tool, .. } = verdict(ask) else { panic!("not asked") };
    assert!(tool.like.is_empty() && tool.exact, "the rule is answered by exactly this: {tool:?}");
    assert!(matches!(verdict(deny), Verdict::Deny { .. }));
}

#[test]
fn at_a_terminal_what_removes_files_asks_in_every_mode_and_a_yes_is_of_this_call() {
    use bob_messages::permission::PermissionMode::{Ask, Auto, Edits};
    let judged = |policy: Policy, line: &str, mode, standing: &[Standing]| {
        gate(policy).check(&asks(line, standing), &CallContext { mode: Some(mode), ..context() })
    };
    let own = Policy { ask: vec![format!("{SHELL}(git push *)")], ..Policy::terminal() };
    for line in [
        "rm a",
        "rmdir old",
        "shred -u a",
        "unlink a",
        "cd src && rm -r old",
        "find . -exec rm {} +",
        "find . -name '*.o' -delete",
        "/bin/rm a",
        "'r'm a",
        "ls | xargs rm",
        "sh -c 'rm a'",
        "taskset 1 rm a",
        "flock lock rm a",
        "chrt 1 rm a",
        "setpriv --no-new-privs rm a",
        "prlimit --nofile=9 rm a",
        "unshare -r rm a",
        "setarch -R rm a",
        "rbash -c 'rm a'",
        "nsenter rm a",
        "find . -name x -exec rm {} +",
    ] {
        for mode in [Ask, Edits, Auto] {
            for policy in [Policy::terminal(), own.clone()] {
                let verdict = judged(policy, line, mode, &[]);
                let Verdict::Ask { tool, .. } = verdict else { panic!("{line} in {mode}: {verdict:?}") };
                assert!(tool.like.is_empty() && tool.exact, "{line}: {tool:?}");
            }
        }
        let allow = Policy { allow: vec![format!("{SHELL}(*)"), format!("{SHELL}(rm *)")], ..Policy::terminal() };
        assert!(matches!(judged(allow, line, Auto, &[]), Verdict::Ask { .. }), "{line}");
        let unasked = Policy { ask_commands: Vec::new(), ..Policy::terminal() };
        assert!(matches!(judged(unasked, line, Auto, &[]), Verdict::Allow { .. }), "{line}");
    }
    assert!(matches!(judged(own, "git push", Auto, &[]), Verdict::Ask { .. }));
    let check = asks("rm a", &[]);
    let Verdict::Ask { tool, .. } = judged(Policy::terminal(), "rm a", Ask, &[]) else { panic!("not asked") };
    let always = [Standing::of(&check.call, &tool, Scope::Always, (true, ""), Identity::default())];
    assert!(matches!(judged(Policy::terminal(), "rm a", Ask, &always), Verdict::Allow { .. }));
    for other in ["rm b", "rm a b", "rm -r a", "rm a; rm b"] {
        assert!(matches!(judged(Policy::terminal(), other, Auto, &always), Verdict::Ask { .. }), "{other}");
    }
    for harmless in [
        "command -v rm",
        "command -v sudo",
        "find . -name rm",
        "find . -type f -iname su",
        "git rm --cached a",
        "echo rm",
        "ls",
        "grep rm a",
        "find . -name \"*.toml\"",
        "find . -name *.toml",
        "timeout 5 ls *.toml",
        "bash ./x.sh $HOME",
        "ls | xargs -n1 echo $HOME",
        "./*/tool",
    ] {
        assert!(matches!(judged(Policy::terminal(), harmless, Auto, &[]), Verdict::Allow { .. }), "{harmless}");
    }
    for denied in
        ["sudo ls", "ls; su", "mkfs.ext4 /dev/x", "MKFS /dev/x", "dd if=a of=b", "shutdown now", "runuser x", "run0 ls"]
    {
        assert!(matches!(judged(Policy::terminal(), denied, Auto, &[]), Verdict::Deny { .. }), "{denied}");
    }
}

#[test]
fn rules_that_are_none_allow_nothing() {
    let broken = Standing { like: vec!["(".to_owned(), format!("{SHELL}(")], ..decided("git status", true) };
    let verdict = gate(policy()).check(&asks("git status -s", &[broken]), &context());
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");
}

proptest! {
    /// Whatever is asked about is covered by what its yes is kept as, and a command put behind it is not.
    #[test]
    fn a_yes_covers_its_own_line_and_no_command_beside(
        program in proptest::sample::select(&["git", "cargo", "ls", "npm", "x"][..]),
        words in proptest::collection::vec("[a-z*?$'\" ;|&()./~-]{0,6}", 0..5),
    ) {
        let line = format!("{program} {}", words.join(" "));
        let rules = like(&tool(SHELL, ToolKind::Execute), &call(SHELL, json!({ "command": line })), &context());
        let is_like = |line: &str| {
            is_like(&rules, &tool(SHELL, ToolKind::Execute), &call(SHELL, json!({ "command": line })), &context())
        };
        prop_assert_eq!(is_like(&line), !rules.is_empty());
        let more = line.clone() + "\ntouch other";
        prop_assert!(!is_like(&more), "{}", more);
    }
}
