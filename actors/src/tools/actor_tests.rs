use super::*;
use crate::tools::local::fixture::{Workspace, call};
use crate::tools::{FnTool, ToolError, ToolOverride, local, tool};
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::permission::PermissionMode;
use bob_messages::reply::{Answer, Interest, Reply};
use bob_messages::tools::{CallContext, CheckRequest, Grant, Risk, ToolOutput, ToolReturn, ToolsMessage, Verdict};
use futures_util::FutureExt;
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(super) fn simple(name: &str, run: impl Fn() -> Result<ToolOutput, ToolError> + Send + Sync + 'static) -> FnTool {
    tool(name, "Does it", move |_: Nothing, _| {
        std::future::ready(()).map({
            let result = run();
            move |()| result
        })
    })
}

async fn start(tools: Vec<FnTool>, policy: Policy) -> (ActorRef<LocalToolsMessage>, JoinHandle<()>) {
    let ports = tools.into_iter().map(|tool| -> Arc<dyn ToolPort> { Arc::new(tool) }).collect();
    Actor::spawn(None, ToolsActor, ToolsArguments { ports, policy, ..ToolsArguments::default() })
        .await
        .expect("the actor starts")
}

pub(super) fn context() -> Arc<CallContext> {
    Arc::new(Workspace::new().context())
}

pub(super) async fn ask<T: Send + 'static>(
    actor: &ActorRef<LocalToolsMessage>,
    question: impl FnOnce(Reply<T>) -> ToolsMessage,
) -> Option<T> {
    let (reply, answer) = Reply::channel();
    actor.send_message(question(reply).into()).expect("the actor is there");
    answer.await
}

pub(super) async fn granted(
    actor: &ActorRef<LocalToolsMessage>,
    call: &Arc<ToolCall>,
    context: &Arc<CallContext>,
) -> Grant {
    let check = CheckRequest { call: Arc::clone(call), approved: None, standing: Vec::new(), run: false };
    let context = Arc::clone(context);
    match ask(actor, |reply| ToolsMessage::Check { check, context, reply }).await.expect("a verdict") {
        Verdict::Allow { grant, .. } => grant,
        other => panic!("expected an allowance, got {other:?}"),
    }
}

async fn begin(actor: &ActorRef<LocalToolsMessage>, name: &str) -> Answer<ToolReturn> {
    let (call, context) = (call(name, json!({})), context());
    let grant = granted(actor, &call, &context).await;
    let (reply, answer) = Reply::channel();
    actor.send_message(ToolsMessage::Call { call, grant, context, reply }.into()).expect("the actor is there");
    answer
}

pub(super) async fn perform(actor: &ActorRef<LocalToolsMessage>, name: &str) -> ToolReturn {
    begin(actor, name).await.await.expect("an answer")
}

#[tokio::test]
async fn a_call_is_checked_and_run() {
    let fine = simple("demo/fine", || Ok(ToolOutput::text("fine")));
    let failing = simple("demo/failing", || Err(ToolError::new("no such thing")));
    let sorry = simple("demo/sorry", || Ok(ToolOutput::error("sorry")));
    let (actor, _) = start(vec![fine, failing, sorry], Policy::default()).await;
    for (name, status, text) in [
        ("demo/fine", CallStatus::Ok, "fine"),
        ("demo/failing", CallStatus::Error, "no such thing"),
        ("demo/sorry", CallStatus::Error, "sorry"),
    ] {
        let returned = perform(&actor, name).await;
        assert_eq!((returned.status, returned.output.plain().as_str()), (status, text));
    }
}

#[tokio::test]
async fn a_call_without_its_grant_never_reaches_the_tool() {
    let reached = Arc::new(Mutex::new(0));
    let count = Arc::clone(&reached);
    let counting = simple("demo/counting", move || {
        *count.lock().expect("not poisoned") += 1;
        Ok(ToolOutput::default())
    });
    let (actor, _) = start(vec![counting], Policy::default()).await;
    let (call, context) = (call("demo/counting", json!({})), context());
    let grant = Grant { call: call.id.clone(), seal: "00".repeat(32) };
    let refused = ask(&actor, |reply| ToolsMessage::Call { call, grant, context, reply }).await.expect("an answer");
    assert_eq!(refused.status, CallStatus::Denied);
    assert!(refused.output.is_error && refused.output.plain().contains("permission"), "{refused:?}");
    assert_eq!(*reached.lock().expect("not poisoned"), 0);
    perform(&actor, "demo/counting").await;
    assert_eq!(*reached.lock().expect("not poisoned"), 1);
}

