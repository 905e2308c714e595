//! Real scripts as hooks.

use super::*;
use crate::child::ChildSpec;
use crate::feed::EventSink;
use crate::stopwatch::Stopwatch;
use crate::tools::local::fixture::{Workspace, call};
use crate::tools::{FnTool, tool};
use bob_messages::context::RequestContext;
use bob_messages::event::{AgentEvent, Envelope};
use bob_messages::ids::{ApprovalId, SessionId, TurnId};
use bob_messages::outcome::TurnOutcome;
use bob_messages::tools::{CallContext, Risk, ToolKind};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

fn sh(script: &str) -> ChildSpec {
    ChildSpec::new("/bin/sh", ["-c", script])
}

fn hook(on: HookPoint, script: &str) -> HookProgram {
    HookProgram::new("guard", on, sh(script))
}

fn programs(hooks: Vec<HookProgram>) -> HookPrograms {
    HookPrograms::new(hooks, Watcher::new()).expect("the patterns are fine")
}

fn shell() -> FnTool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Line {
        #[allow(dead_code, reason = "only its schema matters here")]
        command: String,
    }
    tool("local/shell_exec", "Runs", |_: Line, _| async { Ok(ToolOutput::text("ran")) }).kind(ToolKind::Execute)
}

fn hooked(workspace: &Workspace, tool: &FnTool, arguments: Value) -> HookedCall {
    let descriptor = tool.listed().remove(0);
    let call = call(descriptor.id.as_str(), arguments);
    HookedCall { tool: Arc::new(descriptor), call, context: Arc::new(workspace.context()) }
}

async fn before(hooks: Vec<HookProgram>) -> Option<Concern> {
    let workspace = Workspace::new();
    let call = hooked(&workspace, &shell(), json!({"command": "git push"}));
    programs(hooks).before_call(&call).expect("it is about the call").await
}

