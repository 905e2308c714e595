use super::*;
use proptest::prelude::*;

fn rules(allow: &[&str], deny: &[&str]) -> Rules {
    let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let policy = Policy { allow_tools: owned(allow), deny_tools: owned(deny), ..Policy::default() };
    Rules::new(policy).expect("well formed")
}

fn allows(allow: &[&str], deny: &[&str], name: &str) -> bool {
    rules(allow, deny).allows(&ToolName::new(name))
}

#[test]
fn g9_deny_beats_allow_in_every_spelling() {
    let spellings = ["local/shell_exec", "LOCAL/Shell_Exec", " local/shell_exec ", "local/shell_exec\n"];
    for pattern in ["local/shell_exec", "Local/Shell_Exec", "local/*", "local", "*", "**", "*/shell_exec", " local/* "]
    {
        for spelling in spellings {
            assert!(!allows(&["*", spelling], &[pattern], spelling), "{pattern:?} {spelling:?}");
        }
    }
}

#[test]
fn allowing_is_exact() {
    for (pattern, name, allowed) in [
        ("*", "mcp/files/read", true),
        ("mcp/files/*", "mcp/files/read", true),
        ("mcp/files/*", "mcp/files2/read", false),
        ("mcp/*", "mcp/files/read", false),
        ("mcp/**", "mcp/files/read", true),
        ("mcp/files/read", "mcp/files/read", true),
        ("mcp/files/read", "MCP/files/read", false),
        ("mcp/files/read", "mcp/files/read ", false),
        ("MCP/files/*", "mcp/files/read", false),
        ("", "mcp/files/read", false),
    ] {
        assert_eq!(allows(&[pattern], &[], name), allowed, "{pattern:?} {name:?}");
    }
    assert!(!allows(&[], &[], "local/read_file"));
}

#[test]
fn g9_denying_a_namespace_denies_what_is_in_it() {
    for (pattern, name, denied) in [
        ("mcp/*", "mcp/files/read", true),
        ("mcp/files", "mcp/files/read", true),
        ("mcp", "mcp/files/read", true),
        ("mcp/files/*", "mcp/clock/now", false),
        ("mcp/fil", "mcp/files/read", false),
        ("files/read", "mcp/files/read", false),
    ] {
        assert_eq!(!allows(&["*"], &[pattern], name), denied, "{pattern:?} {name:?}");
    }
}

/// Entry by entry: what is said of `mcp/x/read_one`.
#[test]
fn the_most_specific_entry_decides_each_setting_of_a_tool() {
    let risk = |risk| ToolOverride { risk: Some(risk), ..ToolOverride::default() };
    let said_of = |name: &str, entries: &[(&str, ToolOverride)]| {
        let tools = entries.iter().map(|(pattern, said)| ((*pattern).to_owned(), *said)).collect();
        let rules = Rules::new(Policy { tools, ..Policy::default() }).expect("well formed");
        let tool = crate::tools::tool(name, "", |_: serde_json::Value, _| async {
            Err::<(), _>(crate::tools::ToolError::new("unused"))
        });
        let [tool] = <[_; 1]>::try_from(tool.listed()).expect("one tool");
        let (tool, context) = (rules.apply_to(tool), crate::tools::local::fixture::Workspace::new().context());
        let from = match tool.risk_from {
            RiskSource::Configuration { pattern } => pattern,
            RiskSource::Program | RiskSource::Default | RiskSource::Annotation { .. } => String::new(),
        };
        (tool.risk, from, tool.idempotent, rules.timeout_ms(&ToolName::new(name), &context))
    };
    let default_ms = crate::tools::local::fixture::Workspace::new().context().tool_timeout_ms;
    let every = ("*", risk(Risk::High));
    let server = ("mcp/x/*", ToolOverride { timeout_ms: Some(7), idempotent: Some(true), ..risk(Risk::Low) });
    let reading = ("mcp/x/read_*", risk(Risk::Medium));
    let one = ("mcp/x/read_one", ToolOverride { timeout_ms: Some(9), ..ToolOverride::default() });
    let all = [every, server, reading, one];
    // In whatever order they are written.
    for entries in [all, [one, reading, server, every]] {
        assert_eq!(said_of("mcp/x/read_one", &entries), (Risk::Medium, "mcp/x/read_*".into(), true, 9));
        assert_eq!(said_of("mcp/x/read_two", &entries), (Risk::Medium, "mcp/x/read_*".into(), true, 7));
        assert_eq!(said_of("mcp/x/write", &entries), (Risk::Low, "mcp/x/*".into(), true, 7));
        assert_eq!(said_of("mcp/y/write", &entries), (Risk::High, "*".into(), false, default_ms));
    }
    // A name beats a pattern that is longer, and `*` stays inside its part.
    let longer = [("mcp/x/{read_one,and_others}", risk(Risk::High)), ("mcp/x/read_one", risk(Risk::Low))];
    assert_eq!(said_of("mcp/x/read_one", &longer).1, "mcp/x/read_one");
    assert_eq!(said_of("mcp/x/read_one", &[("mcp/*", risk(Risk::Low))]).1, "");
    assert_eq!(said_of("mcp/x/read_one", &[("mcp/**", risk(Risk::Low))]).1, "mcp/**");
}

