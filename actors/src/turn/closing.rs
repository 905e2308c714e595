//! The end of a stopped turn: the outcome is reported when its save is confirmed, or after a bounded wait.

use super::{TurnArguments, TurnState, again};
use crate::rooms::Rooms;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, StoreError};
use bob_messages::submission::{SessionsMessage, TurnNews};
use bob_messages::turn::Effect;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long to wait for the confirmation of the last append, which continues after the answer.
/// Short, so that a cancel is answered within 50 ms on a busy computer, too.
const SAVE_CONFIRMED_WITHIN: Duration = Duration::from_millis(30);

pub(super) struct Closing {
    rooms: Arc<Rooms>,
    session: SessionId,
    saved: Option<oneshot::Receiver<Result<u64, StoreError>>>,
    /// Outcomes, and the steer messages that are part of that save.
    last: Vec<TurnNews>,
}

impl Closing {
    pub(super) fn new(started: &TurnArguments) -> Self {
        Self { rooms: Arc::clone(&started.rooms), session: started.session.clone(), saved: None, last: Vec::new() }
    }

    /// Takes the effects whose answers could no longer arrive; gives back the rest.
    pub(super) fn keep(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Append { append, .. } => self.append(append),
            Effect::Report(news @ (TurnNews::Finished { .. } | TurnNews::Steered { .. })) => self.last.push(news),
            other => return Some(other),
        }
        None
    }

    fn append(&mut self, append: Append) {
        let (told, saved) = oneshot::channel();
        again::append(&self.rooms.store, append, true, move |result| drop(told.send(result)));
        self.saved = Some(saved);
    }

    /// Tells the outcome, and that nothing more will come, from a task: the actor itself ends at once.
    pub(super) fn tell_when_saved(self) {
        let Self { rooms, session, saved, last } = self;
        tokio::spawn(async move {
            let appended = saved.is_some();
            let confirmed = match saved {
                Some(saved) => matches!(tokio::time::timeout(SAVE_CONFIRMED_WITHIN, saved).await, Ok(Ok(Ok(_version)))),
                None => true,
            };
            let last = last.into_iter().map(|news| news.behind_the_last_append(appended, confirmed));
            for news in last.chain([TurnNews::Left]) {
                rooms.sessions.tell(SessionsMessage::News { session: session.clone(), news });
            }
        });
    }
}

impl TurnState {
    /// The end of a turn is announced by the supervisor, and may be all that this owner writes of it.
    pub(super) fn tell_epoch(&self, news: &TurnNews) {
        if let (TurnNews::Finished { outcome, .. }, Some(epoch)) = (news, self.turn.epoch()) {
            self.started.feed.owned_under(epoch, &self.started.session, &outcome.turn_id);
        }
    }
}
