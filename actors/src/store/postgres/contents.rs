//! Large parts of records, as rows.
//!
//! `bob_artifacts` has a row for each content, `bob_artifact_pieces` its bytes, `bob_artifact_holders` a row for each session
//! that has it. The database removes a session's rows with the session, and content with the last of its holders: by triggers, so
//! that a program of an older version does it as well.
//!
//! What is written has a connection of its own and is done one after the other, each put in one transaction: one that is
//! interrupted leaves nothing, and no append waits behind content. Both ways content goes in pieces, between which the
//! thread does its other work.

use super::again::{reading, writing, writing_until};
use super::link::{Link, PATIENCE};
use super::node::Node;
use super::schema::HAS_ARTIFACTS;
use super::tables::signed;
use super::up::Up;
use crate::store::artifacts::{StoredArtifact, clipped};
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use bob_messages::reply::Reply;
use bob_messages::store::StoreError;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_postgres::{Error, Row};

/// How long what has waited for long is repeated all the same.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// The most bytes that one statement writes or reads.
const PIECE: usize = 1 << 20;

pub(super) enum Write {
    Put(SessionId, ArtifactId, Arc<Vec<u8>>, Reply<Result<(), StoreError>>),
    Share { from: SessionId, to: SessionId, ids: Vec<ArtifactId>, reply: Reply<Result<(), StoreError>> },
    Recorded(SessionId, Vec<ArtifactId>, Reply<Result<(), StoreError>>),
    Delete { session: SessionId, ids: Vec<ArtifactId>, only_unrecorded: bool, reply: Reply<Result<(), StoreError>> },
    DeleteAll(SessionId, Reply<Result<usize, StoreError>>),
}

/// What is written, and since when it waits: its patience begins there, and not behind what waits before it.
pub(super) struct Sent {
    pub(super) write: Write,
    pub(super) at: Instant,
}

/// What is only read.
pub(super) enum Read {
    Get(SessionId, ArtifactId, Range<u64>, Reply<Result<Option<Vec<u8>>, StoreError>>),
    List(SessionId, Reply<Result<Vec<StoredArtifact>, StoreError>>),
    Unrecorded(usize, Reply<Result<BySession, StoreError>>),
}

pub(super) type BySession = Vec<(SessionId, Vec<ArtifactId>)>;

/// Writes until all senders are dropped. What was to be put for somebody who is gone is not: no record would name it.
pub(super) async fn run(link: Link, node: Node, mut writes: UnboundedReceiver<Sent>) {
    while let Some(Sent { write, at }) = writes.recv().await {
        match write {
            Write::Put(session, id, content, mut reply) => {
                if !reply.is_abandoned() {
                    let until = (at + PATIENCE).max(Instant::now() + LEAST_PATIENCE);
                    reply.send(put(&link, &node, &session, &id, &content, until).await);
                }
            }
            Write::Share { from, to, ids, reply } => reply.send(share(&link, &node, [&from, &to], &ids).await),
            Write::Recorded(session, ids, reply) => reply.send(change(&link, RECORDED, &session, &ids).await),
            Write::Delete { session, ids, only_unrecorded, reply } => {
                let delete = if only_unrecorded { DELETE_UNRECORDED } else { DELETE };
                reply.send(change(&link, delete, &session, &ids).await);
            }
            Write::DeleteAll(session, reply) => reply.send(delete_all(&link, &session).await),
        }
    }
}

pub(super) async fn read(link: &Link, read: Read) {
    match read {
        Read::Get(session, id, range, reply) => reply.send(get(link, &session, &id, &range).await),
        Read::List(session, reply) => reply.send(list(link, &session).await),
        Read::Unrecorded(most, reply) => reply.send(unrecorded(link, most).await),
    }
}

const MAKE: &str = "INSERT INTO bob_artifacts (bytes) VALUES ($1) RETURNING number";

/// Before its record is there, an artifact has the number of the process that put it.
const HOLD: &str = "INSERT INTO bob_artifact_holders AS h (session, id, artifact, node) VALUES ($1, $2, $3, $4)
    ON CONFLICT (session, id) DO UPDATE SET node = excluded.node RETURNING h.artifact";

const WRITE_PIECE: &str = "INSERT INTO bob_artifact_pieces (artifact, start, content) VALUES ($1, $2, $3)";

