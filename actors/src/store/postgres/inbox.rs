//! Messages to sessions, in the table `bob_inbox`: kept once by session and request id, and taken by the session's owner.
//!
//! Other processes are notified when something changed: at most once in [`NOTIFIED_EACH`] for all that changed here meanwhile,
//! since a notification takes a lock of the whole server. It names the sessions, so that those who wait for others ask nothing.

use super::again::{reading, writing};
use super::bell::{Bell, Untold};
use super::due;
use super::link::Link;
use super::looks::Standings;
use super::node::{Node, lives};
use super::schema::HAS_INBOX;
use super::together::Together;
use super::up::{Unread, Up};
use crate::store::StoreFuture;
use crate::store::inbox::{Due, Inbox, MOST_WAITING, full};
use bob_messages::error::AgentError;
use bob_messages::ids::{PoolName, RequestId, SessionId};
use bob_messages::inbox::{InboxEntry, InboxKey, InboxMessage, InboxStanding};
use bob_messages::reply::Reply;
use bob_messages::store::{Pools, StoreError};
use futures_util::future::{BoxFuture, FutureExt};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Error, Row};

/// Messages that are removed, and whether they were there.
type Settled = Together<InboxKey, bool>;

/// Between two notifications.
const NOTIFIED_EACH: Duration = Duration::from_millis(20);

pub(super) enum Ask {
    Put(InboxMessage, Reply<Result<bool, StoreError>>),
    Take(SessionId, Reply<Result<Vec<InboxEntry>, StoreError>>),
    Settle(InboxKey, Option<AgentError>, Reply<Result<bool, StoreError>>),
    Standing(InboxKey, Reply<Result<InboxStanding, StoreError>>),
    Due(usize, BTreeSet<SessionId>, Reply<Result<Vec<Due>, StoreError>>),
    /// Hear of what others change.
    Listen,
}

/// The way to the task, which it does not keep alive.
#[derive(Debug)]
pub(super) struct PostgresInbox {
    asks: WeakUnboundedSender<Ask>,
    bell: Arc<Bell>,
}

impl PostgresInbox {
    pub(super) fn of(asks: &UnboundedSender<Ask>, bell: &Arc<Bell>) -> Arc<dyn Inbox> {
        Arc::new(Self { asks: asks.downgrade(), bell: Arc::clone(bell) })
    }

    fn listen(&self) {
        if let Some(asks) = self.asks.upgrade() {
            drop(asks.send(Ask::Listen));
        }
    }

    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(Reply<Result<T, StoreError>>) -> Ask) -> StoreFuture<'static, T> {
        let (reply, answer) = Reply::channel();
        if let Some(asks) = self.asks.upgrade() {
            drop(asks.send(ask(reply)));
        }
        answer.map(|answer| answer.unwrap_or_else(|| Err(super::ended()))).boxed()
    }
}

impl Inbox for PostgresInbox {
    fn put(&self, message: InboxMessage) -> StoreFuture<'_, bool> {
        self.ask(|reply| Ask::Put(message, reply))
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InboxEntry>> {
        self.ask(|reply| Ask::Take(session.clone(), reply))
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> StoreFuture<'_, bool> {
        self.ask(|reply| Ask::Settle(key, refusal, reply))
    }

    fn standing(&self, key: InboxKey) -> StoreFuture<'_, InboxStanding> {
        self.ask(|reply| Ask::Standing(key, reply))
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> StoreFuture<'a, Vec<Due>> {
        self.ask(|reply| Ask::Due(most, known.clone(), reply))
    }

    fn finds_open_turns(&self) -> bool {
        true
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.listen();
        self.bell.changed.notified().boxed()
    }

    fn told_of(&self, session: &SessionId) -> Option<BoxFuture<'static, ()>> {
        self.listen();
        Some(self.bell.of(session))
    }
}

