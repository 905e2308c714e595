//! Calls that outlive their process: tasks, whose result another one asks for, and forms that a reply fills in.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bob::approvals::PermissionMode;
use bob::inbox::StoreLease;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::store::{MemoryStore, SessionStore};
use bob::tools::servers::{ServerId, ServerSpec};
use bob::{AgentRequest, AgentRuntime, RuntimeBuilder, SessionId};
use bob_messages::chat::CallStatus;
use serde_json::{Value, json};

use crate::pass_on::pass_on;
use crate::servers::fixture::{AGENT, wait};
use crate::support::program::{Program, Run};
use crate::support::runtime::{model_name, say, session, turn, within};
use crate::support::scratch::Scratch;

/// A store whose owner's lease is over, or not.
struct Leased {
    store: Arc<MemoryStore>,
    is_held: AtomicBool,
}

impl SessionStore for Leased {
    pass_on!(store: claim, load, append, release, list, delete);

    fn lease(&self, _session: &SessionId) -> StoreLease {
        match self.is_held.load(Ordering::SeqCst) {
            true => StoreLease::ForEver,
            false => StoreLease::Until(Some(Instant::now())),
        }
    }
}

/// The events of this name in the server's log, over all its processes.
fn events(folder: &Scratch, event: &str) -> usize {
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["event"] == event).count()
}

/// The file whose text is the result of the task.
fn result(folder: &Scratch) -> String {
    folder.join("result").display().to_string()
}

/// The task is done. The file is there with all of its text at once.
fn finish(folder: &Scratch) {
    std::fs::rename(folder.write("unfinished", "42"), result(folder)).expect("a file in this folder");
}

/// The time of a call that is to be over before its task is done, and long enough for the server to take the call.
const SHORT_MS: u64 = 3_000;

/// A runtime whose model begins a task, and whose calls may take this long.
async fn runtime(folder: &Scratch, tool_timeout_ms: u64) -> bob::Runtime {
    let (runtime, _store) = leased(folder, tool_timeout_ms).await;
    runtime
}

/// Such a runtime, and its store, whose lease may end.
async fn leased(folder: &Scratch, tool_timeout_ms: u64) -> (bob::Runtime, Arc<Leased>) {
    let store = Arc::new(Leased { store: MemoryStore::new(), is_held: AtomicBool::new(true) });
    let log = folder.join("log").display().to_string();
    let mut server = ServerSpec::stdio(ServerId::new("x"), AGENT, ["drill-server", "--newest", "--log", &log]);
    (server.required, server.tool_timeout_ms) = (true, Some(tool_timeout_ms));
    let call = ScriptedReply::call("mcp/x/later", json!({"path": result(folder)}));
    let model = ScriptedLlm::replies(vec![call, ScriptedReply::text("done")]);
    let builder = RuntimeBuilder::new(model_name()).permission_mode(PermissionMode::Auto).local_tools(false);
    let builder = builder.model(Arc::new(model)).tool_server(server).store(Arc::clone(&store) as Arc<dyn SessionStore>);
    (builder.build().await.expect("a runtime"), store)
}

