use super::*;
use crate::tools::local::fixture::Workspace;
use bob_messages::ids::{CallId, ToolName};
use bob_messages::tools::{Risk, ToolSource};
use serde_json::json;

#[path = "call_rules_tests/oracle.rs"]
mod oracle;

fn tool(name: &str, kind: ToolKind) -> ToolDescriptor {
    ToolDescriptor::new(ToolName::new(name), String::new(), json!({}))
        .with_title("")
        .with_kind(kind)
        .with_source(ToolSource::Local)
        .with_risk(Risk::High)
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> CallRules {
    let owned = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
    CallRules::new(&owned(allow), &owned(ask), &owned(deny)).unwrap_or_else(|(key, bad)| panic!("{key}: {bad:?}"))
}

fn ruling<'a>(rules: &'a CallRules, name: &str, kind: ToolKind, arguments: Value) -> CallRuling<'a> {
    let (id, name) = (CallId::new("c1"), ToolName::new(name));
    let call =
        ToolCall { id, name: name.clone(), arguments: arguments.into(), argument_bytes: 0, signatures: Vec::new() };
    let context = CallContext { roots: ["/project".to_owned(), "/data".to_owned()].into(), ..Workspace::nowhere() };
    rules.judge(&tool(name.as_str(), kind), &call, &context)
}

fn line<'a>(rules: &'a CallRules, line: &str) -> CallRuling<'a> {
    ruling(rules, "local/shell_exec", ToolKind::Execute, json!({ "command": line }))
}

fn is_allowed(pattern: &str, text: &str) -> bool {
    line(&rules(&[&format!("local/shell_exec({pattern})")], &[], &[]), text) == CallRuling::Allowed
}

#[test]
fn a_line_is_allowed_when_each_of_its_commands_is() {
    let git = rules(&["local/shell_exec(git *)", "local/shell_exec(wc -l)"], &[], &[]);
    for fine in [
        "git",
        "git status",
        "git log 'a; rm x'",
        "git log | wc -l",
        "git a; git b && (git c)",
        "git log src/*.rs -- $X *.rs",
        "git log a$(git x) 2>&1",
    ] {
        assert_eq!(line(&git, fine), CallRuling::Allowed, "{fine}");
    }
    for other in [
        "gitx",
        "/usr/bin/git status",
        "./git",
        "rm x",
        "git a; rm x",
        "git a | wc",
        "git a\nrm x",
        "git $(rm x)",
        "git `rm x`",
        "git \"$(rm x)\"",
        "A=1 git status",
        "env git status",
        "git > x",
        "git log *.rs",
        "git $(git x)",
        "git <<EOF\nx\nEOF",
        "$GIT status",
        "g?t status",
        "if git; then git; fi",
        "git() { rm x; }; git",
        "alias git=rm; git x",
        "PATH=/x; git x",
        "",
        " ",
        "#",
    ] {
        assert_eq!(line(&git, other), CallRuling::Nothing, "{other}");
    }
}

#[test]
fn words_are_compared_as_the_shell_reads_them() {
    assert!(is_allowed("git status", "git \"status\"") && is_allowed("git status", "g\\it  st'at'us"));
    assert!(!is_allowed("git status", "git status -s") && !is_allowed("git status", "'git status'"));
    assert!(is_allowed("git status *", "git status") && is_allowed("git status *", "git status -s x"));
    assert!(!is_allowed("git status *", "git stat $X") && !is_allowed("git status *", "git $X"));
    assert!(is_allowed("cat src/*.rs", "cat src/a/b.rs") && !is_allowed("cat src/*.rs", "cat src/*.rs"));
    assert!(is_allowed("cargo t?st --lib", "cargo test --lib") && !is_allowed("cargo t?st", "cargo tst"));
    assert!(is_allowed("RUST_LOG=debug cargo test *", "RUST_LOG=debug cargo test x"));
    assert!(!is_allowed("RUST_LOG=debug *", "RUST_LOG=debug rm x"));
    assert!(is_allowed("*", "anything at all") && !is_allowed("*", "A=1 x") && !is_allowed("*", "$X"));
    // Of what runs others, and of what changes later commands, only the very words are allowed.
    for (all, words) in [
        ("env *", "env git x"),
        ("sh -c *", "sh -c ls"),
        ("find *", "find . -delete"),
        ("export *", "export PATH=/x"),
        ("*", "xargs rm"),
    ] {
        assert!(!is_allowed(all, words) && is_allowed(words, words), "{words}");
    }
}

