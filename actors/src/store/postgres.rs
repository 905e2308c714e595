//! Journals in PostgreSQL: for several processes, on one machine or on many.
//!
//! The [`PostgresStore`] owns one thread, which drives its connections: two that write, one that reads, one that
//! holds this process's lock and renews its row, and one that writes artifacts, once there are some. What waits for a writer goes into one statement, which the database
//! commits with one sync. An append is stored where the session still has its version and its epoch, and nowhere else;
//! no clock takes part in that. Clocks decide how soon a dead owner's session may be claimed, by the database's time.
//!
//! - `address`: where the database is, and errors in words
//! - `link`: a connection, made again when it broke; `up`: while it is up; `tls`: its security; `failure`: what its errors say
//! - `schema`: the tables, and how they come to be; `tables`: what stands in them
//! - `node`: this process as an owner; `held`: the sessions that it holds
//! - `writer`: a connection that writes; `stages`: the order on it; `appends`, `claims` and `owners`: the statements; `item`: an append on its way; `job`: what is asked for
//! - `reader`: loads and listings; `looks`: questions that many ask again and again; `overview`: all processes and messages
//! - `artifacts`: the port of large parts; `contents`: their rows
//! - `inbox`: messages to sessions; `bell`: those who wait for what other processes change; `due`: the sessions that have something to do; `again`: statements that are repeated; `together`: those that are sent as one
//! - `pooler`: what stands between here and the database

mod address;
mod again;
mod appends;
mod artifacts;
mod bell;
mod claims;
mod contents;
mod due;
mod failure;
mod held;
mod inbox;
mod item;
mod job;
mod link;
mod looks;
mod node;
mod overview;
mod owners;
mod pooler;
mod reader;
mod schema;
mod stages;
mod tables;
mod tls;
mod together;
mod up;
mod writer;

#[cfg(test)]
#[path = "postgres_tests.rs"]
mod tests;

use super::encoded::{Encoded, Split};
use super::future::StoreFuture;
use super::owners::StoreOptions;
use super::span::Span;
use super::{ArtifactStorePort, Inbox, NodeFigures, SessionOwner, SessionStore, StoreLease, StoreOverview, Stored};
use address::Address;
use artifacts::PostgresArtifacts;
use bell::Bell;
use bob_messages::ids::SessionId;
use bob_messages::reply::{Answer, Reply};
use bob_messages::share::Share;
use bob_messages::store::{Append, Claim, Part, Pools, Record, SessionFilter, SessionPage, StoreError};
use foldhash::fast::FixedState;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use held::Shared;
use inbox::PostgresInbox;
use job::{Ask, Job};
use link::Link;
use node::Node;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};
use writer::Writer;

/// How many connections write. A session is always written on the same one.
const WRITERS: usize = 2;

/// How many batches are on their way: while one writer waits for the disk, the other one has something to write, and both
/// have their next statement, into which goes what comes meanwhile.
const BATCHES: usize = 2 * WRITERS;

/// How long dropping the store waits for what is being written, and for the end of its ownership.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// A store of all sessions in a PostgreSQL database, which other processes may use at the same time.
#[derive(Debug)]
pub struct PostgresStore {
    /// They are there until the store is dropped.
    ways: Option<Ways>,
    /// Tells that the thread has ended.
    closed: Mutex<Receiver<()>>,
    /// What is known of this process as an owner.
    shared: Arc<Shared>,
    pools: Pools,
    /// Told when messages may have come or gone.
    bell: Arc<Bell>,
}

/// The ways to the tasks of the thread.
#[derive(Clone)]
struct Ways {
    writers: [UnboundedSender<Vec<Job>>; WRITERS],
    asks: UnboundedSender<Ask>,
    inbox: UnboundedSender<inbox::Ask>,
    artifacts: UnboundedSender<contents::Sent>,
}

impl std::fmt::Debug for Ways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ways").finish_non_exhaustive()
    }
}

impl Ways {
    /// Which of the writers has a session: the same one as long as the process lives.
    fn of(session: &SessionId) -> usize {
        FixedState::with_seed(0).hash_one(session) as usize % WRITERS
    }

    fn write(&self, job: Job) {
        // A task that ended drops the job, which answers it.
        drop(self.writers[Self::of(job.session())].send(vec![job]));
    }

    /// As one message for each writer, so that it finds all of them when it wakes.
    fn append(&self, appends: impl IntoIterator<Item = (Encoded, Reply<Result<u64, StoreError>>)>) {
        let mut jobs: [Vec<Job>; WRITERS] = Default::default();
        for (encoded, reply) in appends {
            jobs[Self::of(&encoded.append.session)].push(Job::Append(encoded, reply));
        }
        for (writer, jobs) in self.writers.iter().zip(jobs).filter(|(_, jobs)| !jobs.is_empty()) {
            drop(writer.send(jobs));
        }
    }
}

