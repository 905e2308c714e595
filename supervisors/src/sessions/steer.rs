//! Steer messages and flushes. A steer message names the run for which it is meant, is sent again to an actor that is
//! restarted, and is answered once it is known whether it was taken. A subscriber that reads the journal first has
//! the actor send its buffered records to the store.

use super::SessionsState;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::input::Steer;
use bob_messages::reply::Reply;
use bob_messages::turn::TurnMessage;

/// The most unanswered steer messages, and flushes, of one session; further ones are refused.
const MOST_ON_THE_WAY: usize = 64;

impl SessionsState {
    /// Sends it to the actor if a turn runs. A turn that is being stopped takes no more messages.
    pub(super) fn steer(&mut self, session: &SessionId, steer: Steer, reply: Reply<Result<bool, AgentError>>) {
        let entry = self.table.get_mut(session).filter(|entry| entry.stopping.is_none());
        let Some((entry, running)) = entry.and_then(|entry| entry.running().cloned().map(|running| (entry, running)))
        else {
            return reply.send(Ok(false));
        };
        if entry.steers.len() >= MOST_ON_THE_WAY {
            let text = format!("{MOST_ON_THE_WAY} messages into the session's turn are not taken yet; try again");
            return reply.send(Err(AgentError::busy(text)));
        }
        let steer = Steer { submission: Some(running), ..steer };
        entry.steers.push((steer.clone(), reply));
        self.send(session, TurnMessage::Steered { steer: Box::new(steer) });
    }

    pub(super) fn steered(&mut self, session: &SessionId, request: &RequestId, result: &Result<bool, AgentError>) {
        let Some(entry) = self.table.get_mut(session).filter(|entry| !entry.steers.is_empty()) else { return };
        for (_, reply) in entry.steers.extract_if(.., |(steer, _)| steer.request_id == *request) {
            reply.send(result.clone());
        }
        if entry.steers.is_empty() {
            entry.steers = Vec::new();
        }
    }

    /// Has the actor send its buffered records. Without an actor, all of them have been sent.
    pub(super) fn flush_for_reader(&mut self, session: &SessionId, reply: Reply<()>) {
        match self.table.get_mut(session).filter(|entry| entry.actor.is_some() && entry.stopping.is_none()) {
            // Its caller asks again.
            Some(entry) if entry.readers.len() >= MOST_ON_THE_WAY => drop(reply),
            Some(entry) => {
                entry.readers.push_back(reply);
                self.send(session, TurnMessage::Flush);
            }
            None => reply.send(()),
        }
    }

    /// Answers the first caller of a flush.
    pub(super) fn flushed(&mut self, session: &SessionId) {
        let entry = self.table.get_mut(session);
        if let Some(reader) = entry.and_then(|entry| entry.readers.pop_front()) {
            reader.send(());
        }
    }

    pub(super) fn resend_steers(&mut self, session: &SessionId) {
        let steers = self.table.get_mut(session).map(|entry| entry.steers.iter().map(|(steer, _)| steer.clone()));
        for steer in steers.map(Vec::from_iter).unwrap_or_default() {
            self.send(session, TurnMessage::Steered { steer: Box::new(steer) });
        }
    }

    /// Answers all callers of a flush: the actor has ended, and its buffer with it.
    pub(super) fn answer_flushes(&mut self, session: &SessionId) {
        let readers = self.table.get_mut(session).map(|entry| std::mem::take(&mut entry.readers));
        readers.into_iter().flatten().for_each(|reader| reader.send(()));
    }

    /// Answers the messages that no turn has taken: the actor has ended and no turn runs.
    pub(super) fn drop_steers(&mut self, session: &SessionId) {
        let Some(entry) = self.table.get_mut(session) else { return };
        for (_, reply) in std::mem::take(&mut entry.steers) {
            reply.send(Ok(false));
        }
    }
}
