//! The port: what an inbox must be able to do.

use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::ids::SessionId;
use bob_messages::inbox::{InboxEntry, InboxKey, InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::time::Instant;

/// The most messages that wait for one session; a further one is `Unavailable`.
pub(in crate::store) const MOST_WAITING: usize = 1_000;

/// How long a refusal is kept for its senders, in milliseconds.
pub(in crate::store) const REFUSALS_KEPT_MS: Millis = 24 * 60 * 60 * 1000;

/// A session that has something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub session: SessionId,
    /// The epoch under which this process owns it, which is released when nothing was done under it. `None` where the session
    /// is not owned until it is claimed, and for one that is worked on already.
    pub epoch: Option<u64>,
    /// A number that another message changes, so that messages which were read before are not read again; 0 when none waits.
    pub mark: u64,
}

/// The messages to the sessions of a store.
///
/// A message is accepted when [`put`](Self::put) has answered. It is [`taken`](Self::take) by the owner of its session, any
/// number of times, and removed by [`settle`](Self::settle) when its effect is durable. Every method may be called from several
/// tasks, and a call that was lost may be repeated.
pub trait Inbox: Send + Sync + 'static {
    /// Keeps a message, durably. Answers whether it is new: one of the same session and request id that waits stays as it is,
    /// and one that was refused is replaced, as the last message of the session.
    ///
    /// # Errors
    /// `Unavailable`, also when 1,000 messages wait for the session; `InDoubt`, after which it may be put again.
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// The messages that wait for a session, in the order in which they were put. They stay. One that cannot be read has its
    /// place among them, with the reason. Where they are more than 64 MiB together, a store may leave out all but the oldest,
    /// the cancellations and the decisions, until those before them are settled.
    ///
    /// # Errors
    /// `Unavailable`.
    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>>;

    /// Removes a message whose effect is durable. One that is refused is kept for its senders, who are told why, for a day. Whether
    /// it did so: not when there is no such message, and a refusal has no effect while another process owns the session, in a
    /// store whose owners are on several machines.
    ///
    /// # Errors
    /// `Unavailable` or `InDoubt`; then the message is taken again, and recognised by its request id.
    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// What is known of a message.
    ///
    /// # Errors
    /// `Unavailable`.
    fn standing(&self, key: InboxKey) -> BoxFuture<'_, Result<InboxStanding, StoreError>>;

    /// Sessions with something to do: of `known`, which are worked on or rest, all that have messages; and at most `most`
    /// others that have messages or a turn that was left open, and no other living owner: those that wait longest first. A caller that names what it was
    /// given before as known is given all of them, call by call. A store whose owners are on several machines makes the others
    /// this process's, so that no two processes get one; those that it has already are among them, so that an answer that was
    /// lost is given again.
    ///
    /// # Errors
    /// `Unavailable`, or `TooNew`.
    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>>;

    /// Whether [`due`](Self::due) finds turns that a dead owner left open. Where it does not, they are found in the list of
    /// sessions, and their owners by a claim.
    fn finds_open_turns(&self) -> bool {
        false
    }

    /// Ready when something may have been put or settled since the last call. A hint: it may be early, and it may never come.
    fn woken(&self) -> BoxFuture<'_, ()>;

    /// Ready when something may have been put or settled for this session from now on, by any process; of those who wait, all
    /// are told. A hint as [`woken`](Self::woken), and nothing is taken from a worker that waits there. `None` where the changes
    /// of other processes are not heard of, so that one who waits has to look often.
    fn told_of(&self, session: &SessionId) -> Option<BoxFuture<'static, ()>> {
        let _ = session;
        None
    }
}

/// How long a process may assume that a session it claimed is its own.
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
