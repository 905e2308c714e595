//! The StoreActor: the order of what is asked of the store, and the batches.
//!
//! It owns what waits. Appends that arrive while the batches are in flight that the store takes wait and go together in the next one; a session
//! that the store cannot write now leaves its batch and delays no other. Every other operation on a session keeps its
//! place among that session's appends. A handler never waits for a disk: the store's future is polled once where it is
//! made, which is all a store in memory needs, and goes on in a task of its own otherwise. Of a record it looks only at
//! which artifacts it names.

mod lanes;

use super::artifacts::sweep;
use super::{SessionStore, Stored};
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::{Append, StoreError, StoreMessage};
use futures_util::future::{BoxFuture, FutureExt, join_all};
use lanes::{Lanes, Start, Work};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::HashMap;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::sync::mpsc;

/// How long a stopping actor goes on with what it has accepted.
const FLUSHED_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);

/// The one actor that talks to a store. Appends are never refused; how many
/// operations wait is in [`queued`](Self::queued), for the admission of work.
#[derive(Debug, Default)]
pub struct StoreActor {
    queued: Arc<AtomicUsize>,
}

impl StoreActor {
    /// The number of operations accepted and not yet answered: appends, claims, loads, releases and deletes. It stays
    /// readable over a restart when the restarted actor is made [`with`](Self::with) it.
    pub fn queued(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.queued)
    }

    /// An actor that keeps this gauge.
    pub fn with(queued: Arc<AtomicUsize>) -> Self {
        Self { queued }
    }
}

/// What the StoreActor keeps while it lives.
#[derive(Debug)]
pub struct StoreState {
    store: Port,
    lanes: Lanes,
    /// What ended in a task; [`StoreMessage::BatchEnded`] says that there is something.
    ended: mpsc::UnboundedReceiver<Ended>,
    tell: mpsc::UnboundedSender<Ended>,
}

struct Port(Arc<dyn SessionStore>);

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionStore")
    }
}

