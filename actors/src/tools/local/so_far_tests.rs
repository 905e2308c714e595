//! What a call has put out is not lost when nobody waits for its result any more, or when it takes too long.

use super::fixture::{Workspace, call};
use super::shell::{Shell, inherited, shell_exec};
use crate::child::Watcher;
use crate::tools::actor::{ToolsActor, ToolsArguments};
use crate::tools::local::sandbox::Sandbox;
use crate::tools::{Policy, ToolOverride, ToolPort};
use bob_messages::chat::CallStatus;
use bob_messages::reply::{Interest, MOST_SO_FAR_BYTES, Reply, SoFar};
use bob_messages::tools::{CheckRequest, LocalToolsMessage, ToolReturn, ToolsMessage, Verdict};
use ractor::{Actor, ActorRef};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const DEADLINE: Duration = Duration::from_secs(30);

/// A shell command that runs in a tools actor, and what is kept of it.
struct Running {
    _actor: ActorRef<LocalToolsMessage>,
    _workspace: Workspace,
    interest: Option<Interest>,
    so_far: SoFar,
    returned: oneshot::Receiver<Option<ToolReturn>>,
}

async fn running(command: &str, timeout_ms: Option<u64>) -> Running {
    let workspace = Workspace::new();
    let shell: Arc<dyn ToolPort> =
        Arc::new(shell_exec(&Shell::new(inherited(&[]), Watcher::new(), Sandbox::default()), &Arc::default(), &[]));
    let mut policy = Policy { deny_tools: Vec::new(), require_high_risk_approval: false, ..Policy::default() };
    policy.tools.insert("local/shell_exec".to_owned(), ToolOverride { timeout_ms, ..ToolOverride::default() });
    let arguments = ToolsArguments { ports: vec![shell], policy, ..ToolsArguments::default() };
    let (actor, _ends) = Actor::spawn(None, ToolsActor, arguments).await.expect("the actor starts");
    let (call, context) = (call("local/shell_exec", json!({"command": command})), Arc::new(workspace.context()));
    let check = CheckRequest { call: Arc::clone(&call), approved: None, standing: Vec::new(), run: false };
    let (reply, verdict) = Reply::channel();
    let asked = ToolsMessage::Check { check, context: Arc::clone(&context), reply };
    actor.send_message(asked.into()).expect("the actor is there");
    let Some(Verdict::Allow { grant, .. }) = verdict.await else { panic!("the shell is allowed") };
    let (tell, returned) = oneshot::channel();
    let (reply, interest) = Reply::abandonable(move |answer| drop(tell.send(answer)));
    let so_far = SoFar::kept();
    let reply = reply.keeping(&so_far);
    actor.send_message(ToolsMessage::Call { call, grant, context, reply }.into()).expect("the actor is there");
    Running { _actor: actor, _workspace: workspace, interest: Some(interest), so_far, returned }
}

async fn until(so_far: &SoFar, holds: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let text = so_far.text().unwrap_or_default();
        if holds(&text) {
            return text;
        }
        assert!(began.elapsed() < DEADLINE, "never: {text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn c4_what_a_cancelled_command_had_put_out_is_at_hand_at_once() {
    let mut running = running("for n in 1 2 3; do echo step $n; done; echo oh >&2; sleep 600", None).await;
    until(&running.so_far, |text| text.contains("step 3") && text.contains("oh")).await;
    drop(running.interest.take());
    let answer = tokio::time::timeout(DEADLINE, running.returned).await.expect("it lets go").expect("it is told");
    assert_eq!(answer, None, "nobody wants its result");
    // Two pipes are read side by side, so that the line of stderr may stand between any two of stdout.
    let kept = running.so_far.text().unwrap_or_default();
    let lines: Vec<_> = kept.lines().filter(|line| line.starts_with("step")).collect();
    assert_eq!(lines, ["step 1", "step 2", "step 3"], "{kept}");
}

#[tokio::test]
async fn of_very_much_the_end_is_kept() {
    let running = running("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; sleep 600", None).await;
    let text = until(&running.so_far, |text| text.ends_with("line 19999")).await;
    assert!(text.len() < MOST_SO_FAR_BYTES + 100, "{}", text.len());
    assert!(text.starts_with("[… the first "), "{}", &text[..80]);
}

#[tokio::test]
async fn c7_a_command_that_takes_too_long_tells_what_it_had_put_out() {
    let running = running("echo begun; sleep 600", Some(1_500)).await;
    let answer = tokio::time::timeout(DEADLINE, running.returned).await.expect("it ends").expect("it is told");
    let returned = answer.expect("a result");
    assert_eq!(returned.status, CallStatus::Error);
    let text = returned.output.plain();
    assert!(text.ends_with("it may have done part of its work; its output so far:\nbegun"), "{text}");
}
