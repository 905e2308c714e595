//! What a tool's call knows of its turn: the approvals mode, what is left of the limits, its depth, and its runtime.

use std::sync::Arc;

use bob::approvals::ApprovalsMode;
use bob::config::Limits;
use bob::context::RequestContext;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{ParentTurn, SessionOptions, TurnId};
use bob::tools::{CallContext, CallId, Invocation, ToolError, tool};
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime};
use serde_json::json;

use crate::support::runtime::{Nothing, build, over, say, scripted, session, turn, within};
use crate::tenants::stage::{Seen, context};

/// A builder over a model that calls `agent/child` in each turn, which has a child session do the same down to a depth.
fn nesting(most: u32, seen: &Seen<CallContext>) -> bob::RuntimeBuilder {
    let seen = seen.clone();
    let child = tool("agent/child", "Has another session do it.", move |_: Nothing, call: Invocation| {
        seen.push((*call.context).clone());
        async move {
            if call.context.depth >= most {
                return Ok("the bottom".to_owned());
            }
            let runtime = Runtime::of(&call).ok_or_else(|| ToolError::new("the runtime has ended"))?;
            let id = format!("{}.{}", call.context.session, call.call.id);
            let result = runtime.run(AgentRequest::for_call(&call, session(&id), "go on")).await?;
            Ok(result.response().content.clone())
        }
    });
    let replies = vec![ScriptedReply::call("agent/child", json!({})), ScriptedReply::text("done")];
    over(ScriptedLlm::replies(replies)).local_tools(false).tools(Arc::new(child))
}

#[tokio::test]
async fn a_call_knows_its_budget_and_depth_and_its_runtime_and_hands_them_to_a_child() {
    let seen = Seen::default();
    let runtime = build(nesting(2, &seen)).await;
    let limits = Limits { max_steps: 9, max_tool_calls: 5, turn_timeout_ms: 60_000, ..Limits::default() };
    let own = context("acme", "ann").label("region", "eu");
    let request = AgentRequest { limits: Some(limits), approvals: ApprovalsMode::Suspend, ..say("go") };
    turn(&runtime, request.context(own.clone())).await;
    let calls = seen.take();
    assert_eq!(calls.iter().map(|call| call.depth).collect::<Vec<_>>(), [0, 1, 2]);
    // Each level has used one step and one call of what was left.
    assert_eq!(
        calls.iter().map(|call| (call.left.steps, call.left.tool_calls)).collect::<Vec<_>>(),
        [(8, 4), (7, 3), (6, 2)]
    );
    for call in &calls {
        assert_eq!(call.approvals, ApprovalsMode::Suspend);
        assert_eq!(call.context.as_deref(), Some(&own), "inherited at each depth");
        assert!((1..=60_000).contains(&call.left.time_ms) && call.left.tokens.is_none(), "{:?}", call.left);
    }
    let child = within(runtime.session(session("s.c00000001"))).await.unwrap().expect("a child");
    assert_eq!(child.options.parent.map(|parent| (parent.session, parent.depth)), Some((session("s"), 1)));
}

#[tokio::test]
async fn a_runtime_is_not_kept_by_its_calls() {
    let (kept, keep) = (Seen::default(), Seen::<Invocation>::default());
    let keeping = keep.clone();
    let run = move |_: Nothing, call: Invocation| {
        keeping.push(call);
        async { Ok("kept") }
    };
    let replies = vec![ScriptedReply::call("test/keep", json!({})), ScriptedReply::text("done")];
    let tools = Arc::new(tool("test/keep", "Keeps its call.", run));
    let runtime = build(over(ScriptedLlm::replies(replies)).local_tools(false).tools(tools)).await;
    turn(&runtime, say("go")).await;
    let call = keep.take().remove(0);
    kept.push(Runtime::of(&call).is_some());
    within(runtime.shutdown()).await;
    drop(runtime);
    assert!(Runtime::of(&call).is_none());
    assert_eq!(kept.take(), [true]);
}

#[tokio::test]
async fn a_child_without_a_context_takes_over_that_of_its_parents_turn() {
    let seen = Seen::default();
    let runtime = build(nesting(0, &seen)).await;
    let parent = |turn: &TurnId| SessionOptions {
        parent: Some(ParentTurn {
            session: session("s"),
            turn: turn.clone(),
            call: CallId::new("c1"),
            depth: 1,
            line: None,
            on_parent_end: None,
        }),
        ..SessionOptions::default()
    };
    // The parent waits for an answer, so that its turn is open.
    let ask = ScriptedReply::call("ask_user", json!({"question": "which?"}));
    let asking = build(scripted(vec![ask])).await;
    let own = context("acme", "ann");
    let open = within(asking.run(say("go").context(own.clone()))).await.unwrap().response().turn_id.clone();
    let child = || AgentRequest::text(session("child"), "do it");
    within(asking.run(AgentRequest { options: Some(parent(&open)), ..child() })).await.unwrap();
    let look = within(asking.session(session("child"))).await.unwrap().unwrap();
    assert_eq!(look.options.tenant, own.tenant, "it belongs to the parent's tenant");
    // Of a turn that is over, the context is not known: nothing runs without one.
    let gone = AgentRequest { options: Some(parent(&TurnId::new("gone"))), session: session("other"), ..child() };
    let refused = within(asking.run(gone)).await.unwrap_err();
    assert!(matches!(&refused, AgentError::Invalid(text) if text.contains("give the request a context")), "{refused}");
    // Where there is no tenant, a child has none.
    turn(&runtime, AgentRequest { options: Some(parent(&TurnId::new("x"))), ..child() }).await;
    assert_eq!(seen.take()[0].context.as_deref(), None::<&RequestContext>);
}
