//! The port to the person who decides about calls.
//!
//! Whoever can show a question to somebody implements [`Approve`]. The sessions
//! supervisor asks it in a task of its own for each question, and drops that task when
//! somebody else decided first or the turn has ended. Nobody waits for it here.

use bob_messages::approvals::ApprovalQuestion;
use bob_messages::sessions::Decision;
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
