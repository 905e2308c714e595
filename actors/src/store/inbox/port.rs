//! The port: what an inbox must be able to do.

use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::{InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::BoxFuture;
use std::time::Instant;

/// The most messages that wait for one session; a further one is `Unavailable`.
pub(in crate::store) const MOST_WAITING: usize = 1_000;

/// A session that has something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub session: SessionId,
    /// The epoch under which the store gave it to this process, which is released when nothing was done under it. `None` where
    /// the session was this process's before, or is nobody's until it is claimed.
    pub epoch: Option<u64>,
}

/// The messages to the sessions of a store.
///
/// A message is accepted when [`put`](Self::put) has answered. It is [`taken`](Self::take) by the owner of its session, any
/// number of times, and removed by [`settle`](Self::settle) when its effect is durable. Every method may be called from several
/// tasks, and a call that was lost may be repeated.
pub trait Inbox: Send + Sync + 'static {
    /// Keeps a message, durably. Answers whether it is new: a message of the same session and request id is there already, or
    /// was refused, and stays as it is.
    ///
    /// # Errors
    /// `Unavailable`, also when more than 1,000 messages wait for the session; `InDoubt`, after which it may be put again.
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// The messages that wait for a session, in the order in which they were put. They stay.
    ///
    /// # Errors
    /// `TooNew` when a newer program wrote one; `Corrupt`, `Unavailable`.
    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxMessage>, StoreError>>;

    /// Removes a message whose effect is durable. One that is refused is kept for its sender, who is told why, and removes it
    /// by settling it without a refusal; at most a day.
    ///
    /// # Errors
    /// `Unavailable` or `InDoubt`; then the message is taken again, and recognised by its request id.
    fn settle<'a>(
        &'a self,
        session: &'a SessionId,
        request: &'a RequestId,
        refusal: Option<AgentError>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// What is known of a message.
    ///
    /// # Errors
    /// `Unavailable`.
    fn standing<'a>(
        &'a self,
        session: &'a SessionId,
        request: &'a RequestId,
    ) -> BoxFuture<'a, Result<InboxStanding, StoreError>>;

    /// Sessions with something to do: at most `most` that have no living owner and messages, or a turn that a dead owner left
    /// open; and all of this process with messages. A store whose owners are on several machines makes the first ones this
    /// process's, so that no two processes get one.
    ///
    /// # Errors
    /// `Unavailable`, or `TooNew`.
    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>>;

    /// Whether [`due`](Self::due) finds turns that a dead owner left open. Where it does not, they are found in the list of
    /// sessions, and their owners by a claim.
    fn finds_open_turns(&self) -> bool {
        false
    }

    /// Ready when something may have been put or settled since the last call. A hint: it may be early, and it may never come.
    fn woken(&self) -> BoxFuture<'_, ()>;
}

/// How long a process may assume that the sessions it claimed are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreLease {
    /// For as long as it lives, since the operating system tells of its end.
    ForEver,
    /// Until this moment, unless it is renewed. `None`: it was never given, or has ended.
    Until(Option<Instant>),
}

impl StoreLease {
    /// Whether it is held at this moment.
    pub fn is_held(self, now: Instant) -> bool {
        match self {
            Self::ForEver => true,
            Self::Until(until) => until.is_some_and(|until| now < until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_lease_is_held_up_to_its_end() {
        let now = Instant::now();
        let until = StoreLease::Until(Some(now + Duration::from_millis(1)));
        assert!(until.is_held(now));
        assert!(!until.is_held(now + Duration::from_millis(1)));
        assert!(!StoreLease::Until(None).is_held(now));
        assert!(StoreLease::ForEver.is_held(now));
    }
}
