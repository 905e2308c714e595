//! Questions that many tasks ask again and again while nothing happens: whether a journal has grown, and whether a message
//! still waits. Each kind goes into one statement for all of this process, [`APART`] from the one before.

use super::tables::Entry;
use super::together::Together;
use super::up::Up;
use crate::store::span::Span;
use bob_messages::ids::SessionId;
use bob_messages::inbox::InboxKey;
use bob_messages::store::Part;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Error;

/// Between two statements of a kind. A question that comes alone waits for nothing.
const APART: Duration = Duration::from_millis(100);

/// The most questions of one statement.
const MOST: usize = 2_000;

/// How many readers that found nothing are remembered. With more, some of them are forgotten, and look alone once.
const REMEMBERED: usize = 20_000;

/// Whether journals have grown of which a reader has read all.
pub(super) struct Looks {
    /// The version behind which the last look at a session found nothing.
    idle: RefCell<HashMap<SessionId, u64>>,
    versions: Together<SessionId, i64>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { idle: RefCell::default(), versions: Together::apart(MOST, APART) }
    }
}

/// The version of each session: 0 of one that is not there, -1 of a damaged one.
const VERSIONS: &str = "SELECT coalesce((SELECT CASE WHEN s.damage IS NULL THEN s.version ELSE -1 END
        FROM bob_sessions s WHERE s.id = k.id), 0)
    FROM unnest($1::text[]) WITH ORDINALITY AS k(id, n) ORDER BY n";

impl Looks {
    /// Whether there is nothing to read for one who found nothing there before. Any other reader waits for no statement of others.
    pub(super) async fn finds_nothing(&self, up: &Up, session: &SessionId, span: Span) -> Result<bool, Error> {
        let Span::Part(Part::Page { behind, .. }) = span else { return Ok(false) };
        if self.idle.borrow().get(session) != Some(&behind) {
            return Ok(false);
        }
        let ask = async |sessions: Vec<SessionId>| {
            let statement = up.prepared(VERSIONS).await?;
            let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
            let rows = up.ask(up.client.query(&statement, &[&ids])).await?;
            Ok::<_, Error>(rows.iter().map(|row| row.get(0)).collect())
        };
        let version: Option<i64> = self.versions.ask(session.clone(), ask).await?;
        let finds = version.and_then(|version| u64::try_from(version).ok()).is_some_and(|version| version <= behind);
        if !finds {
            self.idle.borrow_mut().remove(session);
        }
        Ok(finds)
    }

    /// What a reader found who looked alone.
    pub(super) fn note(&self, session: &SessionId, span: Span, found: Option<&Entry>) {
        let Span::Part(Part::Page { behind, .. }) = span else { return };
        if found.is_some_and(|entry| entry.damage.is_some() || entry.version > behind) {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= REMEMBERED {
            idle.clear();
        }
        idle.insert(session.clone(), behind);
    }
}

/// What is known of messages whose senders wait.
pub(super) struct Standings(Together<InboxKey, Option<String>>);

impl Default for Standings {
    fn default() -> Self {
        Self(Together::apart(MOST, APART))
    }
}

/// How a message is answered that waits. A refusal is an object.
const WAITS: &str = "waits";

const STANDINGS: &str = "SELECT (SELECT coalesce(i.refusal, 'waits')
        FROM bob_inbox i WHERE i.session = k.session AND i.request = k.request)
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k(session, request, n) ORDER BY n";

impl Standings {
    /// The refusal of a message, `None` where it waits; `None` where there is none.
    pub(super) async fn of(&self, up: &Up, key: &InboxKey) -> Result<Option<Option<String>>, Error> {
        let ask = async |keys: Vec<InboxKey>| look(up, &keys).await;
        let found = match self.0.ask(key.clone(), ask).await? {
            Some(found) => found,
            // The statement of another one failed.
            None => look(up, std::slice::from_ref(key)).await?.pop().flatten(),
        };
        Ok(found.map(|refusal| Some(refusal).filter(|refusal| refusal != WAITS)))
    }
}

async fn look(up: &Up, keys: &[InboxKey]) -> Result<Vec<Option<String>>, Error> {
    let statement = up.prepared(STANDINGS).await?;
    let sessions: Vec<&str> = keys.iter().map(|key| key.session.as_str()).collect();
    let requests: Vec<&str> = keys.iter().map(|key| key.request.as_str()).collect();
    let rows = up.ask(up.client.query(&statement, &[&sessions, &requests])).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
