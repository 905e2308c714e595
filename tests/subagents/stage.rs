//! Models that play several agents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bob::model::{LlmRequest, ScriptedCall, ScriptedLlm, ScriptedReply};
use bob::sessions::{SessionFilter, SessionSummary};
use bob::store::{MemoryStore, SessionStore};
use bob::tools::{Invocation, ToolError, ToolPort, tool};
use bob::{AgentRuntime, Runtime, RuntimeBuilder, SessionId};
use bob_messages::store::Append;
use serde_json::{Value, json};
use tokio::sync::Notify;

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

/// A tool that waits for a word, and counts how often it ran to its end.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) entered: Arc<Notify>,
    pub(crate) opened: Arc<Notify>,
    pub(crate) passed: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn tool(&self) -> Arc<dyn ToolPort> {
        self.named("own/gate")
    }

    pub(crate) fn named(&self, name: &str) -> Arc<dyn ToolPort> {
        let gate = self.clone();
        let wait = move |_: Nothing, _: Invocation| {
            let gate = gate.clone();
            async move {
                gate.entered.notify_one();
                gate.opened.notified().await;
                gate.passed.fetch_add(1, Ordering::SeqCst);
                Ok::<_, ToolError>("passed")
            }
        };
        Arc::new(tool(name, "Waits.", wait).idempotent())
    }

    /// A tool that waits until another one is at the gate.
    pub(crate) fn met(&self) -> Arc<dyn ToolPort> {
        let entered = Arc::clone(&self.entered);
        let wait = move |_: Nothing, _: Invocation| {
            let entered = Arc::clone(&entered);
            async move {
                entered.notified().await;
                Ok::<_, ToolError>("met")
            }
        };
        Arc::new(tool("own/met", "Meets another one.", wait))
    }
}

pub(crate) fn names(request: &LlmRequest) -> Vec<&str> {
    request.tools.tools().iter().map(|tool| tool.id.as_str()).collect()
}

/// What a kill of the program would leave now of a session and those that work for it: the journals as they are.
pub(crate) async fn left_of(runtime: &Runtime, store: &Arc<MemoryStore>, of: &SessionId) -> Arc<MemoryStore> {
    let left = MemoryStore::new();
    let mut all: Vec<_> = children(runtime, of).await.into_iter().map(|child| child.session).collect();
    all.push(of.clone());
    for id in all {
        let records = within(store.load(&id)).await.unwrap();
        let epoch = within(left.claim(&id)).await.unwrap().epoch;
        within(left.append(vec![Append { session: id.clone(), epoch, expected_version: 0, records }])).await;
        within(left.release(&id, epoch)).await;
    }
    left
}
