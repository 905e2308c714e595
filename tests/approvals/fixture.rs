//! A runtime with one tool that needs approval and counts its runs, and scripted approvers.

use std::sync::{Arc, Mutex, PoisonError};

use bob::approvals::{ApprovalId, ApprovalPort, ApprovalQuestion, ApprovalsMode, Decision};
use bob::events::AgentEvent;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::{FnTool, Risk, ToolOutput, tool};
use bob::{AgentRequest, RuntimeBuilder};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::runtime::{Recorder, asking, say};

/// The arguments with which the tool ran, in order.
#[derive(Clone, Default)]
pub(crate) struct Ran(Arc<Mutex<Vec<i64>>>);

impl Ran {
    pub(crate) fn with(&self) -> Vec<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, a: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(a);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pay {
    a: i64,
}

/// A tool of high risk.
pub(crate) fn pay(ran: &Ran, description: &str) -> FnTool {
    let ran = ran.clone();
    tool("test/pay", description, move |pay: Pay, _| {
        ran.note(pay.a);
        async move { Ok(ToolOutput::text("paid")) }
    })
    .title("Pay")
    .risk(Risk::High)
}

/// A model that calls the tool with each amount in a separate step, in every turn, and then reports the result.
pub(crate) fn paying(amounts: &[i64]) -> ScriptedLlm {
    let mut replies: Vec<_> = amounts.iter().map(|a| ScriptedReply::call("test/pay", json!({"a": a}))).collect();
    replies.push(ScriptedReply::text("done"));
    ScriptedLlm::replies(replies)
}

/// A builder over that model and tool.
pub(crate) fn builder(amounts: &[i64], ran: &Ran) -> RuntimeBuilder {
    asking(paying(amounts)).local_tools(false).tools(Arc::new(pay(ran, "Pays.")))
}

/// A message whose calls wait for a person.
pub(crate) fn waiting(text: &str) -> AgentRequest {
    AgentRequest { approvals: ApprovalsMode::Wait, ..say(text) }
}

/// Waits for the question with this number.
pub(crate) async fn question(seen: &Recorder, number: usize) -> ApprovalId {
    seen.seen_times(number, |event| matches!(event, AgentEvent::ApprovalRequested { .. })).await;
    let mut asked = seen.events().into_iter().filter_map(|event| match event.event {
        AgentEvent::ApprovalRequested { approval_id, .. } => Some(approval_id),
        _ => None,
    });
    asked.nth(number - 1).unwrap()
}

pub(crate) fn deny(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}

pub(crate) fn edit(arguments: Value) -> Decision {
    Decision::Edit { arguments }
}

/// An approver with scripted decisions, and the questions it received.
pub(crate) struct Person {
    says: Mutex<Vec<Decision>>,
    asked: mpsc::UnboundedSender<ApprovalQuestion>,
}

/// The person, and the questions as they come.
pub(crate) fn person(says: &[Decision]) -> (Arc<dyn ApprovalPort>, mpsc::UnboundedReceiver<ApprovalQuestion>) {
    let (asked, questions) = mpsc::unbounded_channel();
    (Arc::new(Person { says: Mutex::new(says.to_vec()), asked }), questions)
}

impl ApprovalPort for Person {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        let mut says = self.says.lock().unwrap_or_else(PoisonError::into_inner);
        let said = (!says.is_empty()).then(|| says.remove(0));
        let _nobody_reads = self.asked.send(question);
        match said {
            Some(said) => Box::pin(std::future::ready(said)),
            None => Box::pin(std::future::pending()),
        }
    }
}
