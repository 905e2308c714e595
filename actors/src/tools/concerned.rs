//! What a tool found when its calls were judged, to be found again when they run.
//!
//! Between the two another call of the same step may have run, and have led a path elsewhere. A call runs if there is
//! nothing to ask about it then, or what was asked about is what there is.

use super::port::{Concern, ToolError};
use bob_messages::chat::ToolCall;
use bob_messages::ids::{CallId, SessionId};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many concerns are kept. A call whose concern was dropped is judged again.
const MOST: usize = 1024;

/// The concerns about calls that were judged and have not run. Most calls have none.
#[derive(Debug, Default)]
pub(super) struct Concerned(Mutex<VecDeque<(SessionId, CallId, Concern)>>);

impl Concerned {
    /// A call was judged, perhaps again.
    pub(super) fn judged(&self, session: &SessionId, call: &CallId, concern: Option<&Concern>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, id, _)| (of, id) != (session, call));
        if let Some(concern) = concern {
            kept.push_back((session.clone(), call.clone(), concern.clone()));
            if kept.len() > MOST {
                kept.pop_front();
            }
        }
    }

    /// Lets a call through that runs now, with what is found now.
    ///
    /// # Errors
    /// When that is not what was found when it was judged.
    pub(super) fn runs(&self, session: &SessionId, call: &ToolCall, found: Option<Concern>) -> Result<(), ToolError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(of, id, _)| (of, id) == (session, &call.id));
        let before = at.and_then(|at| kept.remove(at)).map(|(_, _, concern)| concern);
        match found {
            None => Ok(()),
            Some(Concern::Ask(why)) if before == Some(Concern::Ask(why.clone())) => Ok(()),
            Some(Concern::Ask(why)) => Err(ToolError::new(format!(
                "not run: it {why}, which was not so when it was allowed; call it again to have a person asked"
            ))),
            Some(Concern::Deny(why) | Concern::Unknown(why)) => Err(ToolError::new(format!("not run: {why}"))),
        }
    }
}