/// The sessions that a batch left behind, each with what still has to happen there.
type Left = Vec<(SessionId, BoxFuture<'static, ()>)>;

/// What a task tells when it is done, whether it answered or panicked.
enum Ended {
    /// The batch of this number.
    Batch(u64, Left),
    One(SessionId),
    /// Something that holds no lane up.
    Aside,
}

impl Actor for StoreActor {
    type Msg = StoreMessage;
    type State = StoreState;
    type Arguments = Arc<dyn SessionStore>;

    async fn pre_start(
        &self,
        _myself: ActorRef<StoreMessage>,
        store: Arc<dyn SessionStore>,
    ) -> Result<StoreState, ActorProcessingErr> {
        let (tell, ended) = mpsc::unbounded_channel();
        self.queued.store(0, Ordering::Relaxed);
        if store.artifacts().is_some() {
            tokio::spawn(sweep(Arc::clone(&store)));
        }
        let lanes = Lanes::of(store.batches_at_once());
        Ok(StoreState { store: Port(store), lanes, ended, tell })
    }

    fn handle(
        &self,
        myself: ActorRef<StoreMessage>,
        message: StoreMessage,
        state: &mut StoreState,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        state.take(&myself, message);
        state.go_on(&myself);
        self.queued.store(state.lanes.outstanding(), Ordering::Relaxed);
        ready(Ok(()))
    }

    /// What was accepted is still done, within a bound: the last words of sessions that were stopped just before are
    /// among it. Pending callers are answered here: dropping the state may come late.
    async fn post_stop(
        &self,
        myself: ActorRef<StoreMessage>,
        state: &mut StoreState,
    ) -> Result<(), ActorProcessingErr> {
        let _still_busy = tokio::time::timeout(FLUSHED_WITHIN, state.finish(&myself)).await;
        // What the store is doing goes on behind a dropped task.
        state.lanes = Lanes::default();
        self.queued.store(0, Ordering::Relaxed);
        Ok(())
    }
}

impl StoreState {
    fn take(&mut self, myself: &ActorRef<StoreMessage>, message: StoreMessage) {
        match message {
            StoreMessage::Append { append, reply } if self.lanes.is_empty() => self.append_alone(myself, append, reply),
            StoreMessage::Append { append, reply } => {
                let session = append.session.clone();
                self.lanes.push(session, Work::Append(append, reply));
            }
            StoreMessage::Claim { session, whole, reply } => self.lanes.push(session, Work::Claim(whole, reply)),
            StoreMessage::Load { session, reply } => self.lanes.push(session, Work::Load(None, reply)),
            StoreMessage::LoadPart { session, part, reply } => self.lanes.push(session, Work::Load(Some(part), reply)),
            StoreMessage::Release { session, epoch, reply } => self.lanes.push(session, Work::Release(epoch, reply)),
            StoreMessage::Delete { session, reply } => self.lanes.push(session, Work::Delete(reply)),
            StoreMessage::List { filter, cursor, reply } => {
                let store = Arc::clone(&self.store.0);
                let work = async move { reply.send(store.list(&filter, cursor.as_deref()).await) };
                self.run(myself, alone(work), || Ended::Aside);
            }
            StoreMessage::Ping { reply } => reply.send(()),
            StoreMessage::BatchEnded => {
                while let Ok(ended) = self.ended.try_recv() {
                    self.one_ended(myself, ended);
                }
            }
        }
    }

    fn one_ended(&mut self, myself: &ActorRef<StoreMessage>, ended: Ended) {
        match ended {
            Ended::Batch(batch, left) => self.batch_ended(myself, batch, left),
            Ended::One(session) => self.lanes.one_ended(&session),
            Ended::Aside => {}
        }
    }

    /// Does what waits, without a mailbox, and has the store write it all.
    async fn finish(&mut self, myself: &ActorRef<StoreMessage>) {
        loop {
            self.go_on(myself);
            if self.lanes.is_empty() {
                break;
            }
            // Whatever runs tells when it is done; this actor holds the other end itself.
            let Some(ended) = self.ended.recv().await else { break };
            self.one_ended(myself, ended);
        }
    }

    /// The short way for an append that nothing else is in the way of: with a store
    /// in memory it is answered before the queue ever hears of it.
    fn append_alone(&mut self, myself: &ActorRef<StoreMessage>, append: Append, reply: Reply<Result<u64, StoreError>>) {
        let store = &self.store.0;
        let append = match catch_unwind(AssertUnwindSafe(|| store.append_now(append))) {
            Ok(Ok(answer)) => return reply.send(answer),
            Ok(Err(append)) => append,
            Err(_panic) => return tracing::error!("the store panicked; its asker gets no answer"),
        };
        let batch = self.lanes.batch_started(append.session.clone());
        let work = store_batch(Arc::clone(&self.store.0), vec![append], vec![reply]);
        if let Some(left) = self.run(myself, work, || Ended::Batch(batch, Left::new())) {
            self.batch_ended(myself, batch, left);
        }
    }

    /// The next batch may start; what this one left behind goes on in tasks.
    fn batch_ended(&mut self, myself: &ActorRef<StoreMessage>, batch: u64, left: Left) {
        let sessions: Vec<_> = left.iter().map(|(session, _)| session.clone()).collect();
        self.lanes.batch_ended(batch, &sessions);
        for (session, rest) in left {
            self.go_on_in_task(myself, alone(rest), Ended::One(session));
        }
    }

    fn go_on(&mut self, myself: &ActorRef<StoreMessage>) {
        while let Some(start) = self.lanes.start() {
            match start {
                Start::Batch(batch, appends, replies) => {
                    let work = store_batch(Arc::clone(&self.store.0), appends, replies);
                    if let Some(left) = self.run(myself, work, || Ended::Batch(batch, Left::new())) {
                        self.batch_ended(myself, batch, left);
                    }
                }
                Start::One(session, work) => {
                    let future = perform(Arc::clone(&self.store.0), session.clone(), work);
                    if self.run(myself, future, || Ended::One(session.clone())).is_some() {
                        self.lanes.one_ended(&session);
                    }
                }
            }
        }
    }

    /// Polls the work once and leaves the rest to a task. Returns what ended, if it has. Work that panics has ended
    /// too: the replies in it are dropped, so its callers receive that there is no answer.
    fn run(
        &self,
        myself: &ActorRef<StoreMessage>,
        mut work: BoxFuture<'static, Left>,
        ended: impl FnOnce() -> Ended,
    ) -> Option<Left> {
        let mut context = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(left)) => Some(left),
            Ok(Poll::Pending) => {
                self.go_on_in_task(myself, work, ended());
                None
            }
            Err(_panic) => Some(panicked()),
        }
    }

    fn go_on_in_task(&self, myself: &ActorRef<StoreMessage>, work: BoxFuture<'static, Left>, ended: Ended) {
        let (tell, myself) = (self.tell.clone(), myself.clone());
        tokio::spawn(async move {
            let left = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| panicked());
            let ended = match ended {
                Ended::Batch(batch, _) => Ended::Batch(batch, left),
                Ended::One(_) | Ended::Aside => ended,
            };
            // Either fails only when the actor has ended, which is no error here.
            drop(tell.send(ended));
            drop(myself.send_message(StoreMessage::BatchEnded));
        });
    }
}