impl PostgresStore {
    /// Opens a database by its URL, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `?sslmode=verify-full` where the way
    /// to it is not safe, and `&sslrootcert=FILE` where its certificate authority is not one of the system's. Blocks until the database was reached once, at most some seconds. The first claim creates the
    /// tables, in the schema of the user's `search_path`; a store that only reads writes nothing. Two stores may be open on one
    /// database, also in one process; they are two owners.
    ///
    /// # Errors
    /// `Unavailable` when the database cannot be reached, does not prove who it is or refuses the user, when its tables are another program's, and when a
    /// pooler gives its connections to others between two statements; `TooNew` for tables of a newer program.
    pub fn open(url: &str, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let address = Address::parse(url)?;
        let (open, opened) = channel();
        let (closing, closed) = channel();
        let (first, first_jobs) = unbounded_channel();
        let (second, second_jobs) = unbounded_channel();
        let (asks, asked) = unbounded_channel();
        let (inbox, messages) = unbounded_channel();
        let (artifacts, contents) = unbounded_channel();
        let (shared, bell) = (Arc::<Shared>::default(), Arc::<Bell>::default());
        let known = (Arc::clone(&shared), Arc::clone(&bell));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Unavailable(format!("no runtime for the store: {error}")))?;
        let pools = options.pools.clone();
        let work = move || {
            let served = serve(address, options, [first_jobs, second_jobs], (asked, messages, contents), known, &open);
            runtime.block_on(LocalSet::new().run_until(served));
            // Told by being dropped.
            drop(closing);
        };
        let spawned = std::thread::Builder::new().name("bob-store-postgres".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread for the store: {error}")))?;
        opened.recv().unwrap_or_else(|_ended| Err(ended()))?;
        let ways = Some(Ways { writers: [first, second], asks, inbox, artifacts });
        Ok(Arc::new(Self { ways, closed: Mutex::new(closed), shared, pools, bell }))
    }

    fn put<T: Send + 'static>(
        &self,
        send: impl FnOnce(&Ways, Reply<Result<T, StoreError>>),
    ) -> StoreFuture<'static, T> {
        let (reply, answer) = Reply::channel();
        if let Some(ways) = &self.ways {
            send(ways, reply);
        }
        answer.map(|answer| answer.unwrap_or_else(|| Err(ended()))).boxed()
    }

    fn load_span(&self, session: &SessionId, span: Span) -> StoreFuture<'static, Vec<Arc<Record>>> {
        self.put(|ways, reply| drop(ways.asks.send(Ask::Load(session.clone(), span, reply))))
    }

    fn claim_span(&self, session: &SessionId, span: Span) -> StoreFuture<'static, Claim> {
        self.put(|ways, reply| ways.write(Job::Claim(session.clone(), span, reply)))
    }
}

/// Drives the connections until the store is dropped.
async fn serve(
    address: Address,
    options: StoreOptions,
    [first, second]: [UnboundedReceiver<Vec<Job>>; WRITERS],
    (asks, messages, contents): (
        UnboundedReceiver<Ask>,
        UnboundedReceiver<inbox::Ask>,
        UnboundedReceiver<contents::Sent>,
    ),
    (shared, bell): (Arc<Shared>, Arc<Bell>),
    open: &Sender<Result<(), StoreError>>,
) {
    let link = || Link::new(address.clone());
    let (reading, writing) = (Rc::new(link()), Link::writing(address.clone()));
    let opened = pooler::refuse(&reading, &writing).await;
    let is_open = opened.is_ok();
    // Its asker waits for it.
    drop(open.send(opened));
    if !is_open {
        return;
    }
    let listening = Link::listening(address.clone(), Arc::clone(&bell));
    let (node, renewing) = Node::start(listening, options.clone(), shared);
    let pools = options.pools.clone();
    let writers = [
        spawn_local(stages::run(Writer::new(writing, node.clone(), options.clone()), first)),
        spawn_local(stages::run(Writer::new(Link::writing(address.clone()), node.clone(), options), second)),
    ];
    let inbox = spawn_local(inbox::run(Rc::clone(&reading), (node.clone(), pools), bell, messages));
    let artifacts = spawn_local(contents::run(link(), node.clone(), contents));
    let reader = spawn_local(reader::run(reading, asks));
    let _ended = join_all(writers).await;
    let _ended = inbox.await;
    let _ended = artifacts.await;
    // The last copy: with it the ownership ends.
    drop(node);
    let _left = renewing.await;
    reader.abort();
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.ways = None;
        let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Either it has ended, or it goes on without us.
        let _ = closed.recv_timeout(CLOSED_WITHIN);
    }
}

