//! The events of one session, for any number of readers: first rebuilt from the journal, then live.
//!
//! A reader subscribes to the live events before the journal is read, and the session's actor sends what it has written
//! before that, so there is no gap; the [`seam`](super::seam) sees to it that nothing is given twice. A reader that falls
//! too far behind is let go by the feed and joins again in the same way: it is given what the journal tells.

use super::runtime::Runtime;
use super::seam::Seam;
use bob_actors::feed::{Detached, Subscription};
use bob_messages::error::AgentError;
use bob_messages::event::{Envelope, Rebuild, StreamItem, StreamView};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::reply::Reply;
use bob_messages::sessions::SessionsMessage;
use bob_messages::store::{Fact, Record, StoreMessage};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where a reader of a session's events begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventsFrom {
    /// With the first turn of the session.
    Beginning,
    /// With the beginning of this turn.
    Turn(TurnId),
    /// With what was journaled behind this version, which counts the session's records.
    Version(u64),
    /// With what happens from now on.
    #[default]
    Now,
}

/// The events of one session. Dropping it ends the reading and nothing else: turns go on.
///
/// Within a run of a turn (from its `turn.started` to its `turn.finished`) the numbers rise by one, rebuilt and live
/// events together. They are this reader's own: pieces of text that were joined, and what is only live and came before
/// the reader did, make others count differently.
#[derive(Debug)]
pub struct AgentEvents {
    runtime: Runtime,
    session: SessionId,
    live: Subscription,
    seam: Seam,
    view: StreamView,
    /// The journal that is read, until it was read whole.
    journal: Option<Journal>,
    rebuilt: VecDeque<Arc<Envelope>>,
    is_over: bool,
}

/// A journal on its way to a reader.
#[derive(Debug)]
struct Journal {
    rebuild: Rebuild,
    records: std::vec::IntoIter<Arc<Record>>,
    /// Events up to this version are known and not given.
    silent_until: u64,
    /// What is not given was given before, and is remembered as far as need be.
    is_again: bool,
}

/// Subscribes to a session.
pub(super) async fn subscribe(
    runtime: &Runtime,
    session: SessionId,
    from: EventsFrom,
) -> Result<AgentEvents, AgentError> {
    let (live, records) = attach(runtime, &session).await?;
    let silent_until = silent_until(&records, &from)?;
    let journal = Some(Journal::new(&session, records, silent_until));
    let (seam, view, rebuilt) = (Seam::default(), StreamView::default(), VecDeque::new());
    Ok(AgentEvents { runtime: runtime.clone(), session, live, seam, view, journal, rebuilt, is_over: false })
}

/// The live events from now on, and a journal that has everything before them.
async fn attach(runtime: &Runtime, session: &SessionId) -> Result<(Subscription, Vec<Arc<Record>>), AgentError> {
    let rooms = &runtime.0.tree.rooms;
    let live = runtime.0.tree.feed.subscribe(session);
    let (reply, sent) = Reply::channel();
    rooms.sessions.tell(SessionsMessage::Flush { session: session.clone(), reply });
    // Nobody there: then there is no actor either that has written something.
    let _sent_or_nobody_there = sent.await;
    let (reply, stored) = Reply::channel();
    rooms.store.tell(StoreMessage::Flush { reply });
    let _stored_or_said_by_the_load = stored.await;
    let records = runtime.journal(session.clone()).await?;
    Ok((live, records))
}

/// The version behind which a reader begins.
fn silent_until(records: &[Arc<Record>], from: &EventsFrom) -> Result<u64, AgentError> {
    match from {
        EventsFrom::Beginning => Ok(0),
        EventsFrom::Version(version) => Ok(*version),
        EventsFrom::Now => Ok(records.last().map_or(0, |last| last.version)),
        EventsFrom::Turn(turn) => {
            let is_known = records.iter().any(|record| record.turn.as_ref() == Some(turn));
            let first = records.iter().find(|record| begins(record, turn));
            match first {
                Some(first) => Ok(first.version - 1),
                // It waits its turn: whatever comes of it comes behind all of this.
                None if is_known => Ok(records.last().map_or(0, |last| last.version)),
                None => Err(AgentError::Invalid(format!("the session has no turn {turn}"))),
            }
        }
    }
}

/// Whether the events of this turn begin with this record: its input may have waited behind another turn.
fn begins(record: &Record, turn: &TurnId) -> bool {
    record.turn.as_ref() == Some(turn) && !matches!(record.fact, Fact::Input(_))
}

impl Journal {
    fn new(session: &SessionId, records: Vec<Arc<Record>>, silent_until: u64) -> Self {
        Self { rebuild: Rebuild::new(session.clone()), records: records.into_iter(), silent_until, is_again: false }
    }
}

impl AgentEvents {
    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The next event of any kind; `None` when the runtime has ended and everything was given. Cancel-safe.
    ///
    /// # Errors
    /// When this reader fell behind and the journal, with which it joins again, could not be read. The next call tries
    /// that once more.
    pub async fn next(&mut self) -> Option<Result<Arc<Envelope>, AgentError>> {
        loop {
            if let Some(event) = self.next_rebuilt() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            let mut ended = self.runtime.ended();
            let event = tokio::select! {
                biased;
                event = self.live.next() => event,
                _ = ended.wait_for(Option::is_some) => {
                    self.is_over = true;
                    continue;
                }
            };
            match event {
                Ok(event) => {
                    if let Some(event) = self.seam.live(event) {
                        return Some(Ok(Arc::new(event)));
                    }
                }
                Err(Detached) => {
                    if let Err(error) = self.join_again().await {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// The next event that concerns a reader of answers, as a stream of one turn has them. Cancel-safe.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_item(&mut self) -> Option<Result<StreamItem, AgentError>> {
        loop {
            match self.next().await? {
                Ok(event) => {
                    if let Some(item) = self.view.item(&event) {
                        return Some(Ok(item));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn next_rebuilt(&mut self) -> Option<Arc<Envelope>> {
        while self.rebuilt.is_empty() {
            let journal = self.journal.as_mut()?;
            let Some(record) = journal.records.next() else {
                self.journal = None;
                return None;
            };
            let is_silent = record.version <= journal.silent_until;
            let told = journal.rebuild.read(&record);
            if is_silent && journal.is_again {
                continue;
            }
            for event in told {
                let event = self.seam.rebuilt(event);
                self.rebuilt.extend(event.filter(|_| !is_silent).map(Arc::new));
            }
        }
        self.rebuilt.pop_front()
    }

    /// This reader was let go: it goes on where it was, with what the journal tells.
    async fn join_again(&mut self) -> Result<(), AgentError> {
        let (live, records) = attach(&self.runtime, &self.session).await?;
        let goes_on = |record: &&Arc<Record>| {
            record.turn.as_ref().is_some_and(|turn| begins(record, turn) && self.seam.goes_on_with(turn))
        };
        let silent_until = records.iter().find(goes_on).map_or(0, |first| first.version - 1);
        self.seam.begin();
        let journal = Journal::new(&self.session, records, silent_until);
        self.journal = Some(Journal { is_again: true, ..journal });
        self.live = live;
        Ok(())
    }
}
