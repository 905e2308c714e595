//! Ports for human approval of tool calls and for the store of lasting decisions.
//!
//! The sessions supervisor runs [`Approve::approve`] in one task per question and aborts
//! that task when another decision arrives first or the turn ends.

use crate::panics::Panics;
use bob_messages::approvals::{ApprovalQuestion, Decision, LimitQuestion, Standing};
use bob_messages::context::Identity;
use bob_messages::ids::ToolName;
use bob_messages::tools::{CallContext, CheckRequest, Verdict};
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Decides about tool calls, usually by asking a person.
pub trait Approve: Send + Sync + 'static {
    /// Decides about one call. The future is dropped when the decision is no longer
    /// needed; a panic in it denies the call.
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision>;

    /// Decides whether a turn goes on beyond a limit; by default it ends. The future is dropped when the decision is no
    /// longer needed; a panic in it ends the turn.
    fn go_on(&self, question: LimitQuestion) -> BoxFuture<'_, bool> {
        drop(question);
        Box::pin(std::future::ready(false))
    }
}

/// The runtime's approval port, if one is configured. Without a port, a question waits
/// until a decision is submitted or its deadline passes.
#[derive(Clone, Default)]
pub struct Approver(Option<Arc<dyn Approve>>);

impl Approver {
    /// Uses this port.
    pub fn new(person: Arc<dyn Approve>) -> Self {
        Self(Some(person))
    }

    /// Returns the port, if one is configured.
    pub fn port(&self) -> Option<&Arc<dyn Approve>> {
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

/// The port, with its panics.
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
    ///
    /// # Errors
    /// Why the call is not judged, if the store panicked. A question about it that a person looks at stays open.
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
