//! A request that was answered long ago and is asked again: its outcome is looked up in the journal.
//!
//! A live session has the newest outcomes at hand and of older requests only the names ([`Session::has_forgotten`]).
//! The lookup is a claim like the first one, made while nothing is on its way to the store.

use super::accept::refuse;
use super::start::Arrival;
use super::state::State;
use super::{Effect, Turn};
use crate::error::AgentError;
use crate::session::{Session, TurnInput};
use crate::store::Record;
use std::sync::Arc;

impl Turn {
    /// Reads the journal again for this input; a session that is busy says so.
    pub(super) fn look_up(&mut self, input: Arc<TurnInput>, effects: &mut Vec<Effect>) {
        let is_quiet = matches!(self.state, State::Idle)
            && self.journal.is_settled()
            && self.accepting.is_empty()
            && self.withdrawing.is_empty();
        if !is_quiet {
            // What the store did not take goes again: it would be waited for in vain.
            self.flush(effects);
            let text =
                "a request of this request_id was answered long ago; its outcome is read again when nothing runs";
            return refuse(&input.turn, AgentError::Busy(text.into()), effects);
        }
        self.session = None;
        self.arrivals.push(Arrival::Input(input));
        self.claim(effects);
    }

    /// The journal was read: who asked for an outcome that the session does not keep is told it.
    pub(super) fn tell_forgotten(&mut self, records: &[Arc<Record>], effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let request_of = |arrival: &Arrival| match arrival {
            Arrival::Input(input) => input.request_id.clone().filter(|request| session.has_forgotten(request)),
            Arrival::Resume { .. } | Arrival::Configure(_) => None,
        };
        if !self.arrivals.iter().any(|arrival| request_of(arrival).is_some()) {
            return;
        }
        let whole = Session::fold(self.id.clone(), records);
        let (asked, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.arrivals)
            .into_iter()
            .map(|arrival| (request_of(&arrival), arrival))
            .partition(|(request, _)| request.as_ref().is_some_and(|request| whole.answered.contains_key(request)));
        self.arrivals = others.into_iter().map(|(_, arrival)| arrival).collect();
        for (request, arrival) in asked {
            let outcome = request.and_then(|request| whole.answered.get(&request));
            if let Some((outcome, submission)) = outcome.zip(arrival.submission()) {
                self.tell_again(submission, (**outcome).clone(), effects);
            }
        }
    }
}
