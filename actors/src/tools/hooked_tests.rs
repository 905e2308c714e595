use super::*;
use crate::tools::local::fixture::Workspace;
use crate::tools::policy::Policy;
use crate::tools::{FnTool, ToolHooks, ToolsActor, ToolsArguments, tool};
use bob_messages::approvals::Approved;
use bob_messages::chat::CallStatus;
use bob_messages::ids::ApprovalId;
use bob_messages::permission::PermissionMode;
use bob_messages::reply::Reply;
use bob_messages::tools::{CheckRequest, LocalToolsMessage, Risk, ToolReturn, ToolsMessage, Verdict};
use ractor::{Actor, ActorRef};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Touch {
    path: String,
}

/// A hook that says what the path names, and counts.
#[derive(Default)]
struct Named {
    before: AtomicUsize,
    after: AtomicUsize,
}

impl ToolHook for Named {
    fn before_call(&self, call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
        self.before.fetch_add(1, Ordering::SeqCst);
        let path = call.call.arguments["path"].as_str().unwrap_or_default().to_owned();
        assert_ne!(path, "panic at once", "as planned");
        let said = async move {
            match path.as_str() {
                "ask" => Some(Concern::Ask("is odd".to_owned())),
                "deny" => Some(Concern::Deny("not today".to_owned())),
                "panic" => panic!("as planned"),
                _ => None,
            }
        };
        (call.call.arguments["path"] != "apart").then(|| said.boxed())
    }

    fn after_call(
        &self,
        call: &HookedCall,
        result: &Result<ToolOutput, ToolError>,
    ) -> Option<BoxFuture<'static, Option<String>>> {
        self.after.fetch_add(1, Ordering::SeqCst);
        let note = format!("seen: {}", result.is_ok());
        assert_ne!(call.call.arguments["path"], "bad at once", "as planned");
        match call.call.arguments["path"].as_str() {
            Some("late") => Some(std::future::pending().boxed()),
            Some("bad") => Some(async { panic!("as planned") }.boxed()),
            _ => Some(std::future::ready(Some(note)).boxed()),
        }
    }
}

fn touch(name: &str) -> FnTool {
    let touch = tool(name, "Touches", |touch: Touch, _call| async move {
        match touch.path.as_str() {
            "fail" => Err(ToolError::new("it failed")),
            "structured" => Ok(ToolOutput { structured: Some(json!({"a": 1})), ..ToolOutput::default() }),
            "waits" => Ok(ToolOutput::waits_for("a letter")),
            path => Ok(ToolOutput::text(path)),
        }
    });
    touch.looked_at(|call, _context| match call.arguments["path"].as_str() {
        Some("own") => Some(Concern::Deny("its own".to_owned())),
        _ => None,
    })
}

async fn room(hook: Arc<Named>, policy: Policy) -> ActorRef<LocalToolsMessage> {
    let mut hooks = ToolHooks::default();
    hooks.push(hook);
    let ports: [FnTool; 2] = [touch("demo/look").read_only(), touch("demo/change")];
    let ports = ports.into_iter().map(|tool| hooks.around(Arc::new(tool))).collect();
    let arguments = ToolsArguments { ports, policy, ..ToolsArguments::default() };
    Actor::spawn(None, ToolsActor, arguments).await.expect("the room opens").0
}

fn check(tool: &str, path: &str) -> CheckRequest {
    let call = crate::tools::local::fixture::call(tool, json!({ "path": path }));
    CheckRequest { call, approved: None, standing: Vec::new(), run: true }
}

async fn judged(room: &ActorRef<LocalToolsMessage>, check: CheckRequest, mode: PermissionMode) -> Verdict {
    let context = CallContext { mode: Some(mode), tool_timeout_ms: 300, ..Workspace::new().context() };
    let (reply, answer) = Reply::channel();
    room.cast(ToolsMessage::Check { check, context: Arc::new(context), reply }.into()).expect("the room is open");
    answer.await.expect("an answer")
}

async fn returned(room: &ActorRef<LocalToolsMessage>, path: &str) -> ToolReturn {
    match judged(room, check("demo/look", path), PermissionMode::Ask).await {
        Verdict::Ran(returned) => *returned,
        other => panic!("{path}: {other:?}"),
    }
}