fn panicked() -> Left {
    tracing::error!("the store panicked; its askers get no answer");
    Left::new()
}

/// Work that leaves nothing behind.
fn alone(work: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, Left> {
    work.map(|()| Left::new()).boxed()
}

fn store_batch(
    store: Arc<dyn SessionStore>,
    appends: Vec<Append>,
    replies: Vec<Reply<Result<u64, StoreError>>>,
) -> BoxFuture<'static, Left> {
    async move {
        let sessions: Vec<_> = appends.iter().map(|append| append.session.clone()).collect();
        let replies = telling(&*store, &appends, replies);
        let mut held: HashMap<SessionId, Vec<_>> = HashMap::new();
        let answers = store.append_apart(appends).await;
        for ((session, reply), answer) in sessions.into_iter().zip(replies).zip(answers) {
            match answer {
                Stored::Now(answer) => reply.send(answer),
                Stored::Later(answer) => {
                    held.entry(session).or_default().push(answer.map(move |answer| match answer {
                        Some(answer) => reply.send(answer),
                        None => drop(reply),
                    }))
                }
            }
        }
        held.into_iter().map(|(session, rest)| (session, join_all(rest).map(drop).boxed())).collect()
    }
    .boxed()
}

/// Tells the artifact store of what records name, when they are durable.
fn telling(
    store: &dyn SessionStore,
    appends: &[Append],
    replies: Vec<Reply<Result<u64, StoreError>>>,
) -> Vec<Reply<Result<u64, StoreError>>> {
    let names = |append: &Append| append.records.iter().any(|record| record.fact.artifacts().next().is_some());
    if !appends.iter().any(names) {
        return replies;
    }
    let Some(artifacts) = store.artifacts() else { return replies };
    let tell = |(append, reply): (&Append, Reply<Result<u64, StoreError>>)| {
        let named = append.records.iter().flat_map(|record| record.fact.artifacts());
        let (ids, session): (Vec<_>, _) = (named.map(|artifact| artifact.id.clone()).collect(), append.session.clone());
        if ids.is_empty() {
            return reply;
        }
        let artifacts = Arc::clone(&artifacts);
        Reply::to(move |answer: Option<Result<u64, StoreError>>| {
            if matches!(answer, Some(Ok(_)))
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(async move { artifacts.recorded(&session, &ids).await });
            }
            match answer {
                Some(answer) => reply.send(answer),
                None => drop(reply),
            }
        })
    };
    appends.iter().zip(replies).map(tell).collect()
}

fn perform(store: Arc<dyn SessionStore>, session: SessionId, work: Work) -> BoxFuture<'static, Left> {
    match work {
        Work::Append(append, reply) => store_batch(store, vec![append], vec![reply]),
        Work::Claim(true, reply) => alone(async move { reply.send(store.claim(&session).await) }),
        Work::Claim(false, reply) => alone(async move { reply.send(store.claim_latest(&session).await) }),
        Work::Load(None, reply) => alone(async move { reply.send(store.load(&session).await) }),
        Work::Load(Some(part), reply) => alone(async move { reply.send(store.load_part(&session, part).await) }),
        Work::Release(epoch, reply) => alone(async move {
            store.release(&session, epoch).await;
            reply.send(());
        }),
        Work::Delete(reply) => alone(async move { reply.send(store.delete(&session).await) }),
    }
}