fn denied(concern: Option<Concern>) -> String {
    match concern {
        Some(Concern::Deny(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_decision_of_a_program_counts() {
    use HookPoint::BeforeCall;
    for silent in ["true", "cat > /dev/null", "echo", "echo '{}'", "echo '{\"decision\": \"allow\"}'"] {
        assert_eq!(before(vec![hook(BeforeCall, silent)]).await, None, "{silent}");
    }
    let deny = r#"echo '{"decision": "deny", "reason": "pushes are for people"}'"#;
    let ask = r#"echo '{"decision": "ask", "reason": "it pushes"}'"#;
    let concern = before(vec![hook(BeforeCall, deny)]).await;
    assert_eq!(denied(concern), "the hook guard denies it: pushes are for people");
    let concern = before(vec![hook(BeforeCall, ask)]).await;
    let asked = "is for a person to decide, says the hook guard: it pushes".to_owned();
    assert_eq!(concern, Some(Concern::Ask(asked)));
    // Deny beats ask beats allow, whatever the order; what is behind a denial is not run.
    let folder = tempfile::tempdir().expect("a folder");
    let mark = format!("touch {}; echo '{{}}'", folder.path().join("mark").display());
    for order in [["true", ask, deny], [ask, deny, &mark], [deny, ask, &mark]] {
        let hooks = order.iter().map(|script| hook(BeforeCall, script)).collect();
        assert!(matches!(before(hooks).await, Some(Concern::Deny(_))), "{order:?}");
    }
    assert!(!folder.path().join("mark").exists());
}

#[tokio::test]
async fn a_program_reads_the_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = folder.path().join("seen.json");
    let hooks = vec![hook(HookPoint::BeforeCall, &format!("cat > {}", seen.display()))];
    assert_eq!(before(hooks).await, None);
    let seen: Value = serde_json::from_slice(&std::fs::read(seen).expect("it was written")).expect("it is JSON");
    assert_eq!(
        (&seen["hook"], &seen["on"], &seen["session_id"]),
        (&json!("guard"), &json!("before_call"), &json!("s"))
    );
    let call = &seen["call"];
    assert_eq!((&call["tool"], &call["kind"]), (&json!("local/shell_exec"), &json!("execute")));
    assert_eq!(call["arguments"], json!({"command": "git push"}));
    assert!(seen["cwd"].as_str().is_some_and(|cwd| cwd.ends_with("project")), "{seen}");
    assert_eq!(seen["context"], Value::Null, "its request has none");
}

#[tokio::test]
async fn a_program_reads_on_whose_behalf_the_call_is_made() {
    let (folder, workspace) = (tempfile::tempdir().expect("a folder"), Workspace::new());
    let seen = folder.path().join("seen.json");
    let hooks = programs(vec![hook(HookPoint::BeforeCall, &format!("cat > {}", seen.display()))]);
    let call = hooked(&workspace, &shell(), json!({"command": "git push"}));
    let context = Some(Arc::new(RequestContext::of_tenant("acme").principal("ann")));
    let call = HookedCall { context: Arc::new(CallContext { context, ..(*call.context).clone() }), ..call };
    assert_eq!(hooks.before_call(&call).expect("it is about the call").await, None);
    let seen: Value = serde_json::from_slice(&std::fs::read(seen).expect("it was written")).expect("it is JSON");
    assert_eq!(seen["context"], json!({"tenant": "acme", "principal": "ann"}));
}

#[tokio::test]
async fn every_failure_denies_unless_it_is_configured_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let group = folder.path().join("group");
    let deaf = format!("trap '' TERM; echo $$ > {}; sleep 1000 & wait; sleep 1000", group.display());
    for (script, why) in [
        ("echo no >&2; exit 3", "it ended with status 3, last output: no"),
        ("kill -9 $$", "it was ended by signal 9"),
        ("echo deny", "not the JSON"),
        (r#"echo '{"decison": "allow"}'"#, "unknown field"),
        (r#"echo '{"decision": "yes"}'"#, "unknown variant"),
        ("yes", "more than 65536 bytes"),
        (deaf.as_str(), "it took longer than 300 ms"),
    ] {
        let failing = |on_failure| {
            let time_limit = Duration::from_millis(if script == deaf { 300 } else { 20_000 });
            HookProgram { on_failure, time_limit, ..hook(HookPoint::BeforeCall, script) }
        };
        let reason = denied(before(vec![failing(OnFailure::Deny)]).await);
        assert!(reason.starts_with("the hook guard that guards it failed: ") && reason.contains(why), "{reason}");
        let asked = before(vec![failing(OnFailure::Ask)]).await;
        assert!(matches!(&asked, Some(Concern::Ask(reason)) if reason.contains(why)), "{asked:?}");
        assert_eq!(before(vec![failing(OnFailure::Allow)]).await, None, "{script}");
    }
    let none = HookProgram::new("guard", HookPoint::BeforeCall, ChildSpec::new("/no/such/program", [""; 0]));
    assert!(denied(before(vec![none]).await).contains("/no/such/program"));
    let group: i32 = std::fs::read_to_string(group).expect("it ran").trim().parse().expect("a number");
    crate::child::testing::group_is_gone(group).await;
}

#[tokio::test]
async fn a_program_that_does_not_read_a_large_call_is_no_failure_and_costs_no_time() {
    let workspace = Workspace::new();
    let call = hooked(&workspace, &shell(), json!({"command": "x".repeat(900_000)}));
    let started = Stopwatch::start();
    for script in ["true", "exec <&-; sleep 0.1", "exec >&-; cat > /dev/null"] {
        let hooks = programs(vec![hook(HookPoint::BeforeCall, script)]);
        assert_eq!(hooks.before_call(&call).expect("it is about it").await, None, "{script}");
    }
    started.assert_within(Duration::from_secs(9), "three programs");
}

#[tokio::test]
async fn a_program_knows_only_what_it_was_given_and_no_value_of_that_is_told() {
    let names = "env | sed 's/=.*//' | sort | tr '\\n' ' ' >&2; exit 1";
    let reason = denied(before(vec![hook(HookPoint::BeforeCall, names)]).await);
    let known = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "TERM", "PWD", "OLDPWD", "SHLVL", "_"];
    let said = reason.split("last output: ").nth(1).expect("its output");
    let is_known = |name: &str| known.contains(&name) || name.starts_with("LC_");
    assert!(said.split_whitespace().all(is_known) && said.contains("PATH"), "{said}");
    let mut told = hook(HookPoint::BeforeCall, "echo key is $KEY >&2; exit 1");
    told.command.env = vec![("KEY".into(), "canary-value".into())];
    let reason = denied(before(vec![told]).await);
    assert!(reason.contains("key is") && !reason.contains("canary"), "{reason}");
}

#[tokio::test]
async fn a_dropped_question_kills_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let group = folder.path().join("group");
    let script = format!("trap '' TERM; echo $$ > {0}.new; mv {0}.new {0}; sleep 1000", group.display());
    let workspace = Workspace::new();
    let call = hooked(&workspace, &shell(), json!({"command": "x"}));
    let hooks = programs(vec![hook(HookPoint::BeforeCall, &script)]);
    let asked = tokio::spawn(hooks.before_call(&call).expect("it is about it"));
    let pid = written(&group).await;
    asked.abort();
    crate::child::testing::group_is_gone(pid.trim().parse().expect("a number")).await;
}

async fn written(file: &Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if !text.is_empty() => return text,
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[tokio::test]
async fn patterns_say_which_calls_a_program_is_asked_about() {
    let workspace = Workspace::new();
    workspace.put("keep/a.txt", "a");
    std::os::unix::fs::symlink("keep", workspace.path("way")).expect("a link");
    let read = tool("local/read_file", "Reads", |_: Value, _| async { Ok(ToolOutput::text("")) }).read_only();
    let calls = ["local/shell_exec(git push *)", "local/read_file(keep/**)"].map(str::to_owned).to_vec();
    let no = hook(HookPoint::BeforeCall, "exit 1");
    let programs = programs(vec![HookProgram { calls, ..no }]);
    for (tool, arguments, is_asked) in [
        (shell(), json!({"command": "git push origin"}), true),
        (shell(), json!({"command": "ls; git push"}), true),
        (shell(), json!({"command": "git status"}), false),
        (read, json!({"path": "keep/a.txt"}), true),
    ] {
        let call = hooked(&workspace, &tool, arguments.clone());
        let concern = programs.before_call(&call).expect("its tool is named").await;
        assert_eq!(concern.is_some(), is_asked, "{arguments}");
        if tool.listed()[0].id.as_str() == "local/read_file" {
            for (path, is_asked) in [("way/a.txt", true), ("other/a.txt", false)] {
                let call = hooked(&workspace, &tool, json!({ "path": path }));
                let concern = programs.before_call(&call).expect("its tool is named").await;
                assert_eq!(concern.is_some(), is_asked, "{path}");
            }
        }
    }
    let other = tool("local/todo", "Plans", |_: Value, _| async { Ok(ToolOutput::text("")) });
    assert!(programs.before_call(&hooked(&workspace, &other, json!({}))).is_none());
    let bad = HookProgram { calls: vec!["local/x(".to_owned()], ..hook(HookPoint::BeforeCall, "true") };
    assert!(HookPrograms::new(vec![bad], Watcher::new()).is_err());
}

#[tokio::test]
async fn after_a_call_a_program_reads_the_result_and_may_add_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = folder.path().join("seen.json");
    let note = format!("cat > {}; echo '{{\"note\": \"two warnings\"}}'", seen.display());
    let hooks = [note.as_str(), "exit 1", "echo '{}'", "echo '{\"decision\": \"deny\"}'"];
    let programs = programs(hooks.map(|script| hook(HookPoint::AfterCall, script)).to_vec());
    let workspace = Workspace::new();
    let call = hooked(&workspace, &shell(), json!({"command": "x"}));
    let result = Ok(ToolOutput::text("y".repeat(70_000)));
    let said = programs.after_call(&call, &result).expect("it is about it").await;
    assert_eq!(said.as_deref(), Some("[the hook guard says: two warnings]"));
    let seen: Value = serde_json::from_slice(&std::fs::read(seen).expect("it was written")).expect("it is JSON");
    let result = &seen["result"];
    assert_eq!((&result["is_error"], &result["is_cut"]), (&json!(false), &json!(true)));
    assert_eq!(result["text"].as_str().map(str::len), Some(65_536));
    assert!(programs.before_call(&call).is_none());
}

fn event(event: AgentEvent) -> Envelope {
    let (session, turn) = (SessionId::parse("s").expect("a plain id"), TurnId::new("t"));
    Envelope::of_turn(&session, &turn, 0, 1, None, event)
}

fn asked() -> AgentEvent {
    AgentEvent::ApprovalRequested {
        approval_id: ApprovalId::new("a1"),
        call: call("local/shell_exec", json!({"command": "x"})),
        risk: Risk::High,
        reason: "it runs".to_owned(),
        choices: Vec::new(),
        changes: None,
    }
}

#[tokio::test]
async fn questions_and_ends_of_turns_are_told_and_a_question_can_be_answered_with_no() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let no = format!("cat > {}; echo '{{\"decision\": \"deny\", \"reason\": \"at night\"}}'", path("question"));
    let yes = r#"echo '{"decision": "allow"}'"#;
    let end = format!("cat >> {}; sleep 0.2; echo done >> {0}", path("end"));
    let programs = programs(vec![
        hook(HookPoint::Question, yes),
        hook(HookPoint::Question, &no),
        hook(HookPoint::TurnEnd, &end),
        hook(HookPoint::BeforeCall, "exit 1"),
    ]);
    let refused = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&refused);
    programs.refuse_by(Arc::new(move |session, approval, reason| {
        told.lock().expect("not poisoned").push(format!("{session} {approval} {reason}"));
        Box::pin(std::future::ready(()))
    }));
    let outcome = TurnOutcome::bare(
        SessionId::parse("s").expect("a plain id"),
        TurnId::new("t"),
        bob_messages::chat::FinishReason::Final,
        "done",
    );
    programs.emit(&event(asked()));
    programs.emit(&event(AgentEvent::TurnFinished { outcome: Box::new(outcome) }));
    programs.idle(Duration::from_secs(30)).await;
    assert_eq!(*refused.lock().expect("not poisoned"), ["s a1 the hook guard denies it: at night"]);
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it was written");
    let question: Value = serde_json::from_str(&read("question")).expect("it is JSON");
    assert_eq!(question["event"]["type"], json!("approval.requested"));
    assert_eq!(question["event"]["approval_id"], json!("a1"));
    let end = read("end");
    assert!(end.contains("turn.finished") && end.ends_with("done\n"), "{end}");
    assert_eq!(programs.longest(), Duration::from_secs(30));
}
