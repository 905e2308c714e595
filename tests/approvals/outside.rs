//! A tool whose result comes from outside: by the token of the suspended turn, in another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, ResumeReply, SuspendReason};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRunResult, AgentRuntime, RuntimeBuilder};
use serde_json::json;

use crate::support::runtime::{build, ended, file_store, over, say, within};
use crate::support::scratch::Scratch;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    what: String,
}

/// A model that orders something and reports the result, and the tool, which counts its runs.
fn builder(ran: &Arc<AtomicUsize>) -> RuntimeBuilder {
    let ran = Arc::clone(ran);
    let order = tool("test/order", "Orders something.", move |order: Order, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        async move { Ok(ToolOutput::waits_for(format!("the delivery of {}", order.what))) }
    });
    let call = ScriptedReply::call("test/order", json!({"what": "a door"}));
    let model = ScriptedLlm::replies(vec![call, ScriptedReply::text("done")]);
    over(model).local_tools(false).tools(Arc::new(order))
}

#[tokio::test]
async fn a_result_from_outside_comes_by_the_token_and_the_tool_runs_once() {
    let (ran, folder) = (Arc::new(AtomicUsize::new(0)), Scratch::new());
    let before = build(builder(&ran).store(file_store(folder.path()))).await;
    let suspended = within(before.run(say("a door, please"))).await.unwrap();
    let AgentRunResult::Suspended { reason, token, question, .. } = suspended else { panic!("{suspended:?}") };
    assert_eq!((reason, question.as_str()), (SuspendReason::ExternalWait, "the delivery of a door"));
    ended(before).await;

    let after = build(builder(&ran).store(file_store(folder.path()))).await;
    let came = within(after.resume(token, ResumeReply::Answer("it is oak".into()))).await.unwrap();
    let AgentRunResult::Finished(response) = came else { panic!("{came:?}") };
    assert_eq!((response.finish_reason, response.content.as_str()), (FinishReason::Final, "done"));
    assert_eq!(response.tool_transcript[0].result, "it is oak");
    assert_eq!(ran.load(Ordering::SeqCst), 1, "it was ordered once");
    within(after.shutdown()).await;
}
