use super::super::{inherited, shell_exec};
use super::*;
use crate::child::Watcher;
use crate::tools::actor::{ToolsActor, ToolsArguments};
use crate::tools::local::fixture::{Workspace, call};
use crate::tools::local::sandbox::Sandbox;
use crate::tools::port::Leaving;
use crate::tools::{Policy, ToolPort};
use bob_messages::reply::Reply;
use bob_messages::tools::{CheckRequest, ToolsMessage, Verdict};
use ractor::Actor;

/// The three tools over one list of commands, and the watcher that knows what runs.
struct Tools {
    workspace: Workspace,
    jobs: Arc<Jobs>,
    watcher: Watcher,
    exec: FnTool,
    output: FnTool,
    stop: FnTool,
}

impl Tools {
    fn new() -> Self {
        let (jobs, watcher) = (Arc::<Jobs>::default(), Watcher::new());
        let exec = shell_exec(&Shell::new(inherited(&[]), watcher.clone(), Sandbox::default()), &jobs, &[]);
        let (output, stop) = (shell_output(&jobs), shell_stop(&jobs));
        Self { workspace: Workspace::new(), jobs, watcher, exec, output, stop }
    }

    async fn start(&self, command: &str) -> String {
        self.workspace.text(&self.exec, json!({"command": command, "background": true})).await
    }

    async fn show(&self, arguments: Value) -> String {
        self.workspace.text(&self.output, arguments).await
    }

    /// Whether every process is gone and was reaped.
    async fn is_idle(&self) -> bool {
        self.watcher.idle(Duration::from_secs(20)).await
    }

    fn session(&self) -> bob_messages::ids::SessionId {
        self.workspace.context().session
    }
}

#[tokio::test]
async fn a_command_in_the_background_is_followed_and_stopped() {
    let tools = Tools::new();
    let told = tools.start("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done").await;
    let (first, rest) = told.split_once('\n').expect("lines");
    assert!(
        first.starts_with("[command 1 runs for ") && first.contains("; trap 'echo bye; exit 7' TERM; echo ready"),
        "{told}"
    );
    assert!(
        rest.ends_with("[follow it with shell_output, end it with shell_stop, \"id\": 1; it ends with the session]")
    );
    let mut seen = rest.contains("ready");
    while !seen {
        seen = tools.show(json!({"id": 1, "wait_ms": 5})).await.contains("ready");
    }
    let shown = tools.show(json!({"id": 1})).await;
    assert!(shown.starts_with("[command 1 runs for") && !shown.contains('\n'), "nothing new: {shown}");
    assert!(tools.show(json!({"id": 1, "all": true})).await.ends_with("\nready"));
    let output = tools.workspace.run(&tools.stop, json!({"id": 1})).await.expect("it is stopped");
    let told = output.plain();
    assert!(told.starts_with("[command 1 has ended after ") && told.contains(": exit code 7; "), "{told}");
    // The shell may tell, on its stderr, of its own child that was ended with it.
    assert!(told.lines().any(|line| line == "bye"), "{told}");
    assert_eq!(output.structured, Some(json!({"id": 1, "running": false, "exit_status": 7, "signal": null})));
    assert!(tools.is_idle().await);
    let kept = tools.show(json!({"id": 1, "all": true})).await;
    let has = |word: &str| kept.lines().any(|line| line == word);
    assert!(has("ready") && has("bye"), "it is kept for a while: {kept}");
}

#[tokio::test]
async fn one_that_ends_is_told_and_others_have_other_numbers() {
    let tools = Tools::new();
    let told = tools.start("echo no such thing >&2; exit 3").await;
    // A start looks at what was started, for a moment only.
    let told = if told.contains("runs for") {
        tools.show(json!({"id": 1, "wait_ms": 20_000, "all": true})).await
    } else {
        told
    };
    assert!(told.contains(": exit code 3; ") && told.ends_with("\nno such thing"), "{told}");
    let stubborn = tools.start("trap '' TERM; echo up; while :; do sleep 0.05; done").await;
    assert!(stubborn.starts_with("[command 2 runs"), "{stubborn}");
    let told = tools.workspace.text(&tools.stop, json!({"id": 2})).await;
    assert!(told.contains(": killed by signal 9; "), "{told}");
    for tool in [&tools.output, &tools.stop] {
        let told = tools.workspace.error(tool, json!({"id": 9})).await;
        assert_eq!(told, "there is no command 9 in the background; there are 1, 2");
    }
    assert!(tools.is_idle().await);
}

