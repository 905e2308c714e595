//! What was decided once, when the same is called again, and when the tool is another by then.

use super::*;
use crate::tools::{Gate, Policy};
use bob_messages::approvals::Scope;
use bob_messages::chat::ToolCall;
use bob_messages::context::Identity;
use bob_messages::ids::{CallId, SessionId, ToolName, TurnId};
use bob_messages::permission::PermissionMode;
use bob_messages::tools::{CallContext, Risk, ToolSource, Verdict};
use expect_test::{Expect, expect};
use serde_json::json;

fn tool(name: &str, description: &str, kind: ToolKind, risk: Risk) -> ToolDescriptor {
    ToolDescriptor::new(
        ToolName::new(name),
        description.to_owned(),
        json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    )
    .with_title("Send".to_owned())
    .with_kind(kind)
    .with_source(if kind == ToolKind::Edit { ToolSource::Local } else { ToolSource::Embedded })
    .with_risk(risk)
}

fn gate(description: &str) -> Gate {
    let tools = vec![
        tool("demo/send", description, ToolKind::Other, Risk::High),
        tool("demo/sh", "Runs a line.", ToolKind::Execute, Risk::High),
        tool("demo/note", description, ToolKind::Edit, Risk::Medium),
    ];
    Gate::new([tools], Policy::default()).unwrap()
}

fn context() -> CallContext {
    CallContext {
        session: SessionId::parse("s").unwrap(),
        turn: TurnId::new("t"),
        step: 1,
        roots: Arc::from([]),
        context: None,
        approvals: Default::default(),
        left: Default::default(),
        depth: 0,
        tool_timeout_ms: 1_000,
        mode: Some(PermissionMode::Edits),
        allow: None,
        traceparent: "".into(),
        child: None,
        server_wait: None,
        tracestate: None,
    }
}

fn asks(name: &str, command: &str, standing: &[Standing]) -> CheckRequest {
    let arguments = json!({"command": command});
    let argument_bytes = arguments.to_string().len();
    let (id, name) = (CallId::new("c1"), ToolName::new(name));
    let call = Arc::new(ToolCall { id, name, arguments: arguments.into(), argument_bytes, signatures: Vec::new() });
    CheckRequest { call, approved: None, standing: standing.iter().cloned().map(Arc::new).collect(), run: false }
}

/// What stands after a person who was asked about this call decided beyond it.
fn decided(description: &str, name: &str, command: &str, allowed: bool) -> Standing {
    let check = asks(name, command, &[]);
    let tool = match gate(description).check(&check, &context()) {
        Verdict::Ask { tool, .. } => tool,
        _not_asked => {
            let descriptor = tool(name, description, ToolKind::Edit, Risk::Medium);
            shown(&check, &descriptor, crate::tools::grant::Definition::of(&descriptor).digest(), (Vec::new(), false))
        }
    };
    Standing::of(&check.call, &tool, Scope::Session, (allowed, "never that"), Identity::default())
}

#[test]
fn what_was_allowed_beyond_its_call_is_not_asked_again() {
    let allowed = decided("Sends.", "demo/send", "a", true);
    let verdict =
        gate("Sends.").check(&asks("demo/send", "something else", std::slice::from_ref(&allowed)), &context());
    assert!(matches!(verdict, Verdict::Allow { .. }), "{verdict:?}");
    let denied = decided("Sends.", "demo/send", "b", false);
    for standing in [[allowed.clone(), denied.clone()], [denied, allowed]] {
        let verdict = gate("Sends.").check(&asks("demo/send", "c", &standing), &context());
        assert!(
            matches!(&verdict, Verdict::Deny { reason } if reason == "never that"),
            "deny beats allow: {verdict:?}"
        );
    }
}

#[test]
fn a_line_for_a_shell_stands_for_itself_alone() {
    let allowed = decided("", "demo/sh", "sort", true);
    assert_eq!(allowed.arguments, Some(json!({"command": "sort"})));
    let standing = [allowed];
    assert!(matches!(gate("").check(&asks("demo/sh", "sort", &standing), &context()), Verdict::Allow { .. }));
    assert!(matches!(gate("").check(&asks("demo/sh", "sort -u", &standing), &context()), Verdict::Ask { .. }));
    let denied = [decided("", "demo/sh", "sort", false)];
    assert!(matches!(gate("").check(&asks("demo/sh", "sort", &denied), &context()), Verdict::Deny { .. }));
    assert!(matches!(gate("").check(&asks("demo/sh", "sort -u", &denied), &context()), Verdict::Ask { .. }));
}