/// Answers until all senders are dropped, and ends what was asked then.
pub(super) async fn run(
    link: Rc<Link>,
    (node, pools): (Node, Pools),
    bell: Arc<Bell>,
    mut asks: UnboundedReceiver<Ask>,
) {
    let (walk, settled) = (Rc::new(due::Walk::of(pools)), Rc::<Settled>::default());
    let (untold, standings) = (Rc::<Untold>::default(), Rc::<Standings>::default());
    let notifying = spawn_local(notify_others(Rc::clone(&link), Rc::clone(&untold)));
    let suspects = due::Suspects::new(bell);
    let mut asked = JoinSet::new();
    while let Some(ask) = asks.recv().await {
        let (link, node, untold, suspects) = (Rc::clone(&link), node.clone(), Rc::clone(&untold), suspects.clone());
        let (walk, settled, standings) = (Rc::clone(&walk), Rc::clone(&settled), Rc::clone(&standings));
        asked.spawn_local(async move {
            match ask {
                Ask::Put(message, reply) => {
                    reply.send(put(&link, &message).await);
                    untold.tell(&message.session);
                }
                Ask::Take(session, reply) => reply.send(take(&link, &session).await),
                Ask::Settle(key, refusal, reply) => {
                    reply.send(settle(&link, (&node, &settled), &key, refusal.as_ref()).await);
                    untold.tell(&key.session);
                }
                Ask::Standing(key, reply) => reply.send(standing(&link, &standings, &key).await),
                Ask::Due(most, known, reply) => {
                    reply.send(due::due(&link, (&node, &walk), &suspects, most, &known).await);
                }
                Ask::Listen => node.listen(),
            }
        });
        while asked.try_join_next().is_some() {}
    }
    while asked.join_next().await.is_some() {}
    notifying.abort();
}

/// Tells all processes that something changed.
async fn notify_others(link: Rc<Link>, untold: Rc<Untold>) {
    loop {
        let named = untold.named().await;
        let told = async {
            let up = link.to_write(Instant::now()).await?;
            let channel = super::link::CHANNEL;
            let told = up.ask(up.client.execute(&format!("SELECT pg_notify({channel}, $1)"), &[&named])).await;
            told.map_err(|error| link.address.failed("write", &error))
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "other processes were not notified of a message; they find it when they look");
        }
        sleep(NOTIFIED_EACH).await;
    }
}

const PUT: &str = "INSERT INTO bob_inbox AS i (session, request, message, pool) SELECT $1, $2, $3, $5
    WHERE (SELECT count(*) FROM bob_inbox WHERE session = $1 AND refusal IS NULL) < $4
    ON CONFLICT (session, request) DO UPDATE SET number = DEFAULT, message = $3, pool = $5, refusal = NULL, refused_at = NULL,
        put_at = clock_timestamp() WHERE i.refusal IS NOT NULL";

const IS_THERE: &str = "SELECT refusal FROM bob_inbox WHERE session = $1 AND request = $2";

async fn put(link: &Link, message: &InboxMessage) -> Result<bool, StoreError> {
    let text = message.to_text()?;
    let (session, request, most) = (message.session.as_str(), message.request_id.as_str(), MOST_WAITING as i64);
    let pool = message.request.pool().map(PoolName::as_str);
    writing(link, async |up| {
        // Twice, since one that was there may be settled before it is looked at.
        for _attempt in 0..2 {
            let statement = up.prepared(PUT).await?;
            if up.ask(up.client.execute(&statement, &[&session, &request, &text, &most, &pool])).await? == 1 {
                return Ok(true);
            }
            let statement = up.prepared(IS_THERE).await?;
            let there = up.ask(up.client.query_opt(&statement, &[&session, &request])).await?;
            if there.is_some_and(|row| row.get::<_, Option<&str>>(0).is_none()) {
                return Ok(false);
            }
        }
        Err(Unread::Bad(full()))
    })
    .await
}

/// How many bytes of messages are taken at once, in addition to cancellations; the oldest one in any case.
const TAKEN_BYTES: i64 = 64 << 20;