#[test]
fn a_star_covers_no_argument_that_starts_a_program() {
    let rules: Vec<String> = ["git", "tar", "cargo", "rsync", "sort", "rg", "sed", "ssh", "A=1 git"]
        .map(|program| format!("local/shell_exec({program} *)"))
        .to_vec();
    let all = super::CallRules::new(&rules, &[], &[]).unwrap();
    for starting in [
        "git -c alias.x='!sh' x",
        "git -c core.pager=sh log",
        "git --config-env=core.pager=X log",
        "git --exec-path=/tmp x",
        "git -C /tmp/other status",
        "git --git-dir=/tmp/x status",
        "git config alias.x '!sh'",
        "git fetch --upload-pack=sh x",
        "git fetch --upload-p sh x",
        "git clone -u sh x",
        "git clone -qu sh x",
        "git clone --template=/tmp/x y",
        "git clone 'ext::sh -c id' y",
        "git push --receive-pack=sh x",
        "git rebase -x sh HEAD~1",
        "git rebase --exec sh HEAD~1",
        "git bisect run sh",
        "git submodule foreach sh",
        "git difftool -x sh",
        "git grep -Osh x",
        "git grep --open-files-in-pager=sh x",
        "git diff --ext-diff",
        "git diff --output=.git/hooks/pre-commit",
        "git 'lo'\"g\" \"--out\"put=x",
        "git $X status",
        "A=1 git -c core.pager=sh log",
        "tar xf a.tar --to-command=sh",
        "tar cf a.tar --checkpoint=1 --checkpoint-action=exec=sh x",
        "tar cIf 'sh' a.tar x",
        "tar -Ish -cf a.tar x",
        "tar xf a.tar *",
        "cargo test --config 'target.x.runner=\"sh\"'",
        "rsync -e sh a b",
        "rsync -ave sh a b",
        "sort --compress-program=sh x",
        "sort --comp=sh x",
        "rg --pre sh x",
        "sed '1e id' x",
        "ssh host id",
    ] {
        assert_eq!(line(&all, starting), CallRuling::Nothing, "{starting}");
    }
    for fine in [
        "git status -s",
        "git --no-pager log --oneline -5",
        "git add -u",
        "git push -u origin x",
        "git commit -m 'a -c b'",
        "git checkout -b x",
        "git log --pretty=oneline -- --output=x",
        "tar tf a.tar",
        "tar -czf a.tar.gz x",
        "cargo test --workspace",
        "rsync -av a b",
        "sort -u x",
        "rg --pretty x",
    ] {
        assert_eq!(line(&all, fine), CallRuling::Allowed, "{fine}");
    }
    for words in ["git -c core.pager=cat log", "git config user.name", "tar xf a --to-command=sh", "sed -n 1p x"] {
        assert!(is_allowed(words, words), "the very words are allowed: {words}");
    }
    assert!(is_allowed("git -c core.pager=cat *", "git -c core.pager=cat log"), "what the rule has itself");
    assert!(!is_allowed("git -c core.pager=cat *", "git -c core.pager=cat -c core.pager=sh log"));
    assert!(
        is_allowed("git submodule *", "git submodule update")
            && !is_allowed("git submodule *", "git submodule foreach x")
    );
    assert!(is_allowed("git config --get *", "git config --get user.name"));
}

