//! A process is killed within a call; the next one has the context that the request had.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bob::context::RequestContext;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::{Invocation, tool};
use bob::{AgentError, AgentRequest, AgentRuntime, RuntimeBuilder};
use serde_json::json;

use crate::support::runtime::{Nothing, build, file_store, over, say, session, turn, within};
use crate::tenants::stage::Seen;

/// The folder of the store, for the process that is killed.
const FOLDER: &str = "TENANTS_KILLED_IN";

/// What that process says when its call has begun.
const BEGUN: &str = "the call has begun";

fn full() -> RequestContext {
    let context = RequestContext::of_tenant("acme").principal("ann").label("region", "eu").secret("crm/token");
    context.data(&json!({"seats": [1, {"since": 2020}]})).unwrap()
}

type Contexts = Seen<(Option<Arc<RequestContext>>, u32)>;

/// A builder over a model that calls a tool that may be repeated. With `stays`, the call never ends.
fn builder(folder: &Path, contexts: &Contexts, stays: bool) -> RuntimeBuilder {
    let contexts = contexts.clone();
    let run = move |_: Nothing, call: Invocation| {
        contexts.push((call.context.context.clone(), call.context.left.steps));
        async move {
            if stays {
                let mut out = std::io::stdout();
                writeln!(out, "\n{BEGUN}")?;
                out.flush()?;
                std::future::pending::<()>().await;
            }
            Ok("done")
        }
    };
    let replies = vec![ScriptedReply::call("test/work", json!({})), ScriptedReply::text("finished")];
    let tools = Arc::new(tool("test/work", "Works.", run).idempotent());
    over(ScriptedLlm::replies(replies)).local_tools(false).tools(tools).store(file_store(folder))
}

/// The process that [`a_turn_of_a_killed_process_is_finished_with_its_context`] starts and kills. Without the folder, as in a
/// run of all tests, there is nothing to do.
#[tokio::test]
async fn runs_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = build(builder(Path::new(&folder), &Seen::default(), true)).await;
    let _never = runtime.run(say("work").context(full())).await;
}

#[tokio::test]
async fn a_turn_of_a_killed_process_is_finished_with_its_context() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["tenants::killed::runs_until_it_is_killed", "--exact", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = BufReader::new(child.stdout.take().unwrap()).lines().any(|line| line.is_ok_and(|line| line == BEGUN));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(begun && !status.success(), "it was killed within its call: {status}");

    let contexts = Seen::default();
    let runtime = build(builder(folder.path(), &contexts, false)).await;
    let results = within(runtime.finish(session("s"))).await.unwrap();
    assert_eq!(results[0].response().content, "finished");
    let limits = bob::config::Limits::default();
    assert_eq!(contexts.take(), [(Some(Arc::new(full())), limits.max_steps - 1)], "the call was made again, as before");
    // And the session still belongs to its tenant.
    let other = say("hi").context(RequestContext::of_tenant("globex"));
    assert!(matches!(within(runtime.run(other)).await, Err(AgentError::Invalid(text)) if text.contains("tenant")));
    turn(&runtime, AgentRequest { session: session("s"), ..say("more") }.context(full())).await;
}
