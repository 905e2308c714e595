//! The events of one session, for any number of readers: first rebuilt from the journal, then live.
//!
//! A reader subscribes to the live events before it reads the journal, and the session's actor flushes its records in
//! between, so there is no gap; the [`seam`](super::seam) removes duplicates. A reader that falls too far behind is
//! detached by the feed and joins again in this way.
//!
//! Another process with the same store may have the session, now or later. So a reader goes on through the journal: it
//! looks whether there is more while no events come, and before it gives the first event of another owner. The epoch of an
//! event tells its owner.

use super::boxed::{AnyFuture, Boxed};
use super::journal::{Journal, PAGE, begins, last_of};
use super::look::{Look, Page};
use super::runtime::Runtime;
use super::seam::Seam;
use bob_actors::feed::{Detached, Subscription};
use bob_messages::error::AgentError;
use bob_messages::event::{AgentEvent, Envelope};
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::store::{Part, Record, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Timeout of reading the session's journal, which includes pending writes of the session.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// How many turns may begin here before the journal is read on: fewer than the seam remembers.
const MOST_BEGUN: usize = 32;

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
    /// The journal: until it was read completely, or for as long as this looks for more.
    journal: Option<Journal>,
    /// Looks whether there is more; `None` where no other process has the store.
    look: Option<Look>,
    /// The epoch of the last owner of whom something was read or told.
    epoch: u64,
    /// The first event of another owner, while what is before it is read.
    held: Option<Arc<Envelope>>,
    /// The epoch of that owner, whose own records are left to its events.
    until: Option<u64>,
    /// How many turns began here since the journal was read.
    begun: usize,
    rebuilt: VecDeque<Arc<Envelope>>,
    /// The store's answer, while one is awaited.
    awaited: Option<AnyFuture<Read>>,
    /// Resolves when the runtime has ended.
    ended: AnyFuture<()>,
    is_over: bool,
}

enum Read {
    /// A page of the journal.
    Page(Page),
    /// The live events again, and the journal behind those that were lost.
    Joined(Box<Result<(Subscription, Journal), AgentError>>),
}