#[tokio::test]
async fn a_panicking_tool_is_an_error_result_and_the_actor_lives() {
    let early = simple("demo/early", || panic!("before the future"));
    let late =
        tool("demo/late", "Panics", |_: Nothing, _| async { panic!("within the future") as Result<(), ToolError> });
    let (actor, _) = start(vec![early, late], Policy::default()).await;
    for name in ["demo/early", "demo/late"] {
        let returned = perform(&actor, name).await;
        assert_eq!(returned.status, CallStatus::Error);
        assert!(returned.output.plain().contains("the tool panicked"), "{returned:?}");
    }
    assert_eq!(perform(&actor, "demo/late").await.status, CallStatus::Error);
}

#[tokio::test(start_paused = true)]
async fn c7_a_slow_tool_is_an_error_result_at_its_deadline() {
    let slow = || {
        tool("demo/slow", "Sleeps", |_: Nothing, _| async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(ToolOutput::default())
        })
    };
    let mut policy = Policy::default();
    for (timeout_ms, expected) in [(None, 10_000), (Some(250), 250), (Some(u64::MAX), 3_600_000)] {
        policy.tools.insert("demo/slow".to_owned(), ToolOverride { timeout_ms, ..ToolOverride::default() });
        let (actor, _) = start(vec![slow()], policy.clone()).await;
        let returned = perform(&actor, "demo/slow").await;
        assert_eq!(returned.duration_ms, expected);
        assert_eq!(returned.status == CallStatus::Error, expected < 3_600_000);
        if returned.output.is_error {
            assert_eq!(
                returned.output.plain(),
                format!("demo/slow timed out after {expected} ms; it may have done part of its work")
            );
        }
    }
}

/// A tool that says when it was started, and when its future was dropped.
fn waiting(started: oneshot::Sender<()>, dropped: oneshot::Sender<()>) -> FnTool {
    let ends = Mutex::new(Some((started, dropped)));
    tool("demo/waiting", "Waits", move |_: Nothing, _| {
        let (started, dropped) = ends.lock().expect("not poisoned").take().expect("called once");
        async move {
            let _told_by_its_drop = dropped;
            let _nobody_need_listen = started.send(());
            std::future::pending::<Result<(), ToolError>>().await
        }
    })
}

/// Long before the call's own deadline, which would drop the future as well.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(5), future).await.expect("within 5 s")
}

#[tokio::test]
async fn an_abandoned_call_is_dropped_and_the_mailbox_stays_free() {
    let ((started, is_started), (dropped, is_dropped)) = (oneshot::channel(), oneshot::channel());
    let fine = simple("demo/fine", || Ok(ToolOutput::default()));
    let (actor, _) = start(vec![waiting(started, dropped), fine], Policy::default()).await;
    let answer = begin(&actor, "demo/waiting").await;
    is_started.await.expect("it runs");
    assert_eq!(perform(&actor, "demo/fine").await.status, CallStatus::Ok);
    drop(answer);
    soon(is_dropped).await.expect_err("the tool's future is gone");
}

/// Asks whether a call may run, and to run it at once; each word that comes.
fn check_and_run(
    actor: &ActorRef<LocalToolsMessage>,
    name: &str,
) -> (Interest, tokio::sync::mpsc::UnboundedReceiver<Option<Verdict>>) {
    check_and_run_in(actor, name, PermissionMode::Auto)
}

fn check_and_run_in(
    actor: &ActorRef<LocalToolsMessage>,
    name: &str,
    mode: PermissionMode,
) -> (Interest, tokio::sync::mpsc::UnboundedReceiver<Option<Verdict>>) {
    let check = CheckRequest { call: call(name, json!({})), approved: None, standing: Vec::new(), run: true };
    let (told, heard) = tokio::sync::mpsc::unbounded_channel();
    let (reply, interest) = Reply::noted(move |verdict| drop(told.send(verdict)));
    let context = Arc::new(CallContext { mode: Some(mode), ..(*context()).clone() });
    actor.send_message(ToolsMessage::Check { check, context, reply }.into()).expect("the actor is there");
    (interest, heard)
}

#[tokio::test]
async fn a_call_that_only_reads_is_judged_and_run_by_one_question() {
    let reads = simple("demo/reads", || Ok(ToolOutput::text("seen"))).read_only();
    let writes = simple("demo/writes", || panic!("it was not allowed yet"));
    let risky = simple("demo/risky", || panic!("a person was not asked")).read_only().risk(Risk::High);
    let (actor, _) = start(vec![reads, writes, risky], Policy::default()).await;
    let (_interest, mut heard) = check_and_run(&actor, "demo/reads");
    let ran = heard.recv().await.flatten();
    assert!(matches!(&ran, Some(Verdict::Ran(returned)) if returned.output.plain() == "seen"), "{ran:?}");
    assert_eq!(heard.recv().await, None, "one word, and no other");
    let (_interest, mut heard) = check_and_run(&actor, "demo/writes");
    let allowed = heard.recv().await.flatten();
    assert!(matches!(allowed, Some(Verdict::Allow { .. })), "{allowed:?}");
    let (_interest, mut heard) = check_and_run_in(&actor, "demo/risky", PermissionMode::Edits);
    let asked = heard.recv().await.flatten();
    assert!(matches!(asked, Some(Verdict::Ask { .. })), "{asked:?}");
}