#[test]
fn rules_that_cannot_be_understood_are_refused_by_name() {
    let bad_allow = Policy { allow_tools: vec!["mcp/[".to_owned()], ..Policy::default() };
    let bad_deny = Policy { deny_tools: vec!["{a".to_owned()], ..Policy::default() };
    let said = [("mcp/{x".to_owned(), ToolOverride::default())];
    let bad_tools = Policy { tools: said.into(), ..Policy::default() };
    let bad_command = Policy { deny_commands: vec!["git push".to_owned()], ..Policy::default() };
    for (policy, key, written) in [
        (bad_allow, "allow_tools", "mcp/["),
        (bad_deny, "deny_tools", "{a"),
        (bad_tools, "tools", "mcp/{x"),
        (bad_command, "deny_commands", "git push"),
    ] {
        let error = Rules::new(policy).expect_err("not a rule").to_string();
        assert!(error.contains(key) && error.contains(written), "{error}");
    }
}

/// What the rules mean, written without globs: patterns of letters, `?`, `*` and
/// whole parts `**`, matched by trying every split.
mod oracle {
    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', b'*'] => true,
            [b'*', b'*', b'/', rest @ ..] => {
                matches(rest, text) || (0..text.len()).any(|at| text[at] == b'/' && matches(rest, &text[at + 1..]))
            }
            [b'*', rest @ ..] => {
                (0..=text.len()).take_while(|&at| at == 0 || text[at - 1] != b'/').any(|at| matches(rest, &text[at..]))
            }
            [b'?', rest @ ..] => text.first().is_some_and(|&c| c != b'/') && matches(rest, &text[1..]),
            [c, rest @ ..] => text.first() == Some(c) && matches(rest, &text[1..]),
        }
    }

    fn any(patterns: &[String], text: &str) -> bool {
        patterns.iter().any(|pattern| pattern == "*" || matches(pattern.as_bytes(), text.as_bytes()))
    }

    pub(super) fn allows(allow: &[String], deny: &[String], session: Option<&[String]>, name: &str) -> bool {
        let deny: Vec<String> = deny.iter().map(|pattern| pattern.to_lowercase()).collect();
        let lower = name.trim().to_lowercase();
        let parts: Vec<&str> = lower.split('/').collect();
        let denied = (1..=parts.len()).any(|n| any(&deny, &parts[..n].join("/")));
        !denied && any(allow, name) && session.is_none_or(|session| any(session, name))
    }
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[abA]{1,2}",
        2 => "[abA?]{0,1}\\*[abA?]{0,1}",
        1 => "[abA?]{1,2}",
    ];
    let parts = proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    let deep = "[abA]{1,2}".prop_map(|part| format!("{part}/**"));
    let anywhere = "[abA]{1,2}".prop_map(|part| format!("**/{part}"));
    prop_oneof![8 => parts, 1 => Just("*".to_owned()), 1 => deep, 1 => anywhere]
}

fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abA]{1,2}", 1..4).prop_map(|parts| parts.join("/"))
}

