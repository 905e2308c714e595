//! Models that play several agents.

use std::sync::{Arc, Mutex};

use bob::model::{LlmRequest, ScriptedCall, ScriptedLlm, ScriptedReply};
use bob::sessions::{SessionFilter, SessionSummary};
use bob::tools::{Invocation, ToolError, tool};
use bob::{AgentRuntime, Runtime, RuntimeBuilder, SessionId};
use serde_json::{Value, json};

use crate::support::runtime::{over, within};

/// What a model was asked.
pub(crate) type Asked = Arc<Mutex<Vec<LlmRequest>>>;

/// A runtime without local tools over a model that answers by who is asked: the instructions say it, and what is asked is
/// kept.
pub(crate) fn playing(
    play: impl Fn(&str, &LlmRequest) -> ScriptedReply + Send + Sync + 'static,
) -> (RuntimeBuilder, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        let who = request.system.split_once("You are ").map_or("root", |(_, who)| who.split('.').next().unwrap());
        play(who, request)
    });
    (over(model).local_tools(false), asked)
}

/// Several calls in one reply.
pub(crate) fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> ScriptedReply {
    let call = |(name, arguments): (&str, Value)| ScriptedCall { name: name.to_owned(), arguments };
    ScriptedReply::Calls(calls.into_iter().map(call).collect())
}

/// A call of an agent.
pub(crate) fn asks(agent: &str, task: &str) -> ScriptedReply {
    ScriptedReply::call(format!("agent/{agent}"), json!({"task": task}))
}

/// An agent that knows its name.
pub(crate) fn agent(name: &str) -> bob::Agent {
    bob::Agent::new(name).instructions(format!("You are {name}."))
}

/// What the newest message says to the model.
pub(crate) fn last(request: &LlmRequest) -> String {
    format!("{:?}", request.messages.last().unwrap())
}

/// The sessions that work for a session.
pub(crate) async fn children(runtime: &Runtime, of: &SessionId) -> Vec<SessionSummary> {
    let filter = SessionFilter { parent: Some(of.clone()), ..SessionFilter::default() };
    within(runtime.sessions(filter, None)).await.unwrap().sessions
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

/// A tool that does nothing and reads only.
pub(crate) fn look(name: &str) -> Arc<dyn bob::tools::ToolPort> {
    let nothing = |_: Nothing, _: Invocation| async { Ok::<_, ToolError>("seen") };
    Arc::new(tool(name, "Looks.", nothing).read_only())
}

/// A tool that changes something.
pub(crate) fn change(name: &str) -> Arc<dyn bob::tools::ToolPort> {
    let nothing = |_: Nothing, _: Invocation| async { Ok::<_, ToolError>("changed") };
    Arc::new(tool(name, "Changes.", nothing))
}
