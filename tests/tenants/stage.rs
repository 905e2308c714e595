//! A runtime with a tool of high risk that says for whom it ran.

use std::sync::{Arc, Mutex, PoisonError};

use bob::approvals::{ApprovalMemory, ApprovalPort, ApprovalQuestion, ApprovalsMode, Decision, Standing};
use bob::context::{Identity, RequestContext};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::{FnTool, Invocation, Risk, ToolName, tool};
use bob::{AgentRequest, RuntimeBuilder};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::support::runtime::{Nothing, asking, session};

/// What was seen, in order.
pub(crate) struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Seen<T> {
    pub(crate) fn push(&self, one: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) fn context(tenant: &str, principal: &str) -> RequestContext {
    RequestContext::of_tenant(tenant).principal(principal)
}

/// A request whose calls wait for a decision.
pub(crate) fn asks(id: &str, context: RequestContext) -> AgentRequest {
    let request = AgentRequest::text(session(id), "pay").context(context);
    AgentRequest { approvals: ApprovalsMode::Wait, ..request }
}

/// A tool of high risk.
pub(crate) fn pay(paid: &Seen<Option<Arc<RequestContext>>>) -> FnTool {
    let paid = paid.clone();
    let run = move |_: Nothing, call: Invocation| {
        paid.push(call.context.context.clone());
        async move { Ok("paid") }
    };
    tool("bank/pay", "Pays.", run).risk(Risk::High)
}

/// A builder over a model that pays once in every turn.
pub(crate) fn paying(paid: &Seen<Option<Arc<RequestContext>>>) -> RuntimeBuilder {
    let replies = vec![ScriptedReply::call("bank/pay", json!({})), ScriptedReply::text("done")];
    asking(ScriptedLlm::replies(replies)).local_tools(false).tools(Arc::new(pay(paid)))
}

/// Decides about each question in the same way, and keeps them.
pub(crate) struct Person {
    pub(crate) says: Decision,
    pub(crate) asked: Seen<ApprovalQuestion>,
}

impl Person {
    /// The port, and the questions that it is asked.
    pub(crate) fn saying(says: Decision) -> (Arc<dyn ApprovalPort>, Seen<ApprovalQuestion>) {
        let asked = Seen::default();
        (Arc::new(Self { says, asked: asked.clone() }), asked)
    }
}

impl ApprovalPort for Person {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        self.asked.push(question);
        Box::pin(std::future::ready(self.says.clone()))
    }
}

/// Keeps decisions of all identities. With `leaks` it returns all of them to everybody, as a defective store would.
#[derive(Default)]
pub(crate) struct Notebook {
    pub(crate) kept: Mutex<Vec<Arc<Standing>>>,
    pub(crate) leaks: bool,
}

impl ApprovalMemory for Notebook {
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = |one: &&Arc<Standing>| one.tool == *tool && (self.leaks || one.identity == *identity);
        kept.iter().filter(theirs).cloned().collect()
    }

    fn keep(&self, standing: Arc<Standing>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(standing);
    }
}