proptest! {
    #[test]
    fn g9_the_rules_agree_with_the_oracle(
        allow in proptest::collection::vec(pattern(), 0..4),
        deny in proptest::collection::vec(pattern(), 0..3),
        session in proptest::option::of(proptest::collection::vec(pattern(), 0..3)),
        names in proptest::collection::vec(name(), 32..64),
        tricks in "[ \t]{0,2}",
    ) {
        let policy = Policy { allow_tools: allow.clone(), deny_tools: deny.clone(), ..Policy::default() };
        let rules = Rules::new(policy).expect("generated patterns are well formed");
        let list = session.as_deref().map(Names::of_session);
        for name in &names {
            for spelled in [name.clone(), name.to_uppercase(), format!("{tricks}{name}{tricks}")] {
                let tool = ToolName::new(spelled.as_str());
                let allowed = rules.allows(&tool) && list.as_ref().is_none_or(|list| list.contain(&tool));
                prop_assert_eq!(
                    allowed,
                    oracle::allows(&allow, &deny, session.as_deref(), &spelled),
                    "{:?} with allow {:?} deny {:?} session {:?}", spelled, allow, deny, session
                );
            }
        }
    }

    #[test]
    fn g9_a_denial_more_never_allows_more(
        allow in proptest::collection::vec(pattern(), 0..4),
        deny in proptest::collection::vec(pattern(), 0..3),
        more in pattern(),
        names in proptest::collection::vec(name(), 32..64),
    ) {
        let with = |allow: &[String], deny: Vec<String>| {
            let policy = Policy { allow_tools: allow.to_vec(), deny_tools: deny, ..Policy::default() };
            Rules::new(policy).expect("generated patterns are well formed")
        };
        let allowed = |rules: &Rules, name: &str| rules.allows(&ToolName::new(name));
        let before = with(&allow, deny.clone());
        let mut turned: Vec<String> = deny.iter().rev().cloned().collect();
        turned.push(more.clone());
        let after = with(&allow.iter().rev().cloned().collect::<Vec<_>>(), turned);
        let mut first = vec![more.clone()];
        first.extend(deny);
        let first = with(&allow, first);
        let allowing = with(&[allow, vec![more]].concat(), Vec::new());
        for name in &names {
            prop_assert!(allowed(&before, name) || !allowed(&after, name), "{}", name);
            prop_assert_eq!(allowed(&after, name), allowed(&first, name), "the order of rules means nothing: {}", name);
            prop_assert!(allowed(&allowing, name) || !allowed(&before, name), "an allowance more never denies: {}", name);
        }
    }
}

#[test]
fn the_modes_do_what_their_table_says() {
    use PermissionMode::{Ask, Auto, Edits, Plan};
    let context = crate::tools::local::fixture::Workspace::new().context();
    let tool = |kind, risk, is_local| {
        let tool = crate::tools::tool("x/y", "", |_: serde_json::Map<String, serde_json::Value>, _| async {
            Ok(bob_messages::tools::ToolOutput::text(""))
        });
        let tool = if is_local { tool.local() } else { tool };
        tool.kind(kind).risk(risk).listed().remove(0)
    };
    let rules = Rules::new(Policy::default()).expect("well formed");
    let said = |mode, tool: &ToolDescriptor| {
        let context = CallContext { mode: Some(mode), ..context.clone() };
        match (rules.denied_by_mode(tool, &context), rules.asks(tool, &context)) {
            (Some(_), _) => "denied",
            (None, Some(_)) => "asks",
            (None, None) => "runs",
        }
    };
    let all = |tool: ToolDescriptor| [Plan, Ask, Edits, Auto].map(|mode| said(mode, &tool));
    assert_eq!(all(tool(ToolKind::Read, Risk::Low, true)), ["runs", "runs", "runs", "runs"]);
    assert_eq!(all(tool(ToolKind::Execute, Risk::Low, false)), ["runs", "runs", "runs", "runs"]);
    for kind in [ToolKind::Edit, ToolKind::Delete, ToolKind::Move] {
        assert_eq!(all(tool(kind, Risk::Medium, true)), ["denied", "asks", "runs", "runs"]);
        assert_eq!(all(tool(kind, Risk::Medium, false)), ["denied", "asks", "asks", "runs"], "of another program");
        assert_eq!(all(tool(kind, Risk::High, true)), ["denied", "asks", "asks", "runs"], "said to be of high risk");
    }
    assert_eq!(all(tool(ToolKind::Other, Risk::Medium, true)), ["denied", "asks", "asks", "runs"]);
    assert_eq!(all(tool(ToolKind::Execute, Risk::High, true)), ["denied", "asks", "asks", "runs"]);
}

#[test]
fn a_mode_is_the_calls_or_the_policys_or_ask() {
    let mode = |mode, policy, require_high_risk_approval| {
        let policy = Policy { mode: policy, require_high_risk_approval, ..Policy::default() };
        let context = CallContext { mode, ..crate::tools::local::fixture::Workspace::new().context() };
        Rules::new(policy).expect("well formed").mode(&context)
    };
    let (plan, edits) = (Some(PermissionMode::Plan), Some(PermissionMode::Edits));
    assert_eq!(mode(plan, edits, false), PermissionMode::Plan);
    assert_eq!(mode(None, edits, false), PermissionMode::Edits);
    assert_eq!(mode(None, None, true), PermissionMode::Ask);
    assert_eq!(mode(None, None, false), PermissionMode::Auto);
}
