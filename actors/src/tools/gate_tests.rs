use super::*;
#[cfg(feature = "json-schema")]
use crate::stopwatch::Stopwatch;
use crate::tools::grant::Definition;
use crate::tools::{FnTool, tool};
use bob_messages::approvals::{Approved, AskedTool};
use bob_messages::ids::{ApprovalId, CallId, SessionId, TurnId};
use bob_messages::permission::PermissionMode;
use bob_messages::tools::{Risk, ToolOutput};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pick {
    #[allow(dead_code, reason = "only its schema matters here")]
    number: u64,
}

fn pick(name: &str) -> FnTool {
    tool(name, "Picks a number", |_: Pick, _| async { Ok(ToolOutput::text("picked")) })
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Line {
    #[allow(dead_code, reason = "only its schema matters here")]
    command: String,
}

fn gate_with(policy: Policy) -> Gate {
    let broken = {
        let mut descriptor = pick("demo/broken").listed().remove(0);
        descriptor.schema = json!({"type": "object", "properties": {"number": {"pattern": "("}}});
        descriptor
    };
    let shell = tool("demo/shell", "Runs a line", |_: Line, _| async { Ok(ToolOutput::text("ran")) });
    let ports = [
        pick("demo/look").read_only().listed(),
        pick("demo/change").local().kind(ToolKind::Edit).listed(),
        pick("demo/danger").risk(Risk::High).idempotent().listed(),
        shell.kind(ToolKind::Execute).listed(),
        vec![broken],
    ];
    Gate::new(ports, policy).expect("the policy is well formed")
}

fn gate() -> Gate {
    gate_with(Policy::default())
}

fn context() -> CallContext {
    CallContext {
        session: SessionId::parse("s").expect("a plain id"),
        turn: TurnId::new("t"),
        step: 1,
        roots: Arc::from([]),
        context: None,
        approvals: Default::default(),
        left: Default::default(),
        depth: 0,
        tool_timeout_ms: 1000,
        mode: Some(PermissionMode::Edits),
        allow: None,
        traceparent: "".into(),
        child: None,
        server_wait: None,
        tracestate: None,
    }
}

fn call(name: &str, arguments: Value) -> Arc<ToolCall> {
    let argument_bytes = arguments.to_string().len();
    let (id, name) = (CallId::new("c1"), ToolName::new(name));
    Arc::new(ToolCall { id, name, arguments: arguments.into(), argument_bytes, signatures: Vec::new() })
}

fn request(name: &str, arguments: Value) -> CheckRequest {
    CheckRequest { call: call(name, arguments), approved: None, standing: Vec::new(), run: false }
}

fn good(name: &str) -> CheckRequest {
    request(name, json!({"number": 7}))
}

/// The same call, approved by whoever was shown the tool as it is.
fn yes(gate: &mut Gate, request: CheckRequest) -> CheckRequest {
    let Verdict::Ask { tool, .. } = gate.check(&request, &context()) else {
        panic!("nobody is asked about {request:?}")
    };
    CheckRequest { approved: Some(Box::new(Approved { by: ApprovalId::new("a"), tool: Some(tool) })), ..request }
}

fn grant_of(verdict: Verdict) -> Grant {
    match verdict {
        Verdict::Allow { grant, .. } => grant,
        other => panic!("expected an allowance, got {other:?}"),
    }
}

fn complaint(verdict: Verdict) -> String {
    match verdict {
        Verdict::Invalid { complaint } => complaint,
        other => panic!("expected a complaint, got {other:?}"),
    }
}

fn reason(verdict: Verdict) -> String {
    match verdict {
        Verdict::Deny { reason } => reason,
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[test]
fn low_and_medium_risk_need_no_person() {
    let look = gate().check(&good("demo/look"), &context());
    let Verdict::Allow { traits, .. } = look else { panic!("{look:?}") };
    assert_eq!(traits, CallTraits { read_only: true, idempotent: true });
    let change = gate().check(&good("demo/change"), &context());
    let Verdict::Allow { traits, .. } = change else { panic!("{change:?}") };
    assert_eq!(traits, CallTraits::default());
}

#[test]
fn high_risk_asks_until_somebody_has_said_yes() {
    let verdict = gate().check(&good("demo/danger"), &context());
    assert!(matches!(verdict, Verdict::Ask { risk: Risk::High, .. }), "{verdict:?}");

    grant_of(gate().check(&yes(&mut gate(), good("demo/danger")), &context()));
    // Whoever was shown nothing has approved nothing.
    let blind = Approved { by: ApprovalId::new("a"), tool: None };
    let verdict = gate().check(&CheckRequest { approved: Some(Box::new(blind)), ..good("demo/danger") }, &context());
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");

    let auto = CallContext { mode: Some(PermissionMode::Auto), ..context() };
    grant_of(gate().check(&good("demo/danger"), &auto));
}

#[test]
fn an_override_changes_the_risk_and_what_is_listed() {
    let mut policy = Policy::default();
    let said =
        super::super::policy::ToolOverride { risk: Some(Risk::High), idempotent: Some(true), timeout_ms: Some(7) };
    policy.tools.insert("demo/change".to_owned(), said);
    let mut gate = gate_with(policy);
    assert!(matches!(gate.check(&good("demo/change"), &context()), Verdict::Ask { .. }));
    let listed = gate.offered();
    let listed = listed.iter().find(|tool| tool.id.as_str() == "demo/change").expect("it is offered");
    assert!(listed.idempotent && listed.risk == Risk::High);
    let approved = yes(&mut gate, good("demo/change"));
    let grant = grant_of(gate.check(&approved, &context()));
    assert_eq!(gate.admit(&approved.call, &grant, &context()).expect("granted").timeout_ms, 7);
}

#[test]
fn g9_an_approval_does_not_lift_a_denial_a_schema_or_a_cap() {
    let shown = Arc::new(AskedTool::default());
    let approved = |request: CheckRequest| CheckRequest {
        approved: Some(Box::new(Approved { by: ApprovalId::new("a"), tool: Some(Arc::clone(&shown)) })),
        ..request
    };
    let policy = Policy { deny_tools: vec!["demo/danger".to_owned()], max_payload_bytes: 64, ..Policy::default() };
    let mut gate = gate_with(policy);
    reason(gate.check(&approved(good("demo/danger")), &context()));
    complaint(gate.check(&approved(request("demo/look", json!({"number": "x"}))), &context()));
    complaint(gate.check(&approved(request("demo/look", json!({"number": 1, "x": "y".repeat(64)}))), &context()));
    let denied = reason(gate.check(&approved(request("demo/shell", json!({"command": "ls; rm x"}))), &context()));
    assert!(denied.contains("rm"), "{denied}");
}

#[test]
fn the_payload_cap_is_exact() {
    let arguments = json!({"number": 12345});
    let bytes = arguments.to_string().len();
    for (limit, fits) in [(bytes, true), (bytes - 1, false)] {
        let mut gate = gate_with(Policy { max_payload_bytes: limit, ..Policy::default() });
        let verdict = gate.check(&request("demo/look", arguments.clone()), &context());
        assert_eq!(matches!(verdict, Verdict::Allow { .. }), fits, "{limit}: {verdict:?}");
    }
}

#[test]
fn an_unknown_tool_names_the_likely_one() {
    let said = complaint(gate().check(&good("lok"), &context()));
    assert!(said.contains("demo/look"), "{said}");
    let said = complaint(gate().check(&good("zzzzzz"), &context()));
    assert!(!said.contains("demo"), "{said}");
    let long = complaint(gate().check(&good(&"x".repeat(10_000)), &context()));
    assert!(long.len() < 400, "{}", long.len());
}

#[test]
fn a_denied_tool_is_not_suggested() {
    let policy = Policy { deny_tools: vec!["demo/look".to_owned()], ..Policy::default() };
    let said = complaint(gate_with(policy).check(&good("lok"), &context()));
    assert!(!said.contains("demo/look"), "{said}");
}

#[test]
fn wrong_arguments_are_told_by_place() {
    for (arguments, expected) in [
        (json!({}), "number"),
        (json!({"number": "seven"}), "/number"),
        (json!({"number": 1, "other": 2}), "other"),
        (json!([1]), "JSON object"),
        (json!(null), "JSON object"),
    ] {
        let said = complaint(gate().check(&request("demo/look", arguments.clone()), &context()));
        assert!(said.contains(expected) && said.contains("demo/look"), "{arguments}: {said}");
    }
}

#[cfg(feature = "json-schema")]
#[test]
fn a_broken_schema_is_the_tools_fault() {
    let said = complaint(gate().check(&good("demo/broken"), &context()));
    assert!(said.contains("schema is broken"), "{said}");
}

#[cfg(feature = "json-schema")]
#[test]
fn b7_a_hostile_pattern_is_matched_in_linear_time() {
    let mut descriptor = pick("demo/slow").listed().remove(0);
    descriptor.schema = json!({"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}});
    let mut gate = Gate::new([vec![descriptor]], Policy::default()).expect("well formed");
    let text = format!("{}!", "a".repeat(50_000));
    let started = Stopwatch::start();
    complaint(gate.check(&request("demo/slow", json!({"text": text})), &context()));
    started.assert_within(std::time::Duration::from_secs(5), "the check of a hostile text");
}

#[cfg(feature = "json-schema")]
#[test]
fn b7_an_address_in_a_schema_is_not_followed() {
    let mut descriptor = pick("demo/far").listed().remove(0);
    descriptor.schema = json!({"$ref": "http://127.0.0.1:9/schema.json"});
    let mut gate = Gate::new([vec![descriptor]], Policy::default()).expect("well formed");
    let said = complaint(gate.check(&good("demo/far"), &context()));
    assert!(said.contains("schema is broken"), "{said}");
}

#[test]
fn a_grant_is_for_exactly_one_call() {
    let mut gate = gate();
    let checked = good("demo/look");
    let grant = grant_of(gate.check(&checked, &context()));
    gate.admit(&checked.call, &grant, &context()).expect("the call it was given for");

    let other_arguments = call("demo/look", json!({"number": 8}));
    let other_tool = call("demo/change", json!({"number": 7}));
    let other_id = Arc::new(ToolCall { id: CallId::new("c2"), ..(*checked.call).clone() });
    for changed in [other_arguments, other_tool, Arc::clone(&other_id)] {
        let refused = gate.admit(&changed, &grant, &context()).expect_err("not what was allowed");
        assert!(matches!(refused, Refusal::Denied(_)), "{refused:?}");
    }
    let renamed = Grant { call: CallId::new("c2"), ..grant.clone() };
    gate.admit(&other_id, &renamed, &context()).expect_err("the seal is bound to the id");
    for seal in ["", "00", "zz", &"0".repeat(64), &"é".repeat(32)] {
        let forged = Grant { seal: seal.to_owned(), ..grant.clone() };
        gate.admit(&checked.call, &forged, &context()).expect_err("forged");
    }
}

#[test]
fn a_grant_of_another_room_is_nothing() {
    let checked = good("demo/look");
    let grant = grant_of(gate().check(&checked, &context()));
    gate().admit(&checked.call, &grant, &context()).expect_err("another key");
}

#[test]
fn a_grant_outlives_a_new_list_only_for_a_tool_that_stayed_as_it_was() {
    let mut gate = gate();
    let (kept, changed) = (good("demo/look"), good("demo/change"));
    let grants = [&kept, &changed].map(|checked| grant_of(gate.check(checked, &context())));
    let mut drifted = pick("demo/change").local().kind(ToolKind::Edit).listed();
    drifted[0].description = "Picks every number".to_owned();
    gate.renew([pick("demo/look").read_only().listed(), drifted, pick("demo/new").listed()]).expect("renewed");

    gate.admit(&kept.call, &grants[0], &context()).expect("it is the same tool");
    let refusal = gate.admit(&changed.call, &grants[1], &context()).expect_err("it is another tool");
    assert!(format!("{refusal:?}").contains("call it again"), "{refusal:?}");
    let anew = grant_of(gate.check(&changed, &context()));
    gate.admit(&changed.call, &anew, &context()).expect("asked again");
    assert_eq!(gate.offered().len(), 3);

    gate.renew([pick("demo/a").listed(), pick("demo/A").listed()]).expect_err("a collision");
    assert_eq!(gate.offered().len(), 3);
}

#[test]
fn the_order_of_keys_does_not_matter_to_a_grant_and_large_numbers_do() {
    let key = RoomKey::draw().expect("the system has randomness");
    let definition = Definition::of(&pick("demo/x").listed()[0]);
    let seal = |text: &str| {
        let call = call("demo/x", serde_json::from_str(text).expect("JSON"));
        let grant = key.grant(&call, &definition);
        assert!(key.covers(&call, &definition, &grant));
        grant.seal
    };
    assert_eq!(seal(r#"{"a":1,"b":[{"c":2,"d":3}]}"#), seal(r#"{ "b":[{"d":3,"c":2}], "a":1 }"#));
    // Both are the same double.
    assert_ne!(seal(r#"{"id":9007199254740993}"#), seal(r#"{"id":9007199254740992}"#));
    assert_ne!(seal(r#"{"a":18446744073709551615}"#), seal(r#"{"a":18446744073709551614}"#));
    assert_ne!(seal(r#"{"a":"1"}"#), seal(r#"{"a":1}"#));
}

#[test]
fn a_session_list_narrows_and_is_checked_again_at_the_call() {
    let mut gate = gate();
    let only_look = CallContext { allow: Some(Arc::from(["demo/look".to_owned()])), ..context() };
    grant_of(gate.check(&good("demo/look"), &only_look));
    reason(gate.check(&good("demo/change"), &only_look));

    let grant = grant_of(gate.check(&good("demo/change"), &context()));
    gate.admit(&good("demo/change").call, &grant, &only_look).expect_err("narrowed since");

    let nothing = CallContext { allow: Some(Arc::from([])), ..context() };
    reason(gate.check(&good("demo/look"), &nothing));
    let unreadable = CallContext { allow: Some(Arc::from(["[".to_owned()])), ..context() };
    reason(gate.check(&good("demo/look"), &unreadable));
}

#[test]
fn lists_leave_out_what_is_denied_and_keep_what_needs_a_person() {
    let gate = gate_with(Policy { deny_tools: vec!["demo/change".to_owned()], ..Policy::default() });
    let offered = gate.offered();
    let names: Vec<&str> = offered.iter().map(|tool| tool.id.as_str()).collect();
    assert!(!names.contains(&"demo/change") && names.contains(&"demo/danger"), "{names:?}");
}

#[test]
fn g8_names_that_could_be_mistaken_do_not_start() {
    let two = |a: &str, b: &str| Gate::new([pick(a).listed(), pick(b).listed()], Policy::default());
    for (a, b) in [
        ("demo/a", "demo/a"),
        ("demo/a", "Demo/A"),
        ("demo/read_file", "demo/Read_File"),
        ("mcp/files/read", "MCP/files/read"),
        ("mcp/files/read", "mcp/Files/read"),
        ("a", "A"),
    ] {
        let error = two(a, b).expect_err("a collision").to_string();
        assert!(error.contains("two tools are called") && error.contains("give one of them another name"), "{error}");
    }
    let (long, endless) = ("x".repeat(129), "x".repeat(1024));
    let bad = [
        "",
        " ",
        "/",
        "//",
        "a//b",
        "a/",
        "/a",
        "a/b/c/d",
        "mcp/a/b/c",
        "mcp//read",
        "mcp/a/",
        "a b",
        "a\tb",
        "a\nb",
        "a\0b",
        "a\\b",
        "a:b",
        "a*b",
        "a?b",
        "dеmo/x",
        "demo/reаd",
        "ｄｅｍｏ/x",
        "demo\u{2215}x",
        "demo\u{200b}/x",
        "de\u{301}mo/x",
        "a\u{1b}[2Jb",
        "a\u{202e}b",
        "ask_user",
        "ASK_USER",
        &long,
        &endless,
    ];
    for bad in bad {
        let error = two("demo/a", bad).expect_err("a bad name").to_string();
        assert!(error.contains("a tool is called") && error.len() < 500, "{bad:?}: {error}");
        assert!(!error.contains('\u{1b}') && !error.contains('\u{202e}'), "{error:?}");
    }
    two("demo/a", &"x".repeat(128)).expect("the longest name");
    two("mcp/files/read", "mcp/files2/read").expect("two servers");
}