#[tokio::test]
async fn a_call_that_was_run_at_once_and_takes_its_time_is_noted_and_can_be_abandoned() {
    let ((started, is_started), (dropped, is_dropped)) = (oneshot::channel(), oneshot::channel());
    let (actor, _) = start(vec![waiting(started, dropped).read_only()], Policy::default()).await;
    let (interest, mut heard) = check_and_run(&actor, "demo/waiting");
    is_started.await.expect("it runs");
    assert_eq!(soon(heard.recv()).await, Some(Some(Verdict::Running)));
    drop(interest);
    soon(is_dropped).await.expect_err("the tool's future is gone");
    assert_eq!(soon(heard.recv()).await, Some(None), "and its asker hears that nobody will answer");
}

#[tokio::test]
async fn the_calls_of_an_actor_end_with_it() {
    for kill in [false, true] {
        let ((started, is_started), (dropped, is_dropped)) = (oneshot::channel(), oneshot::channel());
        let (actor, _) = start(vec![waiting(started, dropped)], Policy::default()).await;
        let answer = begin(&actor, "demo/waiting").await;
        is_started.await.expect("it runs");
        if kill {
            actor.kill()
        } else {
            actor.stop(None)
        }
        soon(is_dropped).await.expect_err("the tool's future is gone");
        assert!(soon(answer).await.is_none(), "whoever asked hears that nobody will answer");
    }
}

#[tokio::test]
async fn tools_that_could_be_mistaken_do_not_start() {
    let twice = || simple("demo/twice", || Ok(ToolOutput::default()));
    let ports: Vec<Arc<dyn ToolPort>> = vec![Arc::new(twice()), Arc::new(twice())];
    let arguments = ToolsArguments { ports, ..ToolsArguments::default() };
    let error = Actor::spawn(None, ToolsActor, arguments).await.expect_err("a collision").to_string();
    assert!(error.contains("demo/twice"), "{error}");
}

#[tokio::test]
async fn a_call_that_was_allowed_before_a_restart_of_the_actor_runs_after_it() {
    let ports: Vec<Arc<dyn ToolPort>> = vec![Arc::new(simple("demo/act", || Ok(ToolOutput::text("done"))))];
    let arguments = ToolsArguments { ports, ..ToolsArguments::default() };
    let start = async |arguments: &ToolsArguments| {
        let (actor, _) = Actor::spawn(None, ToolsActor, arguments.clone()).await.expect("the actor starts");
        actor
    };
    let first = start(&arguments).await;
    let (call, context) = (call("demo/act", json!({})), context());
    let grant = granted(&first, &call, &context).await;
    first.kill_and_wait(None).await.expect("it ends");
    let run = async |actor: &ActorRef<LocalToolsMessage>| {
        let (call, grant, context) = (Arc::clone(&call), grant.clone(), Arc::clone(&context));
        ask(actor, |reply| ToolsMessage::Call { call, grant, context, reply }).await.expect("an answer")
    };
    let returned = run(&start(&arguments).await).await;
    assert_eq!((returned.status, returned.output.plain().as_str()), (CallStatus::Ok, "done"));
    // In another runtime it grants nothing.
    let stranger = ToolsArguments { key: KeyPlace::default(), ..arguments.clone() };
    assert_eq!(run(&start(&stranger).await).await.status, CallStatus::Denied);
}

#[tokio::test]
async fn bobs_own_tools_stand_side_by_side_and_the_shell_is_not_offered() {
    let registry = crate::tools::ToolRegistry::default();
    let arguments = ToolsArguments {
        ports: local::tools(
            &crate::child::Watcher::new(),
            &local::Protection::default(),
            &Policy::default(),
            &local::BackgroundCommands::default(),
        ),
        publisher: Some(registry.local_publisher()),
        ..ToolsArguments::default()
    };
    let (actor, _) = Actor::spawn(None, ToolsActor, arguments).await.expect("the actor starts");
    let (reply, listed) = Reply::channel();
    registry.list(None, |set| reply.send(set));
    let set = listed.await.expect("the tools");
    let names: Vec<&str> = set.tools().iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(
        names,
        [
            "local/list_dir",
            "local/read_file",
            "local/find_files",
            "local/search_files",
            "local/write_file",
            "local/edit_file",
            "local/todo"
        ]
    );
    let workspace = Workspace::new();
    workspace.put("hello.txt", "hello");
    let (call, context) = (call("local/list_dir", json!({})), Arc::new(workspace.context()));
    let grant = granted(&actor, &call, &context).await;
    let returned = ask(&actor, |reply| ToolsMessage::Call { call, grant, context, reply }).await.expect("an answer");
    assert_eq!(returned.output.plain(), "hello.txt");
}
