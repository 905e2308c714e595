//! What was found when calls were judged, to be found again when they run.
//!
//! Between the two another call of the same step may have run, and have led a path elsewhere. A call runs if there is
//! nothing to ask about it then, or what was asked about is what there is.

use super::port::{Concern, ToolError};
use bob_messages::chat::ToolCall;
use bob_messages::ids::{CallId, SessionId};
use bob_messages::tools::CheckRequest;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Of how many calls something is kept.
const MOST: usize = 1024;

/// What is kept about calls that were judged and have not run; the oldest goes when there are too many.
#[derive(Debug)]
pub(super) struct PerCall<T>(Mutex<VecDeque<(SessionId, CallId, T)>>);

impl<T> Default for PerCall<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerCall<T> {
    pub(super) fn put(&self, session: &SessionId, call: &CallId, what: T) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, id, _)| (of, id) != (session, call));
        if kept.len() >= MOST {
            kept.pop_front();
        }
        kept.push_back((session.clone(), call.clone(), what));
    }

    pub(super) fn take(&self, session: &SessionId, call: &CallId) -> Option<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(of, id, _)| (of, id) == (session, call))?;
        kept.remove(at).map(|(_, _, what)| what)
    }
}

/// How calls were judged about whose paths there are rules, and what was found then of where these lead.
pub(super) type Led = PerCall<(CheckRequest, Option<Concern>)>;

/// Why a call does not run about which there is something now that was not there when it was judged.
pub(super) fn refused(before: Option<Concern>, now: Option<Concern>) -> Option<String> {
    match now {
        None => None,
        Some(Concern::Ask(why)) if before == Some(Concern::Ask(why.clone())) => None,
        Some(Concern::Ask(why)) => {
            Some(format!("it {why}, which was not so when it was allowed; call it again to have a person asked"))
        }
        Some(Concern::Deny(why) | Concern::Unknown(why)) => Some(why),
    }
}

/// The concerns of one tool about its calls. Most calls have none.
#[derive(Debug, Default)]
pub(super) struct Concerned(PerCall<Concern>);

impl Concerned {
    /// A call was judged, perhaps again.
    pub(super) fn judged(&self, session: &SessionId, call: &CallId, concern: Option<&Concern>) {
        match concern {
            Some(concern) => self.0.put(session, call, concern.clone()),
            None => drop(self.0.take(session, call)),
        }
    }

    /// Lets a call through that runs now, with what is found now.
    ///
    /// # Errors
    /// When that is not what was found when it was judged.
    pub(super) fn runs(&self, session: &SessionId, call: &ToolCall, now: Option<Concern>) -> Result<(), ToolError> {
        let before = self.0.take(session, &call.id);
        match refused(before, now) {
            Some(why) => Err(ToolError::new(format!("not run: {why}"))),
            None => Ok(()),
        }
    }
}