#[tokio::test]
async fn a_time_limit_ends_one_in_the_background_too() {
    let tools = Tools::new();
    let arguments = json!({"command": "echo begun; sleep 600", "background": true, "timeout_ms": 400});
    tools.workspace.text(&tools.exec, arguments).await;
    let told = tools.show(json!({"id": 1, "wait_ms": 20_000, "all": true})).await;
    assert!(told.contains(", at its time limit: killed by signal 9; ") && told.ends_with("\nbegun"), "{told}");
}

#[tokio::test]
async fn a_session_sees_its_own_only_and_they_end_with_it() {
    let tools = Tools::new();
    tools.start("sleep 600").await;
    let mut other = tools.workspace.invocation("local/shell_output", json!({"id": 1}));
    Arc::make_mut(&mut other.context).session = bob_messages::ids::SessionId::parse("other").expect("a plain id");
    let told = tools.output.call_tool(other).await.unwrap_err().to_string();
    assert_eq!(told, "no command was started in the background of this session since the program began");
    tools.jobs.session_ended(&bob_messages::ids::SessionId::parse("other").expect("a plain id"));
    assert!(tools.show(json!({"id": 1})).await.contains("runs for"));
    tools.jobs.session_ended(&tools.session());
    assert!(tools.is_idle().await, "its whole group is gone");
}

#[tokio::test]
async fn they_are_bounded() {
    let tools = Tools::new();
    for _ in 0..8 {
        assert!(tools.start("sleep 600").await.contains("runs for"));
    }
    let arguments = json!({"command": "touch ran", "background": true});
    let told = tools.workspace.error(&tools.exec, arguments).await;
    assert_eq!(told, "8 commands run in the background of this session; stop one with shell_stop first");
    assert!(!tools.workspace.path("ran").exists());
    for id in 1..=8 {
        tools.workspace.text(&tools.stop, json!({"id": id})).await;
    }
    for id in 9..=18 {
        tools.start("true").await;
        assert!(tools.show(json!({"id": id, "wait_ms": 20_000})).await.contains("exit code 0"));
    }
    drop(tools.jobs.get(&tools.session(), 18).expect("the newest is kept"));
    assert!(tools.jobs.get(&tools.session(), 1).is_err(), "the oldest is forgotten");
}

#[tokio::test]
async fn however_their_host_ends_they_end() {
    for kill in [false, true] {
        let tools = Tools::new();
        let (jobs, watcher) = (Arc::clone(&tools.jobs), tools.watcher.clone());
        let exec: Arc<dyn ToolPort> = Arc::new(tools.exec);
        let policy = Policy { deny_tools: Vec::new(), require_high_risk_approval: false, ..Policy::default() };
        let arguments = ToolsArguments { ports: vec![exec], policy, ..ToolsArguments::default() };
        let (actor, ends) = Actor::spawn(None, ToolsActor, arguments).await.expect("the actor starts");
        let call = call("local/shell_exec", json!({"command": "sleep 600 & sleep 600", "background": true}));
        let context = Arc::new(tools.workspace.context());
        let check = CheckRequest { call: Arc::clone(&call), approved: None, standing: Vec::new(), run: false };
        let (reply, verdict) = Reply::channel();
        actor
            .send_message(ToolsMessage::Check { check, context: Arc::clone(&context), reply }.into())
            .expect("it is there");
        let Some(Verdict::Allow { grant, .. }) = verdict.await else { panic!("the shell is allowed") };
        let (reply, returned) = Reply::channel();
        actor.send_message(ToolsMessage::Call { call, grant, context, reply }.into()).expect("it is there");
        let told = returned.await.expect("a result").output.plain();
        assert!(told.contains("runs for"), "{told}");
        assert!(!watcher.idle(Duration::ZERO).await);
        if kill {
            actor.kill()
        } else {
            actor.stop(None)
        }
        ends.await.expect("it ends");
        assert!(watcher.idle(Duration::from_secs(20)).await, "kill: {kill}");
        assert!(jobs.get(&bob_messages::ids::SessionId::parse("s").expect("a plain id"), 1).is_err());
    }
}
