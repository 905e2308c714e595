//! What is said into running turns: named after the run that is meant, said again to an actor that is started again,
//! and answered once it is known whether it was taken. Beside it, whoever reads a session along: what its actor has
//! written is sent to the store for them.

use super::SessionsState;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::input::Steer;
use bob_messages::reply::Reply;
use bob_messages::turn::TurnMessage;

/// How many things said into one session's turns may be on their way; one more is refused.
const MOST_ON_THE_WAY: usize = 64;

impl SessionsState {
    /// Says it to the actor whose turn runs. A turn that is being stopped takes nothing in any more.
    pub(super) fn steer(&mut self, session: &SessionId, steer: Steer, reply: Reply<Result<bool, AgentError>>) {
        let guest = self.book.get_mut(session).filter(|guest| guest.leaving.is_none());
        let Some((guest, running)) = guest.and_then(|guest| guest.running().cloned().map(|running| (guest, running)))
        else {
            return reply.send(Ok(false));
        };
        if guest.steers.len() >= MOST_ON_THE_WAY {
            let text = format!("{MOST_ON_THE_WAY} things said into the session's turn are on their way; try again");
            return reply.send(Err(AgentError::Busy(text)));
        }
        let steer = Steer { submission: Some(running), ..steer };
        guest.steers.push((steer.clone(), reply));
        self.say(session, TurnMessage::Steered { steer: Box::new(steer) });
    }

    /// The actor has said what became of it; everybody is answered who asked under this name.
    pub(super) fn steered(&mut self, session: &SessionId, request: &RequestId, result: &Result<bool, AgentError>) {
        let Some(guest) = self.book.get_mut(session).filter(|guest| !guest.steers.is_empty()) else { return };
        for (_, reply) in guest.steers.extract_if(.., |(steer, _)| steer.request_id == *request) {
            reply.send(result.clone());
        }
        if guest.steers.is_empty() {
            guest.steers = Vec::new();
        }
    }

    /// Asks the actor to send what it has written. Without one, everything has been sent.
    pub(super) fn flush_for_reader(&mut self, session: &SessionId, reply: Reply<()>) {
        match self.book.get_mut(session).filter(|guest| guest.actor.is_some() && guest.leaving.is_none()) {
            Some(guest) => {
                guest.readers.push_back(reply);
                self.say(session, TurnMessage::Flush);
            }
            None => reply.send(()),
        }
    }

    /// It has; told once for each who asked.
    pub(super) fn flushed(&mut self, session: &SessionId) {
        let guest = self.book.get_mut(session);
        if let Some(reader) = guest.and_then(|guest| guest.readers.pop_front()) {
            reader.send(());
        }
    }

    /// The actor that was told is gone, and the next one is told again.
    pub(super) fn steer_again(&mut self, session: &SessionId) {
        let steers = self.book.get_mut(session).map(|guest| guest.steers.iter().map(|(steer, _)| steer.clone()));
        for steer in steers.map(Vec::from_iter).unwrap_or_default() {
            self.say(session, TurnMessage::Steered { steer: Box::new(steer) });
        }
    }

    /// The actor is gone, and what it has not sent with it.
    pub(super) fn readers_end(&mut self, session: &SessionId) {
        let readers = self.book.get_mut(session).map(|guest| std::mem::take(&mut guest.readers));
        readers.into_iter().flatten().for_each(|reader| reader.send(()));
    }

    /// The actor that was told is gone, has said what it took, and no turn runs.
    pub(super) fn steers_end(&mut self, session: &SessionId) {
        let Some(guest) = self.book.get_mut(session) else { return };
        for (_, reply) in std::mem::take(&mut guest.steers) {
            reply.send(Ok(false));
        }
    }
}