pub(super) async fn subscribe(runtime: &Runtime, session: SessionId, from: EventsFrom) -> Result<Reader, AgentError> {
    let (live, newest) = attach(runtime, &session).await?;
    let (last, epoch) = (last_of(&newest), epoch_of(&newest));
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
    let look = runtime.0.is_shared.then(Look::new);
    let (seam, rebuilt) = (Seam::new(look.is_some()), VecDeque::new());
    let journal = Some(journal.offering(runtime));
    let (runtime, ended) = (runtime.clone(), ended(runtime));
    let (awaited, held, until, begun, is_over) = (None, None, None, 0, false);
    Ok(Reader {
        runtime,
        session,
        live,
        seam,
        journal,
        look,
        epoch,
        held,
        until,
        begun,
        rebuilt,
        awaited,
        ended,
        is_over,
    })
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

/// The epoch of the last owner. There is none before the first.
fn epoch_of(records: &[Arc<Record>]) -> u64 {
    records.last().map_or(1, |last| last.epoch)
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
                let page = self.page(part);
                self.awaited = Some(read(page));
                continue;
            }
            if self.look.is_none() {
                self.journal = None;
            }
            if let Some(event) = self.held.take() {
                self.until = None;
                self.rebuilt.extend(self.seam.moved(&event).map(Arc::new));
                self.rebuilt.extend(self.seam.live(event).map(Arc::new));
                continue;
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.live.poll_next(context) {
                // The events of sub-agents have the numbers of their own sessions.
                Poll::Ready(Ok(event)) if event.session_id.as_ref() != Some(&self.session) => {
                    return Poll::Ready(Some(Ok(event)));
                }
                Poll::Ready(Ok(event)) => {
                    if let Some(event) = self.told(event) {
                        return Poll::Ready(Some(Ok(Arc::new(event))));
                    }
                }
                Poll::Ready(Err(Detached)) => {
                    let joins = join_again(self.runtime.clone(), self.session.clone(), self.seam.clone());
                    self.awaited = Some(Boxed(Box::pin(async move { Read::Joined(Box::new(joins.await)) })));
                }
                Poll::Pending => {
                    if self.ended.0.as_mut().poll(context).is_ready() {
                        self.is_over = true;
                        continue;
                    }
                    ready!(self.poll_look(context));
                }
            }
        }
    }

    fn page(&self, part: Part) -> AnyFuture<Page> {
        let (runtime, session) = (self.runtime.clone(), self.session.clone());
        Boxed(Box::pin(async move { runtime.part(session, part).await }))
    }

    /// Takes what another process has written to the journal; pending while there is nothing.
    fn poll_look(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { look: Some(look), journal: Some(journal), runtime, session, .. } = self else {
            return Poll::Pending;
        };
        let begin = || -> AnyFuture<Page> {
            let (runtime, session, part) = (runtime.clone(), session.clone(), journal.further());
            Boxed(Box::pin(async move { runtime.part(session, part).await }))
        };
        let page = ready!(look.poll(context, begin));
        self.take_page(page);
        Poll::Ready(())
    }

    /// An event that has just happened, to be given now.
    fn told(&mut self, event: Arc<Envelope>) -> Option<Envelope> {
        let (Some(look), Some(journal)) = (&mut self.look, &mut self.journal) else { return self.seam.live(event) };
        if is_left(&event.event) && event.turn_id.as_ref().is_some_and(|turn| self.seam.has_begun(turn)) {
            // The turn has not ended: another process has its session.
            look.soon();
            return None;
        }
        look.told();
        let is_next = event.epoch.is_some_and(|epoch| epoch > self.epoch);
        let begins = matches!(event.event, AgentEvent::TurnStarted { .. });
        self.begun += usize::from(begins);
        if is_next || begins && self.begun > MOST_BEGUN {
            self.until = event.epoch.filter(|_| is_next);
            self.epoch = self.epoch.max(self.until.unwrap_or(0));
            journal.go_on();
            // It may have been read before what the owner before wrote last.
            look.give_up();
            self.held = Some(event);
            return None;
        }
        self.seam.live(event)
    }

    fn take_page(&mut self, page: Vec<Arc<Record>>) {
        if let Some(journal) = &mut self.journal {
            journal.take_page(page);
            self.begun = 0;
        }
    }

    fn take(&mut self, read: Read) -> Result<(), AgentError> {
        match read {
            Read::Page(Ok(page)) => self.take_page(page),
            Read::Page(Err(error)) => {
                let is_put_off = self.held.is_none() && self.journal.as_mut().is_some_and(Journal::puts_off);
                if self.runtime.ended().borrow().is_some() {
                    (self.journal, self.is_over) = (None, true);
                } else if matches!(error, AgentError::Stopped(_)) {
                    // What happens until the end is still told.
                    self.journal = None;
                } else if !is_put_off {
                    return Err(error);
                }
            }
            Read::Joined(joined) => {
                let (live, journal) = (*joined)?;
                self.seam.begin();
                self.look.iter_mut().for_each(Look::give_up);
                (self.live, self.journal, self.begun) = (live, Some(journal), 0);
            }
        }
        Ok(())
    }

    fn next_rebuilt(&mut self) -> Option<Arc<Envelope>> {
        while self.rebuilt.is_empty() {
            let journal = self.journal.as_mut()?;
            let record = journal.page.next()?;
            if self.until.is_some_and(|until| record.epoch >= until) {
                journal.stops_before(&record);
                return None;
            }
            let is_silent = record.version <= journal.silent_until;
            self.epoch = self.epoch.max(record.epoch);
            let told = journal.rebuild.read(&record);
            if is_silent && journal.is_again {
                continue;
            }
            for event in told {
                self.rebuilt.extend(self.seam.moved(&event).map(Arc::new));
                let event = self.seam.rebuilt(event);
                self.rebuilt.extend(event.filter(|_| !is_silent).map(Arc::new));
            }
        }
        self.rebuilt.pop_front()
    }
}

fn read(page: AnyFuture<Page>) -> AnyFuture<Read> {
    Boxed(Box::pin(async move { Read::Page(page.0.await) }))
}

/// Whether a turn ended for this process alone, since another one has taken its session. One that was deleted has epoch 0.
fn is_left(event: &AgentEvent) -> bool {
    let AgentEvent::TurnFinished { outcome } = event else { return false };
    matches!(&outcome.error, Some(AgentError::Store(StoreError::Fenced { epoch })) if *epoch > 0)
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
    Ok((live, journal.again()))
}

/// Waits for the end of the runtime, without keeping it alive.
fn ended(runtime: &Runtime) -> AnyFuture<()> {
    let mut ended = runtime.ended();
    Boxed(Box::pin(async move {
        let _ended_or_dropped = ended.wait_for(Option::is_some).await;
    }))
}