#[test]
fn what_asks_and_denies_applies_wherever_it_may() {
    let both = rules(&["local/shell_exec"], &["local/shell_exec(git push *)"], &["local/shell_exec(curl *)"]);
    for (text, wanted) in [
        ("git status", CallRuling::Allowed),
        ("echo curl", CallRuling::Allowed),
        ("git push", CallRuling::Asks("local/shell_exec(git push *)")),
        ("/usr/bin/git 'push' -f", CallRuling::Asks("local/shell_exec(git push *)")),
        ("git $X", CallRuling::Asks("local/shell_exec(git push *)")),
        ("git p*", CallRuling::Asks("local/shell_exec(git push *)")),
        ("git $(echo push)", CallRuling::Asks("local/shell_exec(git push *)")),
        ("git \"`x`\"", CallRuling::Asks("local/shell_exec(git push *)")),
        ("ls; A=1 nice git push", CallRuling::Asks("local/shell_exec(git push *)")),
        ("cat <<'\nEOF\ngit push", CallRuling::Asks("local/shell_exec(git push *)")),
        ("git push; curl x", CallRuling::Denied("local/shell_exec(curl *)")),
        ("sh -c 'CURL x'", CallRuling::Denied("local/shell_exec(curl *)")),
        ("if true; then curl x; fi", CallRuling::Denied("local/shell_exec(curl *)")),
        ("echo `curl x`", CallRuling::Denied("local/shell_exec(curl *)")),
        ("$'\\x63url' x", CallRuling::Denied("local/shell_exec(curl *)")),
        ("{curl,x}", CallRuling::Denied("local/shell_exec(curl *)")),
        ("c$@url x", CallRuling::Denied("local/shell_exec(curl *)")),
    ] {
        assert_eq!(line(&both, text), wanted, "{text}");
    }
    let no_command = ruling(&both, "local/shell_exec", ToolKind::Execute, json!({}));
    assert_eq!(no_command, CallRuling::Denied("local/shell_exec(curl *)"), "what cannot be read may be it");
}

#[test]
fn paths_are_below_the_working_folder_or_whole() {
    let edit = |pattern: &str, path: &str, is_denial: bool| {
        let list = [&*format!("local/*({pattern})")];
        let rules = if is_denial { rules(&["local/*"], &[], &list) } else { rules(&list, &[], &[]) };
        let said = ruling(&rules, "local/edit_file", ToolKind::Edit, json!({ "path": path }));
        if is_denial { matches!(said, CallRuling::Denied(_)) } else { said == CallRuling::Allowed }
    };
    for (pattern, path, allowed, denied) in [
        ("src/**", "src/a/b.rs", true, true),
        ("src/**", "./src//a.rs", true, true),
        ("src/**", "/project/src/a.rs", true, true),
        ("src/**", "src/../agent.toml", false, false),
        ("src/**", "a/../src/x", false, true),
        ("src/**", "SRC/x", false, true),
        ("src/**", "/data/src/x", false, true),
        ("src/**", "lib/src/x", false, false),
        ("src/*", "src/a/b", false, false),
        ("*.md", "a.md", true, true),
        ("*.md", "docs/a.md", false, false),
        ("**/*.md", "docs/a.md", true, true),
        ("/data/**", "/data/x", true, true),
        ("/etc/**", "../etc/x", false, true),
    ] {
        assert_eq!((edit(pattern, path, false), edit(pattern, path, true)), (allowed, denied), "{pattern} {path}");
    }
    let url = |pattern: &str, url: &str| {
        let rules = rules(&[&format!("local/web_fetch({pattern})")], &[], &[]);
        ruling(&rules, "local/web_fetch", ToolKind::Fetch, json!({ "url": url })) == CallRuling::Allowed
    };
    assert!(url("https://docs.rs/**", "https://docs.rs/a/b") && !url("https://docs.rs/**", "https://docs.rs.x/a"));
    let whole = rules(&["mcp/x/*"], &[], &[]);
    assert_eq!(ruling(&whole, "mcp/x/y", ToolKind::Other, json!({ "a": 1 })), CallRuling::Allowed);
    assert_eq!(ruling(&whole, "mcp/z/y", ToolKind::Other, json!({ "a": 1 })), CallRuling::Nothing);
    let part = rules(&["mcp/x/*(a*)"], &[], &["mcp/y/*(a*)"]);
    assert_eq!(ruling(&part, "mcp/x/y", ToolKind::Other, json!({ "a": 1 })), CallRuling::Nothing);
    assert_eq!(ruling(&part, "mcp/y/y", ToolKind::Other, json!({ "a": 1 })), CallRuling::Denied("mcp/y/*(a*)"));
}

#[test]
fn what_is_no_rule_is_refused() {
    for text in
        ["local/shell_exec(git *", "local/shell_exec()", "local/shell_exec( )", "local/[", "local/x(a[)", "local/x(a) "]
    {
        assert!(CallRule::new(text).is_err(), "{text}");
    }
}
