//! Acknowledgements: sent when the records of a request are durable, or cannot be made so.

use super::news::{configured, finished, in_doubt, steered};
use super::state::State;
use super::{Effect, Turn};
use crate::chat::ServerWait;
use crate::error::AgentError;
use crate::ids::{RequestId, Ticket, ToolName, TurnId};
use crate::outcome::TurnOutcome;
use crate::store::StoreError;
use crate::submission::TurnNews;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Ack {
    /// An input, or a reply to a suspended turn: its caller receives the outcome of the turn and nothing before it.
    Input(TurnId),
    /// An input was taken out of those that wait.
    Withdrawn(Box<TurnOutcome>),
    Configured(RequestId),
    Steered(RequestId),
    /// A call of this tool ended without its server.
    GivenUp {
        tool: ToolName,
        wait: Arc<ServerWait>,
    },
    /// A reader of the journal waits until the records have gone to the store, durable or not.
    Flushed,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Settled<'e> {
    /// The store has answered; what it has not confirmed yet stays.
    Durable,
    /// The store did not take them. Where they are sent again, what must be durable still waits.
    NotTaken { error: &'e StoreError, is_sent_again: bool },
    /// The session is no longer this owner's to write.
    Lost(&'e StoreError),
    /// The actor stops: the driver knows whether the last append was confirmed.
    Stopped,
}

impl Turn {
    /// Handles an answer to an append in any state. Returns whether the current state has to handle it as well.
    pub(super) fn appended(
        &mut self,
        ticket: Ticket,
        result: &Result<u64, StoreError>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match result {
            Ok(_version) => {
                if self.outbox.stored(ticket) {
                    self.flush(effects);
                }
                self.settle_acks(Settled::Durable, effects);
                true
            }
            // An earlier append that awaited no confirmation was lost: everything unconfirmed is sent again.
            Err(StoreError::Conflict { .. }) if self.outbox.follows(ticket) => {
                self.outbox.failed();
                self.flush(effects);
                false
            }
            Err(StoreError::Fenced { .. } | StoreError::Conflict { .. }) => true,
            Err(error) => {
                self.outbox.refused(ticket, matches!(error, StoreError::InDoubt(_)));
                let is_sent_again = self.retry_append(error, effects);
                // A call may wait for as long as its turn may last; who changed or steered the session does not.
                let is_awaited = is_sent_again && matches!(self.state, State::Start(_));
                self.settle_acks(Settled::NotTaken { error, is_sent_again: is_awaited }, effects);
                !is_sent_again
            }
        }
    }

    /// Answers a request when the records written by now are durable.
    pub(super) fn acknowledge(&mut self, ack: Ack) {
        let version = self.await_durable();
        // Mostly the only one; the usual growth would make room for four.
        self.acks.reserve_exact(1);
        self.acks.push((version, ack));
    }

    /// Answers the requests of whose records this is known.
    pub(super) fn settle_acks(&mut self, how: Settled<'_>, effects: &mut Vec<Effect>) {
        let outbox = &self.outbox;
        self.acks.retain(|(version, ack)| {
            let effect = match (ack, how) {
                (Ack::Input(_) | Ack::Configured(_) | Ack::Flushed, Settled::Stopped) => return false,
                (Ack::Flushed, Settled::Durable) if outbox.has_unsent() => return true,
                (Ack::Flushed, _) => Effect::Report(TurnNews::Flushed),
                (_, Settled::Durable) if *version > outbox.durable => return true,
                (Ack::Input(_) | Ack::GivenUp { .. }, Settled::NotTaken { .. }) => return true,
                // The next owner may go on with the task.
                (Ack::GivenUp { .. }, Settled::Lost(_)) => return false,
                (Ack::GivenUp { tool, wait }, Settled::Durable | Settled::Stopped) => {
                    Effect::GiveUp { tool: tool.clone(), wait: Arc::clone(wait) }
                }
                (Ack::Input(_), Settled::Durable | Settled::Lost(_)) => return false,
                // A cancel does not wait for a store that fails.
                (Ack::Withdrawn(outcome), _) => {
                    let saved = matches!(how, Settled::Durable);
                    finished(outcome.turn_id.clone(), TurnOutcome { saved, ..(**outcome).clone() })
                }
                (_, Settled::NotTaken { is_sent_again: true, .. }) => return true,
                (Ack::Configured(request), Settled::Durable) => configured(request, Ok(())),
                (Ack::Configured(request), Settled::NotTaken { error, .. } | Settled::Lost(error)) => {
                    configured(request, Err(AgentError::Store(error.clone())))
                }
                (Ack::Steered(request), Settled::Durable | Settled::Stopped) => steered(request, Ok(true)),
                (Ack::Steered(request), Settled::Lost(error)) if !outbox.may_hold(*version) => {
                    steered(request, Err(AgentError::Store(error.clone())))
                }
                // The turn has taken it, or the journal may have it; sent again, it would be there twice.
                (Ack::Steered(request), Settled::NotTaken { error, .. } | Settled::Lost(error)) => {
                    steered(request, Err(in_doubt(error.to_string())))
                }
            };
            effects.push(effect);
            false
        });
    }

    /// The version with which this input is durable, while it is not known to be.
    pub(super) fn undurable(&self, submission: &TurnId) -> Option<u64> {
        let is_it = |ack: &Ack| matches!(ack, Ack::Input(of) if of == submission);
        self.acks.iter().find(|(_, ack)| is_it(ack)).map(|(version, _)| *version)
    }
}
