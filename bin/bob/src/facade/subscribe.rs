//! The events of one session, for any number of readers: first rebuilt from the journal, then live.
//!
//! A reader subscribes to the live events before it reads the journal, and the session's actor flushes its records in
//! between, so there is no gap; the [`seam`](super::seam) removes duplicates. A reader that falls too far behind is
//! detached by the feed and joins again in this way.

use super::boxed::{AnyFuture, Boxed};
use super::runtime::Runtime;
use super::seam::Seam;
use bob_actors::feed::{Detached, Subscription};
use bob_messages::error::AgentError;
use bob_messages::event::{Envelope, Rebuild};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::session_state::Session;
use bob_messages::store::{Fact, Part, Record, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec;

/// How many records a reader holds at a time.
const PAGE: usize = 256;

/// How many messages the session of a reader keeps: only the last ones tell something.
const MESSAGES_KEPT: usize = 16;

/// Timeout of reading the session's journal, which includes pending writes of the session.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Where a reader of a session's events begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventsFrom {
    /// With the first turn of the session.
    Beginning,
    /// With the beginning of this turn.
    Turn(TurnId),
    /// After this version, which counts the session's records.
    Version(u64),
    /// With new events only.
    #[default]
    Now,
}

#[derive(Debug)]
pub(super) struct Reader {
    runtime: Runtime,
    session: SessionId,
    live: Subscription,
    seam: Seam,
    /// The journal, until it was read completely.
    journal: Option<Journal>,
    rebuilt: VecDeque<Arc<Envelope>>,
    /// The store's answer, while one is awaited.
    awaited: Option<AnyFuture<Read>>,
    /// Resolves when the runtime has ended.
    ended: AnyFuture<()>,
    is_over: bool,
}

enum Read {
    /// A page of the journal.
    Page(Result<Vec<Arc<Record>>, AgentError>),
    /// The live events again, and the journal behind those that were lost.
    Joined(Box<Result<(Subscription, Journal), AgentError>>),
}

#[derive(Debug)]
struct Journal {
    rebuild: Rebuild,
    page: vec::IntoIter<Arc<Record>>,
    /// The version of the last record of the page.
    read: u64,
    /// The journal's version when the reader joined; later records are live.
    last: u64,
    /// Events up to this version are recorded but not delivered.
    silent_until: u64,
    /// Suppressed events were delivered before, and are remembered as needed.
    is_again: bool,
}

pub(super) async fn subscribe(runtime: &Runtime, session: SessionId, from: EventsFrom) -> Result<Reader, AgentError> {
    let (live, newest) = attach(runtime, &session).await?;
    let last = last_of(&newest);
    let journal = match from {
        EventsFrom::Beginning => Journal::whole(&session, last, 0),
        EventsFrom::Version(version) => Journal::whole(&session, last, version),
        EventsFrom::Now => Journal::begin(&session, newest, last),
        EventsFrom::Turn(turn) => match newest.iter().find(|record| begins(record, &turn)) {
            Some(first) => {
                let behind = first.version - 1;
                Journal::begin(&session, newest, behind)
            }
            None => {
                let behind = behind_of(runtime, &session, last, &turn).await?;
                Journal::whole(&session, last, behind)
            }
        },
    };
    let (seam, rebuilt) = (Seam::default(), VecDeque::new());
    let journal = Some(journal.offering(runtime));
    let (runtime, ended) = (runtime.clone(), ended(runtime));
    Ok(Reader { runtime, session, live, seam, journal, rebuilt, awaited: None, ended, is_over: false })
}