async fn until(folder: &Scratch, event: &str) {
    within(async {
        while events(folder, event) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_done_in_time_is_the_result_of_its_call() {
    let folder = Scratch::new();
    let runtime = runtime(&folder, 600_000).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("go")).await }
    });
    until(&folder, "task asked").await;
    finish(&folder);
    let response = within(running).await.expect("it ends");
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "done"));
    let call = &response.tool_transcript[0];
    assert_eq!((call.status, call.result.as_str()), (CallStatus::Ok, "42"));
    assert_eq!((events(&folder, "call"), events(&folder, "task cancelled")), (1, 0));
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_has_its_task_cancelled() {
    let folder = Scratch::new();
    let runtime = runtime(&folder, 600_000).await;
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { turn(&runtime, say("go")).await }
    });
    until(&folder, "task asked").await;
    assert!(within(runtime.cancel(session("s"))).await);
    let response = within(running).await.expect("it ends");
    assert_eq!(response.finish_reason, FinishReason::Cancelled);
    assert_eq!(response.tool_transcript[0].status, CallStatus::Unknown, "the task may have done part of its work");
    until(&folder, "task cancelled").await;
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn going_on_to_something_else_has_the_task_cancelled() {
    let folder = Scratch::new();
    let runtime = runtime(&folder, SHORT_MS).await;
    let suspended = within(runtime.run(say("go"))).await.expect("it is taken");
    assert!(matches!(suspended, bob::AgentRunResult::Suspended { .. }), "{suspended:?}");
    let next = AgentRequest::text(session("s"), "never mind");
    let answered = within(runtime.run(next)).await.expect("it is taken");
    until(&folder, "task cancelled").await;
    drop(answered);
    within(runtime.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_lease_is_over_leaves_the_task_to_the_next_owner() {
    let folder = Scratch::new();
    let (runtime, store) = leased(&folder, SHORT_MS).await;
    let suspended = within(runtime.run(say("go"))).await.expect("it is taken");
    assert!(matches!(suspended, bob::AgentRunResult::Suspended { .. }), "{suspended:?}");
    store.is_held.store(false, Ordering::SeqCst);
    let next = AgentRequest::text(session("s"), "never mind");
    drop(within(runtime.run(next)).await.expect("it is taken"));
    // The end of the connection waits for what the server is told.
    within(runtime.shutdown()).await;
    assert_eq!(events(&folder, "task cancelled"), 0);
}

/// A folder in which the program begins such a task.
fn program(tool_timeout_ms: u64) -> Scratch {
    let folder = Scratch::new();
    configure(&folder, tool_timeout_ms);
    let call = json!({"calls": [{"name": "mcp/x/later", "arguments": {"path": result(&folder)}}]});
    folder.write("s.json", json!([{"replies": [call, {"text": "done"}]}]).to_string());
    folder
}

/// Calls may take this long.
fn configure(folder: &Scratch, tool_timeout_ms: u64) {
    folder.agent_toml(&format!(
        "[runtime]\ndefault_model = \"demo:one\"\non_restart = \"resume\"\n\
         [providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
         [store]\nkind = \"json\"\npath = \"sessions\"\n[policy]\nrequire_high_risk_approval = false\n\
         [[mcp.servers]]\nid = \"x\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\", \"--newest\", \"--log\", \"log\"]\n\
         tool_timeout_ms = {tool_timeout_ms}\n"
    ));
}

fn agent<'a>(folder: &Path, args: impl IntoIterator<Item = &'a str>) -> Program {
    Program::new(AGENT).dir(folder).deadline(Duration::from_secs(60)).args(["--config", "agent.toml"]).args(args)
}

fn outcome(run: &Run) -> Value {
    serde_json::from_str(run.stdout.trim()).unwrap_or_else(|_| panic!("no outcome: {run:?}"))
}

#[test]
fn another_process_asks_for_the_result_of_a_task_that_outlives_its_call() {
    let folder = program(SHORT_MS);
    let run = agent(folder.path(), ["run", "--session", "s", "--output", "json", "go"]).run();
    let suspended = outcome(&run);
    assert_eq!(suspended["finish_reason"], "suspended", "{}", run.stderr);
    let question = suspended["question"].as_str().expect("a question");
    assert!(question.contains("the result of the tool server's task"), "{question}");
    let token = suspended["token"].as_str().expect("a token");

    // It is not done: the turn is suspended again, with another token.
    let run = agent(folder.path(), ["resume", "--output", "json", token]).run();
    let still = outcome(&run);
    assert_eq!(still["finish_reason"], "suspended", "{}", run.stderr);
    assert_ne!(still["token"], suspended["token"]);

    finish(&folder);
    configure(&folder, 600_000);
    let token = still["token"].as_str().expect("a token");
    let run = agent(folder.path(), ["resume", "--output", "json", token]).run();
    let done = outcome(&run);
    assert_eq!((&done["finish_reason"], &done["content"]), (&json!("final"), &json!("done")), "{}", run.stderr);
    assert_eq!(done["tool_transcript"][0]["result"], "42");
    assert_eq!(events(&folder, "call"), 1, "the tool was called once");
    assert!(events(&folder, "task asked") >= 3, "each process asked");
    assert_eq!(events(&folder, "task cancelled"), 0);
}

#[test]
fn a_form_without_a_person_is_filled_in_by_the_reply_to_the_token() {
    let folder = program(600_000);
    let call = json!({"calls": [{"name": "mcp/x/ask", "arguments": {"rounds": 2}}]});
    folder.write("s.json", json!([{"replies": [call, {"text": "done"}]}]).to_string());
    let run = agent(folder.path(), ["run", "--session", "s", "--approvals", "suspend", "--output", "json", "go"]).run();
    let mut waits = outcome(&run);
    for (reply, is_last) in [("{\"name\": \"Grace\"}", false), ("Grace", false), ("decline", true)] {
        let question = waits["question"].as_str().unwrap_or_else(|| panic!("no question: {waits} {}", run.stderr));
        assert!(question.contains("question: What shall the drill use? ("), "{question}");
        let token = waits["token"].as_str().expect("a token");
        let run = agent(folder.path(), ["resume", "--output", "json", token, reply]).run();
        waits = outcome(&run);
        assert_eq!(waits["finish_reason"] == "final", is_last, "{reply}: {waits} {}", run.stderr);
    }
    let said = waits["tool_transcript"][0]["result"].as_str().expect("a result");
    assert!(said.contains("Grace") && said.contains("decline"), "{said}");
    assert_eq!(events(&folder, "call"), 3, "once for each round, and the first time");
}

#[test]
fn a_process_that_is_killed_leaves_the_task_to_the_next_one() {
    let folder = program(600_000);
    let killed = agent(folder.path(), ["run", "--session", "s", "go"]).spawn();
    // The server is asked once the journal has the name of the task.
    wait("a question about the task", || events(&folder, "task asked") > 0);
    killed.signal(rustix::process::Signal::KILL);
    assert_eq!(killed.finish().signal, Some(9));
    finish(&folder);
    let run = agent(folder.path(), ["run", "--session", "s", "--output", "json", "and then"]).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let shown = agent(folder.path(), ["sessions", "show", "s"]).run().stdout;
    assert!(shown.contains("42") && !shown.contains("outcome unknown"), "{shown}");
    // Of the turn that was killed, and of the one behind it.
    assert_eq!(events(&folder, "call"), 2, "each tool was called once");
}