fn ended() -> StoreError {
    StoreError::InDoubt("the store ended before it could tell whether it was done".to_owned())
}

/// Has the writers store a batch, and answers at once for what is large: encoding it delays its session alone.
async fn store(ways: Option<Ways>, batch: Vec<Append>) -> Vec<Stored> {
    let Some(ways) = ways else { return batch.iter().map(|_| Stored::Now(Err(ended()))).collect() };
    let mut stored: Vec<Stored> = batch.iter().map(|_| Stored::Now(Err(ended()))).collect();
    let split = Split::of(batch);
    for of_session in split.apart {
        let mut appends = Vec::new();
        for (place, append) in of_session {
            let (reply, answer) = Reply::channel();
            stored[place] = Stored::Later(answer);
            appends.push((append, reply));
        }
        let ways = ways.clone();
        // What ends without an answer answers by being dropped.
        tokio::task::spawn_blocking(move || {
            ways.append(appends.into_iter().map(|(append, reply)| (Encoded::of(append), reply)));
        });
    }
    let mut answers: Vec<(usize, Answer<Result<u64, StoreError>>)> = Vec::new();
    let asked = split.together.into_iter().map(|(place, append)| {
        let (reply, answer) = Reply::channel();
        answers.push((place, answer));
        (Encoded::of(append), reply)
    });
    ways.append(asked);
    for (place, answer) in answers {
        stored[place] = Stored::Now(answer.await.unwrap_or_else(|| Err(ended())));
    }
    stored
}

impl SessionStore for PostgresStore {
    fn claim<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.claim_span(session, Span::Whole)
    }

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Claim> {
        self.claim_span(session, Span::Part(Part::Latest))
    }

    fn load<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.load_span(session, Span::Whole)
    }

    fn load_part<'a>(&'a self, session: &'a SessionId, part: Part) -> StoreFuture<'a, Vec<Arc<Record>>> {
        self.load_span(session, Span::Part(part))
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        let stored = store(self.ways.clone(), batch);
        async move {
            join_all(stored.await.into_iter().map(async |stored| match stored {
                Stored::Now(answer) => answer,
                Stored::Later(answer) => answer.await.unwrap_or_else(|| Err(ended())),
            }))
            .await
        }
        .boxed()
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        store(self.ways.clone(), batch).boxed()
    }

    fn batches_at_once(&self) -> usize {
        BATCHES
    }

    fn release<'a>(&'a self, session: &'a SessionId, epoch: u64) -> BoxFuture<'a, ()> {
        let (reply, answer) = Reply::channel();
        if let Some(ways) = &self.ways {
            ways.write(Job::Release(session.clone(), epoch, reply));
        }
        answer.map(drop).boxed()
    }

    fn owner<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        self.put(|ways, reply| drop(ways.asks.send(Ask::Owner(session.clone(), reply))))
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<SessionOwner>> {
        self.put(|ways, reply| ways.write(Job::Take(session.clone(), reply)))
    }

    fn tell_figures(&self, figures: Arc<dyn Fn() -> NodeFigures + Send + Sync>) {
        self.shared.tell_figures(figures);
    }

    fn overview(&self) -> StoreFuture<'_, Option<StoreOverview>> {
        self.put(|ways, reply| drop(ways.asks.send(Ask::Overview(reply)))).map(|overview| overview.map(Some)).boxed()
    }

    fn list<'a>(&'a self, filter: &'a SessionFilter, cursor: Option<&'a str>) -> StoreFuture<'a, SessionPage> {
        let cursor = cursor.map(str::to_owned);
        self.put(|ways, reply| drop(ways.asks.send(Ask::List(filter.clone(), cursor, reply))))
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, bool> {
        self.put(|ways, reply| ways.write(Job::Delete(session.clone(), reply)))
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        let ways = self.ways.as_ref()?;
        Some(PostgresArtifacts::of(&ways.asks, &ways.artifacts))
    }

    fn pools(&self) -> Pools {
        self.pools.clone()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(PostgresInbox::of(&self.ways.as_ref()?.inbox, &self.bell))
    }

    fn share(&self) -> Option<Share> {
        Some(self.shared.share())
    }

    fn lease(&self, session: &SessionId) -> StoreLease {
        self.shared.lease(session)
    }
}