#[tokio::test]
async fn a_hook_denies_and_asks_in_every_mode_and_widens_none() {
    let hook = Arc::<Named>::default();
    let deny = vec!["demo/change(never/**)".to_owned()];
    let room = room(Arc::clone(&hook), Policy { deny, ..Policy::default() }).await;
    for mode in [PermissionMode::Ask, PermissionMode::Edits, PermissionMode::Auto] {
        for tool in ["demo/look", "demo/change"] {
            let verdict = judged(&room, check(tool, "deny"), mode).await;
            assert!(matches!(&verdict, Verdict::Deny { reason } if reason == "not today"), "{mode}: {verdict:?}");
            let verdict = judged(&room, check(tool, "ask"), mode).await;
            assert!(
                matches!(&verdict, Verdict::Ask { risk: Risk::High, reason, .. } if reason.starts_with("it is odd")),
                "{mode}: {verdict:?}"
            );
            for path in ["panic", "panic at once"] {
                let verdict = judged(&room, check(tool, path), mode).await;
                let is_unknown = matches!(&verdict, Verdict::Unavailable { why } if why.starts_with("not run: a hook"));
                assert!(is_unknown, "{mode}: {verdict:?}");
            }
        }
    }
    // What it has nothing against is asked about, or denied, as without it.
    let verdict = judged(&room, check("demo/change", "fine"), PermissionMode::Ask).await;
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");
    let asked = hook.before.load(Ordering::SeqCst);
    for (path, mode) in [("fine", PermissionMode::Plan), ("never/x", PermissionMode::Auto)] {
        let verdict = judged(&room, check("demo/change", path), mode).await;
        assert!(matches!(verdict, Verdict::Deny { .. }), "{path}: {verdict:?}");
    }
    assert_eq!(hook.before.load(Ordering::SeqCst), asked, "what is denied anyway is not asked about");
    let verdict = judged(&room, check("demo/change", "own"), PermissionMode::Auto).await;
    assert!(matches!(&verdict, Verdict::Deny { reason } if reason == "its own"), "{verdict:?}");
    assert!(matches!(judged(&room, check("demo/look", "apart"), PermissionMode::Ask).await, Verdict::Ran(_)));
}

/// Counts in its future, as a program would run.
#[derive(Default)]
struct Counting(Arc<AtomicUsize>);

impl ToolHook for Counting {
    fn before_call(&self, _call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
        let count = Arc::clone(&self.0);
        Some(Box::pin(async move {
            count.fetch_add(1, Ordering::SeqCst);
            Some(Concern::Ask("is odd".to_owned()))
        }))
    }
}

#[tokio::test]
async fn a_call_that_a_person_approved_is_not_asked_about_again_unless_it_was_edited() {
    let count = Arc::<AtomicUsize>::default();
    let mut hooks = ToolHooks::default();
    hooks.push(Arc::new(Counting(Arc::clone(&count))));
    let ports = vec![hooks.around(Arc::new(touch("demo/change")))];
    let arguments = ToolsArguments { ports, ..ToolsArguments::default() };
    let room = Actor::spawn(None, ToolsActor, arguments).await.expect("the room opens").0;
    let first = check("demo/change", "x");
    let Verdict::Ask { tool, .. } = judged(&room, first.clone(), PermissionMode::Auto).await else {
        panic!("the hook asks")
    };
    let approved = Some(Box::new(Approved { by: ApprovalId::new("a1"), tool: Some(tool) }));
    let verdict = judged(&room, CheckRequest { approved: approved.clone(), ..first }, PermissionMode::Auto).await;
    assert!(matches!(verdict, Verdict::Allow { .. }), "{verdict:?}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let edited = CheckRequest { approved, ..check("demo/change", "y") };
    judged(&room, edited, PermissionMode::Auto).await;
    assert_eq!(count.load(Ordering::SeqCst), 2, "other arguments are another call");
}

#[tokio::test]
async fn what_a_hook_says_after_a_call_is_behind_its_result() {
    let hook = Arc::<Named>::default();
    let room = room(Arc::clone(&hook), Policy::default()).await;
    let texts = |output: &ToolOutput| output.parts.iter().map(ContentPart::as_text).collect::<Vec<_>>().join("|");
    for (path, status, text) in [
        ("fine", CallStatus::Ok, "fine|seen: true"),
        ("structured", CallStatus::Ok, "{\"a\":1}|seen: true"),
        ("fail", CallStatus::Error, "it failed\nseen: false"),
        ("bad", CallStatus::Ok, "bad"),
        ("bad at once", CallStatus::Ok, "bad at once"),
        ("late", CallStatus::Ok, "late"),
    ] {
        let returned = returned(&room, path).await;
        assert_eq!((returned.status, texts(&returned.output).as_str()), (status, text), "{path}");
    }
    let before = hook.after.load(Ordering::SeqCst);
    assert_eq!(returned(&room, "waits").await.output.waits_for.as_deref(), Some("a letter"));
    assert_eq!(hook.after.load(Ordering::SeqCst), before, "a result that is not there is not looked at");
}