/// The live events from now on, and the newest records of a journal that has everything before them.
async fn attach(runtime: &Runtime, session: &SessionId) -> Result<(Subscription, Vec<Arc<Record>>), AgentError> {
    let live = runtime.0.tree.feed.subscribe(session).with_children();
    runtime.send_buffered(session).await;
    // Reads after all accepted writes of this session, and only those.
    let read = tokio::time::timeout(READ_WITHIN, runtime.part(session.clone(), Part::Latest)).await;
    let late = || StoreError::Unavailable(format!("it has not given the journal within {} s", READ_WITHIN.as_secs()));
    let newest = read.unwrap_or_else(|_| Err(late().into()))?;
    Ok((live, newest))
}

fn last_of(records: &[Arc<Record>]) -> u64 {
    records.last().map_or(0, |last| last.version)
}

/// The version behind which this turn begins that is not among the newest.
async fn behind_of(runtime: &Runtime, session: &SessionId, last: u64, turn: &TurnId) -> Result<u64, AgentError> {
    let is_known = &mut false;
    let first = first_of(runtime, session, last, |record| {
        *is_known |= record.turn.as_ref() == Some(turn);
        begins(record, turn)
    });
    match (first.await?, *is_known) {
        (Some(first), _) => Ok(first - 1),
        // Later events are queued behind this read.
        (None, true) => Ok(last),
        (None, false) => Err(AgentError::Invalid(format!("the session has no turn {turn}"))),
    }
}

/// The version of the first of the records up to `last` that is one, page by page.
async fn first_of(
    runtime: &Runtime,
    session: &SessionId,
    last: u64,
    mut is_it: impl FnMut(&Record) -> bool,
) -> Result<Option<u64>, AgentError> {
    let mut behind = 0;
    while behind < last {
        let page = runtime.part(session.clone(), Part::Page { behind, most: PAGE }).await?;
        if let Some(first) = page.iter().find(|record| record.version <= last && is_it(record)) {
            return Ok(Some(first.version));
        }
        let Some(end) = page.last() else { break };
        behind = end.version;
    }
    Ok(None)
}

/// Whether the events of this turn begin with this record: its input may have waited behind another turn.
fn begins(record: &Record, turn: &TurnId) -> bool {
    record.turn.as_ref() == Some(turn) && !matches!(record.fact, Fact::Input(_))
}

impl Journal {
    fn whole(session: &SessionId, last: u64, silent_until: u64) -> Self {
        let rebuild = Rebuild::behind(Session::fold_keeping(session.clone(), MESSAGES_KEPT, []));
        Self { rebuild, page: Vec::new().into_iter(), read: 0, last, silent_until, is_again: false }
    }

    /// A journal of which only these newest records need be read, since everything that is given, and the run that it
    /// belongs to, is behind a snapshot. Whole, where that is not so.
    fn begin(session: &SessionId, newest: Vec<Arc<Record>>, silent_until: u64) -> Self {
        let last = last_of(&newest);
        let whole = || Self::whole(session, last, silent_until);
        let Some((first, behind)) = newest.split_first().filter(|(first, _)| first.version > 1) else { return whole() };
        let snapshot = std::slice::from_ref(first);
        let Some(found) = Session::fold_latest(session.clone(), None, snapshot) else { return whole() };
        let is_given = behind.partition_point(|record| record.version <= silent_until);
        let mut then = found.clone();
        behind[..is_given].iter().for_each(|record| then.apply(record));
        let turn = |session: &Session| session.open.as_ref().map(|open| open.input.turn.clone());
        if turn(&found).is_none() || turn(&found) == turn(&then) {
            return whole();
        }
        let mut page = newest.into_iter();
        let _snapshot = page.next();
        Self { rebuild: Rebuild::behind(found), page, read: last, last, silent_until, is_again: false }
    }

    /// Questions are rebuilt with what this runtime would take as a decision, as it asks them itself.
    fn offering(self, runtime: &Runtime) -> Self {
        Self { rebuild: self.rebuild.offering_always(runtime.offers_always()), ..self }
    }

    /// Returns the next part to read; `None` at the end.
    fn next_page(&self) -> Option<Part> {
        let is_read = self.page.len() > 0 || self.read >= self.last;
        let most = usize::try_from(self.last.saturating_sub(self.read)).unwrap_or(PAGE).min(PAGE);
        (!is_read).then_some(Part::Page { behind: self.read, most })
    }

