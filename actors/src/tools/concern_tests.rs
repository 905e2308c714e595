use crate::tools::policy::Policy;
use crate::tools::{Concern, FnTool, ToolPort, ToolsActor, ToolsArguments, tool};
use bob_messages::approvals::{Approved, AskedTool, Standing};
use bob_messages::chat::ToolCall;
use bob_messages::ids::{ApprovalId, CallId, SessionId, ToolName, TurnId};
use bob_messages::permission::PermissionMode;
use bob_messages::reply::Reply;
use bob_messages::tools::{CallContext, CheckRequest, LocalToolsMessage, Risk, ToolOutput, ToolsMessage, Verdict};
use ractor::{Actor, ActorRef};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Touch {
    path: String,
}

static RUNS: AtomicUsize = AtomicUsize::new(0);

/// A reading tool that is concerned about what is called `ask`, and refuses what is called `deny`.
fn touch(name: &str) -> FnTool {
    let touch = tool(name, "Touches", |touch: Touch, _call| async move {
        RUNS.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::text(touch.path))
    });
    touch.looked_at(|call, _context| match call.arguments["path"].as_str() {
        Some("ask") => Some(Concern::Ask("touches what governs".to_owned())),
        Some("deny") => Some(Concern::Deny("that is never touched".to_owned())),
        Some("panic") => panic!("as planned"),
        _ => None,
    })
}

async fn room(policy: Policy) -> ActorRef<LocalToolsMessage> {
    let ports: Vec<Arc<dyn ToolPort>> = vec![Arc::new(touch("demo/look").read_only()), Arc::new(touch("demo/change"))];
    let arguments = ToolsArguments { ports, policy, ..ToolsArguments::default() };
    Actor::spawn(None, ToolsActor, arguments).await.expect("the room opens").0
}

fn check(tool: &str, path: &str, run: bool) -> CheckRequest {
    let (id, name, arguments) = (CallId::new("c1"), ToolName::new(tool), json!({ "path": path }));
    let call = Arc::new(ToolCall { id, name, argument_bytes: 20, arguments: arguments.into(), signatures: Vec::new() });
    CheckRequest { call, approved: None, standing: Vec::new(), run }
}

async fn ask(room: &ActorRef<LocalToolsMessage>, check: CheckRequest, mode: Option<PermissionMode>) -> Verdict {
    let context = Arc::new(CallContext {
        session: SessionId::parse("s").expect("a plain id"),
        turn: TurnId::new("t"),
        step: 1,
        roots: Arc::from([".".to_owned()]),
        context: None,
        approvals: Default::default(),
        left: Default::default(),
        depth: 0,
        tool_timeout_ms: 10_000,
        mode,
        allow: None,
        traceparent: "".into(),
        child: None,
        server_wait: None,
        tracestate: None,
    });
    let (reply, answer) = Reply::channel();
    room.cast(ToolsMessage::Check { check, context, reply }.into()).expect("the room is open");
    answer.await.expect("an answer")
}

fn asked(verdict: Verdict) -> Arc<AskedTool> {
    let Verdict::Ask { risk: Risk::High, reason, tool } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("touches what governs"), "{reason}");
    tool
}

fn standing(check: &CheckRequest, tool: &AskedTool, arguments: Option<Value>, allowed: bool) -> Arc<Standing> {
    Arc::new(Standing {
        tool: check.call.name.clone(),
        definition: tool.definition.clone(),
        text: String::new(),
        arguments,
        allowed,
        like: Vec::new(),
        reason: String::new(),
        identity: Default::default(),
        for_good: true,
    })
}

#[tokio::test]
async fn a_concern_asks_whatever_was_approved_beside_exactly_this_call() {
    let lenient = Policy { require_high_risk_approval: false, ..Policy::default() };
    for policy in [Policy::default(), lenient] {
        let room = room(policy).await;
        for name in ["demo/look", "demo/change"] {
            let before = RUNS.load(Ordering::SeqCst);
            let concerned = check(name, "ask", true);
            let tool = asked(ask(&room, concerned.clone(), Some(PermissionMode::Auto)).await);
            assert!(tool.exact, "what is decided for longer is about just these arguments");
            assert_eq!(RUNS.load(Ordering::SeqCst), before, "{name}: nothing ran");
            // Of the tool as a whole, or of other arguments, it does not count.
            for arguments in [None, Some(json!({"path": "other"}))] {
                let standing = vec![standing(&concerned, &tool, arguments, true)];
                asked(ask(&room, CheckRequest { standing, ..concerned.clone() }, None).await);
            }
            let exact = vec![standing(&concerned, &tool, Some(json!({"path": "ask"})), true)];
            let approved = Some(Box::new(Approved { by: ApprovalId::new("a1"), tool: Some(Arc::clone(&tool)) }));
            for allowed in [
                CheckRequest { standing: exact, ..concerned.clone() },
                CheckRequest { approved: approved.clone(), ..concerned.clone() },
            ] {
                let verdict = ask(&room, CheckRequest { run: false, ..allowed }, None).await;
                assert!(matches!(verdict, Verdict::Allow { .. }), "{name}: {verdict:?}");
            }
            let refused = CheckRequest { approved, ..check(name, "deny", true) };
            let verdict = ask(&room, refused, Some(PermissionMode::Auto)).await;
            assert!(matches!(&verdict, Verdict::Deny { reason } if reason.contains("never")), "{name}: {verdict:?}");
            let verdict = ask(&room, check(name, "panic", true), None).await;
            assert!(matches!(verdict, Verdict::Deny { .. }), "what cannot be looked at is not run: {verdict:?}");
        }
        let verdict = ask(&room, check("demo/look", "fine", true), None).await;
        assert!(matches!(verdict, Verdict::Ran(_)), "{verdict:?}");
        room.stop(None);
    }
}