const UNMAKE: &str = "DELETE FROM bob_artifacts WHERE number = $1";

async fn put(
    link: &Link,
    node: &Node,
    session: &SessionId,
    id: &ArtifactId,
    content: &[u8],
    until: Instant,
) -> Result<(), StoreError> {
    let ours = node.ours().await?;
    writing_until(until, link, async |up| {
        // A process that stands still in between keeps nobody for long from putting the same. A piece may be longer on its
        // way than a moment: the server counts that, too.
        let begin = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '15s'";
        up.ask(up.client.batch_execute(begin)).await?;
        let put = put_rows(&up, ours, session, id, content).await;
        if put.is_err() {
            // Where this fails as well, the connection is lost, which ends the transaction.
            let _ = up.ask(up.client.batch_execute("ROLLBACK")).await;
        }
        Ok(put?)
    })
    .await
}

async fn put_rows(up: &Up, ours: i32, session: &SessionId, id: &ArtifactId, content: &[u8]) -> Result<(), Error> {
    let make = up.prepared(MAKE).await?;
    let made: i64 = up.ask(up.client.query_one(&make, &[&signed(content.len() as u64)])).await?.get(0);
    let hold = up.prepared(HOLD).await?;
    let held = up.ask(up.client.query_one(&hold, &[&session.as_str(), &id.as_str(), &made, &ours])).await?;
    if held.get::<_, i64>(0) == made {
        let piece = up.prepared(WRITE_PIECE).await?;
        for (number, bytes) in content.chunks(PIECE).enumerate() {
            let start = signed((number * PIECE) as u64);
            up.ask(up.client.execute(&piece, &[&made, &start, &bytes])).await?;
        }
    } else {
        // The session has it already.
        up.ask(up.client.execute(UNMAKE, &[&made])).await?;
    }
    up.ask(up.client.batch_execute("COMMIT")).await
}

/// Content that is removed meanwhile is waited for, and not given.
const SHARE: &str = "INSERT INTO bob_artifact_holders (session, id, artifact, node)
    SELECT $2, h.id, h.artifact, $4 FROM bob_artifact_holders h JOIN bob_artifacts a ON a.number = h.artifact
    WHERE h.session = $1 AND h.id = ANY ($3) ORDER BY h.artifact FOR KEY SHARE OF a
    ON CONFLICT (session, id) DO UPDATE SET node = excluded.node";

async fn share(link: &Link, node: &Node, [from, to]: [&SessionId; 2], ids: &[ArtifactId]) -> Result<(), StoreError> {
    let ours = node.ours().await?;
    let ids: Vec<&str> = ids.iter().map(ArtifactId::as_str).collect();
    writing(link, async |up| {
        let statement = up.prepared(SHARE).await?;
        up.ask(up.client.execute(&statement, &[&from.as_str(), &to.as_str(), &ids, &ours])).await?;
        Ok(())
    })
    .await
}

const RECORDED: &str = "UPDATE bob_artifact_holders h SET node = NULL
    WHERE h.session = $1 AND h.id = ANY ($2) AND h.node IS NOT NULL";

/// Whether the process that put `h` is known no more. Its row stays for an hour behind its lease, and as long as it owns a session:
/// until then it may go on, and record what it put.
macro_rules! is_left {
    () => {
        "(h.node IS NOT NULL AND NOT EXISTS (SELECT FROM bob_nodes n WHERE n.number = h.node))"
    };
}

const DELETE: &str = concat!(
    "DELETE FROM bob_artifact_holders h WHERE h.session = $1 AND h.id = ANY ($2) AND (h.node IS NULL OR ",
    is_left!(),
    ")"
);

const DELETE_UNRECORDED: &str =
    concat!("DELETE FROM bob_artifact_holders h WHERE h.session = $1 AND h.id = ANY ($2) AND ", is_left!());

/// Changes what sessions have. Where there are no tables, there is nothing to change.
async fn change(
    link: &Link,
    statement: &'static str,
    session: &SessionId,
    ids: &[ArtifactId],
) -> Result<(), StoreError> {
    if link.to_read_of(HAS_ARTIFACTS, Instant::now() + PATIENCE).await?.is_none() {
        return Ok(());
    }
    let ids: Vec<&str> = ids.iter().map(ArtifactId::as_str).collect();
    writing(link, async |up| {
        let statement = up.prepared(statement).await?;
        up.ask(up.client.execute(&statement, &[&session.as_str(), &ids])).await?;
        Ok(())
    })
    .await
}