/// Cancellations and decisions are small, and a turn may wait for them. Their form is that of a message as JSON, in which the
/// quotes of other texts are escaped.
const TAKE: &str = "SELECT request, message FROM (
        SELECT number, request, message,
               sum(octet_length(message)) OVER (ORDER BY number) - octet_length(message) AS bytes_before
        FROM bob_inbox WHERE session = $1 AND refusal IS NULL) waiting
    WHERE bytes_before < $2
       OR (octet_length(message) < 65536 AND (message LIKE '%\"request\":{\"type\":\"cancel\"%'
                                              OR message LIKE '%\"request\":{\"type\":\"decide\"%'))
    ORDER BY number";

async fn take(link: &Link, session: &SessionId) -> Result<Vec<InboxEntry>, StoreError> {
    reading(link, HAS_INBOX, Vec::new, async |up| {
        let statement = up.prepared(TAKE).await?;
        let rows = up.ask(up.client.query(&statement, &[&session.as_str(), &TAKEN_BYTES])).await?;
        let entry = |row: &Row| InboxEntry::parse(RequestId::new(row.get::<_, &str>(0)), row.get(1));
        Ok(rows.iter().map(entry).collect())
    })
    .await
}

const DONE: &str = "DELETE FROM bob_inbox i USING unnest($1::text[], $2::text[]) AS k(session, request)
    WHERE i.session = k.session AND i.request = k.request RETURNING i.session, i.request";

/// Not while another process owns the session, which runs the message itself.
const REFUSE: &str = concat!(
    "UPDATE bob_inbox SET refusal = $3, refused_at = clock_timestamp() WHERE session = $1 AND request = $2 AND NOT EXISTS (
         SELECT FROM bob_sessions s JOIN bob_nodes n ON n.number = s.node
         WHERE s.id = $1 AND s.node <> $4 AND ",
    lives!(),
    ")"
);

async fn settle(
    link: &Link,
    (node, settled): (&Node, &Settled),
    key: &InboxKey,
    refusal: Option<&AgentError>,
) -> Result<bool, StoreError> {
    let why = refusal.map(serde_json::to_string).transpose();
    let why = why.map_err(|error| StoreError::Unavailable(format!("the refusal cannot be written: {error}")))?;
    let (session, request) = (key.session.as_str(), key.request.as_str());
    writing(link, async |up| match &why {
        None => {
            let together = settled.ask(key.clone(), async |keys| remove(&up, &keys).await).await?;
            match together {
                Some(was_there) => Ok(was_there),
                None => Ok(remove(&up, std::slice::from_ref(key)).await? == [true]),
            }
        }
        Some(why) => {
            let statement = up.prepared(REFUSE).await?;
            let ours = node.known().unwrap_or_default();
            Ok(up.ask(up.client.execute(&statement, &[&session, &request, why, &ours])).await? > 0)
        }
    })
    .await
}

/// Removes messages in one statement. Answers of each whether it was there.
async fn remove(up: &Up, keys: &[InboxKey]) -> Result<Vec<bool>, Error> {
    let statement = up.prepared(DONE).await?;
    let sessions: Vec<&str> = keys.iter().map(|key| key.session.as_str()).collect();
    let requests: Vec<&str> = keys.iter().map(|key| key.request.as_str()).collect();
    let rows = up.ask(up.client.query(&statement, &[&sessions, &requests])).await?;
    let mut removed: HashSet<(&str, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    Ok(sessions.into_iter().zip(requests).map(|key| removed.remove(&key)).collect())
}

async fn standing(link: &Link, standings: &Standings, key: &InboxKey) -> Result<InboxStanding, StoreError> {
    reading(
        link,
        HAS_INBOX,
        || InboxStanding::Gone,
        async |up| {
            let bad = |error| Unread::Bad(StoreError::Corrupt(format!("a refusal in bob_inbox: {error}")));
            match standings.of(&up, key).await? {
                None => Ok(InboxStanding::Gone),
                Some(None) => Ok(InboxStanding::Waiting),
                Some(Some(why)) => Ok(InboxStanding::Refused(Box::new(serde_json::from_str(&why).map_err(bad)?))),
            }
        },
    )
    .await
}