#[test]
fn no_decision_of_a_person_is_stronger_than_the_policy() {
    let allowed = decided("Sends.", "demo/send", "a", true);
    let policy = Policy { deny_tools: vec!["demo/send".to_owned()], ..Policy::default() };
    let tools = vec![tool("demo/send", "Sends.", ToolKind::Other, Risk::High)];
    let verdict = Gate::new([tools], policy).unwrap().check(&asks("demo/send", "a", &[allowed]), &context());
    assert!(matches!(verdict, Verdict::Deny { .. }), "{verdict:?}");
    let line = decided("", "demo/sh", "sudo reboot", true);
    let verdict = gate("").check(&asks("demo/sh", "sudo reboot", &[line]), &context());
    assert!(matches!(verdict, Verdict::Deny { .. }), "{verdict:?}");
}

#[test]
fn a_denial_for_good_holds_where_nobody_is_asked() {
    let denied = [decided("Notes.", "demo/note", "a", false)];
    let verdict = gate("Notes.").check(&asks("demo/note", "b", &denied), &context());
    assert!(matches!(verdict, Verdict::Deny { .. }), "{verdict:?}");
    let all = CallContext { mode: Some(PermissionMode::Auto), ..context() };
    let denied = [decided("Sends.", "demo/send", "a", false)];
    assert!(matches!(gate("Sends.").check(&asks("demo/send", "b", &denied), &all), Verdict::Deny { .. }));
    // A tool that was denied does not get in by describing itself anew.
    let verdict = gate("Sends quickly.").check(&asks("demo/send", "b", &denied), &all);
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");
}

fn check_changes(before: &str, after: &str, expected: &Expect) {
    let allowed = decided(before, "demo/send", "a", true);
    let Verdict::Ask { reason, tool, .. } = gate(after).check(&asks("demo/send", "a", &[allowed]), &context()) else {
        panic!("a tool that changed runs unasked");
    };
    assert_eq!(reason, "the tool is of high risk; its definition has changed since somebody decided about it");
    expected.assert_eq(tool.changes.as_deref().unwrap());
}

#[test]
fn g7_a_tool_whose_definition_changed_is_asked_about_again_and_the_difference_is_shown() {
    check_changes(
        "Sends a message.\nTo one person.",
        "Sends a message.\nTo everybody, and to evil.example.",
        &expect![[r#"
            @@ -7,3 +7,3 @@
             Sends a message.
            -To one person.
            +To everybody, and to evil.example.
             arguments: {
        "#]],
    );
    let long = "x".repeat(20_000);
    let allowed = decided("short", "demo/send", "a", true);
    let Verdict::Ask { tool, .. } = gate(&long).check(&asks("demo/send", "a", &[allowed]), &context()) else {
        panic!("a tool that changed runs unasked");
    };
    let changes = tool.changes.as_deref().unwrap();
    assert!(changes.len() < 9_000 && changes.contains("bytes of the difference are not shown"), "{}", changes.len());
}

#[test]
fn g7_a_yes_to_a_tool_that_changed_meanwhile_is_a_new_question() {
    let mut before = gate("Sends.");
    let check = asks("demo/send", "a", &[]);
    let Verdict::Ask { tool, .. } = before.check(&check, &context()) else { panic!("nobody is asked") };
    let approved = bob_messages::approvals::Approved { by: bob_messages::ids::ApprovalId::new("q"), tool: Some(tool) };
    let check = CheckRequest { approved: Some(Box::new(approved)), ..check };
    assert!(matches!(before.check(&check, &context()), Verdict::Allow { .. }), "the tool that was shown");
    let Verdict::Ask { tool, .. } = gate("Sends and deletes.").check(&check, &context()) else { panic!("it runs") };
    assert!(tool.changes.as_deref().is_some_and(|changes| changes.contains("+Sends and deletes.")), "{tool:?}");
}