const DELETE_ALL: &str = "DELETE FROM bob_artifact_holders WHERE session = $1";

async fn delete_all(link: &Link, session: &SessionId) -> Result<usize, StoreError> {
    if link.to_read_of(HAS_ARTIFACTS, Instant::now() + PATIENCE).await?.is_none() {
        return Ok(0);
    }
    writing(link, async |up| {
        let statement = up.prepared(DELETE_ALL).await?;
        let count = up.ask(up.client.execute(&statement, &[&session.as_str()])).await?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    })
    .await
}

const FIND: &str = "SELECT a.number, a.bytes FROM bob_artifact_holders h JOIN bob_artifacts a ON a.number = h.artifact
    WHERE h.session = $1 AND h.id = $2";

/// What there is from a byte on, to the end of its piece.
const READ_PIECE: &str =
    "SELECT substring(p.content FROM ($2 - p.start)::integer + 1 FOR $3) FROM bob_artifact_pieces p
    WHERE p.artifact = $1 AND p.start <= $2 ORDER BY p.start DESC LIMIT 1";

async fn get(
    link: &Link,
    session: &SessionId,
    id: &ArtifactId,
    range: &Range<u64>,
) -> Result<Option<Vec<u8>>, StoreError> {
    reading(
        link,
        HAS_ARTIFACTS,
        || None,
        async |up| {
            let find = up.prepared(FIND).await?;
            let found = up.ask(up.client.query_opt(&find, &[&session.as_str(), &id.as_str()])).await?;
            let Some(row) = found else { return Ok(None) };
            let (number, bytes): (i64, i64) = (row.get(0), row.get(1));
            let wanted = clipped(range, usize::try_from(bytes).unwrap_or_default());
            let read = up.prepared(READ_PIECE).await?;
            let mut content = Vec::new();
            while content.len() < wanted.len() {
                let next = signed((wanted.start + content.len()) as u64);
                let most = (wanted.len() - content.len()).min(PIECE) as i32;
                let row = up.ask(up.client.query_opt(&read, &[&number, &next, &most])).await?;
                match row.as_ref().map(|row| row.get::<_, &[u8]>(0)) {
                    Some(piece) if !piece.is_empty() => content.extend_from_slice(piece),
                    // It was removed meanwhile.
                    Some(_) | None => return Ok(None),
                }
            }
            Ok(Some(content))
        },
    )
    .await
}

const LIST: &str = "SELECT h.id, a.bytes FROM bob_artifact_holders h JOIN bob_artifacts a ON a.number = h.artifact
    WHERE h.session = $1 ORDER BY h.id";

async fn list(link: &Link, session: &SessionId) -> Result<Vec<StoredArtifact>, StoreError> {
    reading(link, HAS_ARTIFACTS, Vec::new, async |up| {
        let statement = up.prepared(LIST).await?;
        let rows = up.ask(up.client.query(&statement, &[&session.as_str()])).await?;
        let stored = |row: &Row| {
            let bytes = u64::try_from(row.get::<_, i64>(1)).unwrap_or_default();
            ArtifactId::parse(row.get(0)).ok().map(|id| StoredArtifact { id, bytes })
        };
        Ok(rows.iter().filter_map(stored).collect())
    })
    .await
}

const UNRECORDED: &str = concat!(
    "SELECT h.session, h.id FROM bob_artifact_holders h WHERE ",
    is_left!(),
    " ORDER BY h.session, h.id LIMIT $1"
);

async fn unrecorded(link: &Link, most: usize) -> Result<BySession, StoreError> {
    reading(link, HAS_ARTIFACTS, Vec::new, async |up| {
        let rows = up.ask(up.client.query(UNRECORDED, &[&signed(most as u64)])).await?;
        let mut found = BySession::new();
        for row in &rows {
            let (Ok(session), Ok(id)) = (SessionId::parse(row.get(0)), ArtifactId::parse(row.get(1))) else { continue };
            match found.last_mut().filter(|(known, _)| *known == session) {
                Some((_, ids)) => ids.push(id),
                None => found.push((session, vec![id])),
            }
        }
        Ok(found)
    })
    .await
}
