//! Errands: changes of a session's options, which are no turns.
//!
//! They need no place, have no clock and wait for no turn. A session without an actor gets
//! one for them, which begins nothing. Whoever asked is told once, also when the actor ends
//! in between: it is said again to the next one, which knows it by its name.

use super::admit::closing;
use super::{Myself, SessionsState};
use crate::guests::Errand;
use bob_messages::brief::Brief;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::turn::TurnMessage;
use std::sync::Arc;

/// How many changes of one session may be on their way.
const MOST_ERRANDS: usize = 16;

/// How often an actor is started again for errands alone.
const MOST_RESTARTS: u32 = 3;

impl SessionsState {
    pub(super) fn configure(&mut self, session: &SessionId, errand: Errand, brief: &Arc<Brief>, myself: &Myself) {
        if self.draining.is_some() {
            return errand.reply.send(Err(closing()));
        }
        let guest = self.book.entry(session, brief);
        if guest.errands.len() >= MOST_ERRANDS {
            let text = format!("{MOST_ERRANDS} changes of the session's options are on their way; wait for them");
            return errand.reply.send(Err(AgentError::Busy(text)));
        }
        guest.brief = Arc::clone(brief);
        let message = TurnMessage::Configure { asked: Arc::clone(&errand.asked), brief: Arc::clone(brief) };
        guest.errands.push(errand);
        // What comes while an actor leaves is said to the next one.
        if guest.leaving.is_none() {
            if guest.actor.is_none() {
                self.open(session, myself);
            }
            self.say(session, message);
        }
    }

    pub(super) fn configured(
        &mut self,
        session: &SessionId,
        request_id: &RequestId,
        result: &Result<(), AgentError>,
        myself: &Myself,
    ) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let (done, left) = std::mem::take(&mut guest.errands)
            .into_iter()
            .partition::<Vec<_>, _>(|errand| errand.asked.request_id == *request_id);
        guest.errands = left;
        if guest.running().is_none() {
            guest.crashes = 0;
        }
        for errand in done {
            errand.reply.send(result.clone());
        }
        self.rest(session, myself);
        self.tell_drained();
    }

    /// Says to a new actor what the one before it was told.
    pub(super) fn say_errands(&mut self, session: &SessionId) {
        let Some(guest) = self.book.get_mut(session) else { return };
        let brief = Arc::clone(&guest.brief);
        let asked: Vec<_> = guest.errands.iter().map(|errand| Arc::clone(&errand.asked)).collect();
        for asked in asked {
            self.say(session, TurnMessage::Configure { asked, brief: Arc::clone(&brief) });
        }
    }

    /// An actor has ended while no turn ran: one that had errands gets a successor, unless it
    /// died of them too often. Whether there is one.
    pub(super) fn run_errands_again(&mut self, session: &SessionId, myself: &Myself) -> bool {
        let Some(guest) = self.book.get_mut(session) else { return false };
        if guest.errands.is_empty() {
            return false;
        }
        if guest.crashes > MOST_RESTARTS {
            self.refuse_errands(session, "the session's actor crashed too often; try again");
            return false;
        }
        // Somebody let in meanwhile has started one.
        if guest.actor.is_none() {
            self.open(session, myself);
        }
        self.say_errands(session);
        true
    }

    pub(super) fn refuse_errands(&mut self, session: &SessionId, why: &str) {
        let errands = self.book.get_mut(session).map(|guest| std::mem::take(&mut guest.errands));
        for errand in errands.into_iter().flatten() {
            errand.reply.send(Err(AgentError::Internal(why.to_owned())));
        }
    }
}