    fn take_page(&mut self, page: Vec<Arc<Record>>) {
        // A session that was deleted meanwhile has no more records.
        self.read = page.last().map_or(self.last, |last| last.version);
        self.page = page.into_iter();
    }
}

impl Reader {
    /// The next event; `None` when the runtime has ended and everything was given.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Arc<Envelope>, AgentError>>> {
        loop {
            if let Some(event) = self.next_rebuilt() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(awaited) = &mut self.awaited {
                let read = ready!(awaited.0.as_mut().poll(context));
                self.awaited = None;
                if let Err(error) = self.take(read) {
                    return Poll::Ready(Some(Err(error)));
                }
                continue;
            }
            if let Some(part) = self.journal.as_ref().and_then(Journal::next_page) {
                let (runtime, session) = (self.runtime.clone(), self.session.clone());
                self.awaited = Some(Boxed(Box::pin(async move { Read::Page(runtime.part(session, part).await) })));
                continue;
            }
            self.journal = None;
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.live.poll_next(context) {
                // The events of sub-agents have the numbers of their own sessions.
                Poll::Ready(Ok(event)) if event.session_id.as_ref() != Some(&self.session) => {
                    return Poll::Ready(Some(Ok(event)));
                }
                Poll::Ready(Ok(event)) => {
                    if let Some(event) = self.seam.live(event) {
                        return Poll::Ready(Some(Ok(Arc::new(event))));
                    }
                }
                Poll::Ready(Err(Detached)) => {
                    let joins = join_again(self.runtime.clone(), self.session.clone(), self.seam.clone());
                    self.awaited = Some(Boxed(Box::pin(async move { Read::Joined(Box::new(joins.await)) })));
                }
                Poll::Pending => {
                    ready!(self.ended.0.as_mut().poll(context));
                    self.is_over = true;
                }
            }
        }
    }

    fn take(&mut self, read: Read) -> Result<(), AgentError> {
        match read {
            Read::Page(Ok(page)) => {
                if let Some(journal) = &mut self.journal {
                    journal.take_page(page);
                }
            }
            Read::Page(Err(error)) => {
                if self.runtime.ended().borrow().is_some() {
                    // The reader was dropped.
                    (self.journal, self.is_over) = (None, true);
                }
                return Err(error);
            }
            Read::Joined(joined) => {
                let (live, journal) = (*joined)?;
                self.seam.begin();
                (self.live, self.journal) = (live, Some(journal));
            }
        }
        Ok(())
    }

    fn next_rebuilt(&mut self) -> Option<Arc<Envelope>> {
        while self.rebuilt.is_empty() {
            let journal = self.journal.as_mut()?;
            let record = journal.page.next()?;
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
}

/// Subscribes again after a reader was detached: the live events, and the journal, of which what the reader has seen is
/// not delivered again.
async fn join_again(runtime: Runtime, session: SessionId, seam: Seam) -> Result<(Subscription, Journal), AgentError> {
    let (live, newest) = attach(&runtime, &session).await?;
    let goes_on =
        |record: &Record| record.turn.as_ref().is_some_and(|turn| begins(record, turn) && seam.goes_on_with(turn));
    let last = last_of(&newest);
    let first = first_of(&runtime, &session, last, goes_on).await?;
    let journal = Journal::whole(&session, last, first.map_or(0, |first| first - 1)).offering(&runtime);
    Ok((live, Journal { is_again: true, ..journal }))
}

/// Waits for the end of the runtime, without keeping it alive.
fn ended(runtime: &Runtime) -> AnyFuture<()> {
    let mut ended = runtime.ended();
    Boxed(Box::pin(async move {
        let _ended_or_dropped = ended.wait_for(Option::is_some).await;
    }))
}
