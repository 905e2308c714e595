//! Ports for human approval of tool calls and for the store of lasting decisions.
//!
//! The sessions supervisor runs [`ApprovalPort::approve`] in one task per question and aborts
//! that task when another decision arrives first or the turn ends.

use crate::panics::Panics;
use bob_messages::approvals::{ApprovalQuestion, Decision, LimitQuestion, Standing};
use bob_messages::context::Identity;
use bob_messages::ids::ToolName;
use bob_messages::mcp::{Elicitation, ElicitationAnswer};
use bob_messages::tools::{CallContext, CheckRequest, Verdict};
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Port for questions that only a person can answer. Every method has a default that declines, so a program
/// implements what it can show.
pub trait ApprovalPort: Send + Sync + 'static {
    /// Asks for approval of a call, in a turn whose request uses
    /// [`ApprovalsMode::Wait`](bob_messages::input::ApprovalsMode::Wait). Runs in its own task; several questions may be
    /// open at a time, also for one session.
    ///
    /// The first decision wins: this one, or `AgentRuntime::decide`. The future is
    /// dropped when another decision came first, when the question expires, or when the turn ends; after a crash of
    /// the turn's actor the question is asked again. A panic denies.
    ///
    /// Texts in the question come from the model and the tool; sanitise them before showing them in a terminal.
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        drop(question);
        let reason = "no approval is possible here".to_owned();
        Box::pin(std::future::ready(Decision::Deny { reason }))
    }

    /// Asks whether a turn goes on that reached one of its limits, if its request has
    /// `AgentRequest::ask_at_limits`. With `true` the turn has as much of that limit again; else it
    /// ends, as it does after [`approval_timeout_ms`](bob_messages::limits::Limits::approval_timeout_ms) without an answer.
    /// The future is dropped when `AgentRuntime::decide` was first, when a turn without
    /// progress makes some, or when the turn ends. A panic ends the turn. The default is no.
    fn go_on(&self, question: LimitQuestion) -> BoxFuture<'_, bool> {
        drop(question);
        Box::pin(std::future::ready(false))
    }

    /// Answers a form of a few flat fields that a tool server requests during a call. Its texts come from the server;
    /// sanitise them before showing them in a terminal. The future is dropped when the server withdraws the request
    /// or ends, or after ten minutes without an answer. Fields left out of an accepted form get the defaults of its
    /// schema. Without the feature `mcp` no server asks.
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        drop(question);
        Box::pin(std::future::ready(ElicitationAnswer::Decline))
    }
}

/// The runtime's approval port, if one is configured. Without a port, a question waits
/// until a decision is submitted or its deadline passes.
#[derive(Clone, Default)]
pub struct Approver(Option<Arc<dyn ApprovalPort>>);

impl Approver {
    /// Uses this port.
    pub fn new(person: Arc<dyn ApprovalPort>) -> Self {
        Self(Some(person))
    }

    /// Returns the port, if one is configured.
    pub fn port(&self) -> Option<&Arc<dyn ApprovalPort>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Approver").field(&self.0.is_some()).finish()
    }
}

/// A store of lasting decisions about tools, kept outside of sessions.
///
/// A decision belongs to the [`Identity`] in it. The runtime applies it to requests of that tenant and principal only,
/// and drops any other that the store returns.
///
/// Actors call these methods, so none may block: implementations write in a task or a thread of their own. After a
/// panic in `recall` or `is_taken_back` the call about which they were asked is not run, since a denial may be among what is
/// not known then, and a question about it that was asked before stays open; a panic in `keep` is logged, and the decision applies to its session only.
pub trait ApprovalMemory: Send + Sync + 'static {
    /// Returns the decisions about this tool that belong to this identity.
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>>;

    /// Adds a decision; later calls of `recall` return it.
    fn keep(&self, standing: Arc<Standing>);

    /// Returns whether the user has revoked this decision. A revoked decision no longer
    /// applies in a session whose journal records it as lasting.
    fn is_taken_back(&self, standing: &Standing) -> bool {
        let _not_revocable_by_default = standing;
        false
    }
}

/// The runtime's [`ApprovalMemory`]; without one, a lasting decision applies to its session only.
#[derive(Clone, Default)]
pub struct Memory(Option<Arc<Port>>);

struct Port {
    memory: Arc<dyn ApprovalMemory>,
    panics: Panics,
}

impl Memory {
    /// Uses this store.
    pub fn new(memory: Arc<dyn ApprovalMemory>) -> Self {
        Self(Some(Arc::new(Port { memory, panics: Panics::of("approval memory") })))
    }

    /// Adds the remembered decisions about the tool to the request and removes revoked ones, and those of others.
    /// Errors: why the call is not judged, if the store panicked. A question about it that a person looks at stays
    /// open.
    pub(crate) fn recalled(&self, mut check: CheckRequest, context: &CallContext) -> Result<CheckRequest, Verdict> {
        let context = context.context.as_deref();
        if let Some(Port { memory, panics }) = self.0.as_deref() {
            let standing = std::mem::take(&mut check.standing);
            let known = panics.catch("recall", || {
                let holds = |one: &Arc<Standing>| !(one.for_good && memory.is_taken_back(one));
                let recalled = memory.recall(&check.call.name, &Identity::of(context));
                standing.into_iter().filter(holds).chain(recalled).collect()
            });
            let why = "not run: the memory of approvals panicked, so it is not known what was decided about the tool";
            check.standing = known.ok_or_else(|| Verdict::Unavailable { why: why.to_owned() })?;
        }
        check.standing.retain(|standing| standing.identity.is_of(context));
        Ok(check)
    }

    pub(crate) fn keep(&self, standing: Arc<Standing>) {
        if let Some(Port { memory, panics }) = self.0.as_deref() {
            let _kept_by_its_session = panics.catch("keep", || memory.keep(standing));
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory").field(&self.0.is_some()).finish()
    }
}
