//! The ports to the person who decides about calls, and to what they decided for good.
//!
//! Whoever can show a question to somebody implements [`Approve`]. The sessions
//! supervisor asks it in a task of its own for each question, and drops that task when
//! somebody else decided first or the turn has ended. Nobody waits for it here.

use bob_messages::approvals::{ApprovalQuestion, Decision, Standing};
use bob_messages::ids::ToolName;
use bob_messages::tools::CheckRequest;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Somebody who decides about calls.
pub trait Approve: Send + Sync + 'static {
    /// Decides about one call. The future is dropped when the decision is no longer
    /// wanted; a panic in it denies.
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision>;
}

/// Who is asked about calls in a runtime; nobody, unless somebody is named. Then a
/// question waits for a decision that comes in another way, and for its time.
#[derive(Clone, Default)]
pub struct People(Option<Arc<dyn Approve>>);

impl People {
    /// This one is asked.
    pub fn new(person: Arc<dyn Approve>) -> Self {
        Self(Some(person))
    }

    /// Who is asked.
    pub fn asked(&self) -> Option<&Arc<dyn Approve>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("People").field(&self.0.is_some()).finish()
    }
}

/// What a user decided about tools for good, kept outside of any session.
///
/// The methods are called by actors: none may block. What must be written is written by a
/// task or a thread of the memory's own.
pub trait ApprovalMemory: Send + Sync + 'static {
    /// What was decided about this tool.
    fn recall(&self, tool: &ToolName) -> Vec<Arc<Standing>>;

    /// This was decided now; it is recalled from now on.
    fn keep(&self, standing: Arc<Standing>);

    /// Whether the user took this back, which the journal of a session has as decided for
    /// good. It then holds no longer in that session, either.
    fn is_taken_back(&self, standing: &Standing) -> bool {
        let _nothing_can_be_taken_back = standing;
        false
    }
}

/// The memory of a runtime; without one, what is decided for good holds in its session.
#[derive(Clone, Default)]
pub struct Memory(Option<Arc<dyn ApprovalMemory>>);

impl Memory {
    /// Remembers here.
    pub fn new(memory: Arc<dyn ApprovalMemory>) -> Self {
        Self(Some(memory))
    }

    /// Adds to the question what is remembered about its tool, and removes what was taken back.
    pub(crate) fn recalled(&self, mut check: CheckRequest) -> CheckRequest {
        if let Some(memory) = &self.0 {
            check.standing.retain(|standing| !(standing.for_good && memory.is_taken_back(standing)));
            check.standing.extend(memory.recall(&check.call.name));
        }
        check
    }

    pub(crate) fn keep(&self, standing: Arc<Standing>) {
        if let Some(memory) = &self.0 {
            memory.keep(standing);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory").field(&self.0.is_some()).finish()
    }
}
