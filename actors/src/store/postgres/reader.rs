//! What is read: loads and listings, on a connection of their own, beside each other.

use super::again::reading;
use super::contents;
use super::job::Ask;
use super::link::Link;
use super::looks::Looks;
use super::overview;
use super::owners;
use super::tables::{Entry, damaged, entry_columns, records, signed};
use super::up::{Unread, Up};
use crate::store::listing;
use crate::store::span::Span;
use bob_messages::Millis;
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::store::{Record, SessionFilter, SessionPage, SessionState, SessionSummary, StoreError};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

/// Answers until all senders are dropped.
pub(super) async fn run(link: Rc<Link>, mut asks: UnboundedReceiver<Ask>) {
    let (mut asked, looks) = (JoinSet::new(), Rc::<Looks>::default());
    while let Some(ask) = asks.recv().await {
        let (link, looks) = (Rc::clone(&link), Rc::clone(&looks));
        asked.spawn_local(async move {
            match ask {
                Ask::Load(session, span, reply) => reply.send(load(&link, &looks, &session, span).await),
                Ask::Owner(session, reply) => reply.send(owners::owner(&link, &session).await),
                Ask::Overview(reply) => reply.send(overview::overview(&link).await),
                Ask::List(filter, cursor, reply) => reply.send(list(&link, &filter, cursor.as_deref()).await),
                Ask::Artifacts(read) => contents::read(&link, read).await,
            }
        });
        while asked.try_join_next().is_some() {}
    }
}

const FIND: &str = concat!("SELECT ", entry_columns!(), " FROM bob_sessions s WHERE s.id = $1");

pub(super) async fn find(up: &Up, session: &SessionId) -> Result<Option<Entry>, Error> {
    let statement = up.prepared(FIND).await?;
    Ok(up.ask(up.client.query_opt(&statement, &[&session.as_str()])).await?.map(|row| Entry::of(&row)))
}

async fn load(link: &Link, looks: &Looks, session: &SessionId, span: Span) -> Result<Vec<Arc<Record>>, StoreError> {
    reading(link, 1, Vec::new, async |up| {
        if looks.finds_nothing(&up, session, span).await? {
            return Ok(Vec::new());
        }
        loop {
            let found = find(&up, session).await?;
            looks.note(session, span, found.as_ref());
            let Some(entry) = found else { return Ok(Vec::new()) };
            if let Some(damage) = &entry.damage {
                return Err(Unread::Bad(damaged(&link.address, session, damage)));
            }
            if let Some(read) = records(&up, &link.address, session, entry.number, entry.bounds(span)).await? {
                return Ok(read);
            }
        }
    })
    .await
}

/// The page behind a session that was written at a time.
const LIST: &str =
    "SELECT id, updated_at, bytes, title, state, turns, parent, cwd, created_at, tenant FROM bob_sessions
    WHERE damage IS NULL AND updated_at <= $1 AND (updated_at < $1 OR id > $2)";

/// A statement with its values.
pub(super) struct Query {
    pub(super) text: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Query {
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.text += &format!(" {condition} ${}", self.values.len());
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

/// A page of so many sessions. It has a condition for each filter that is set and for no other one, and is planned for its values:
/// a filter that few sessions pass is looked up in an index of its own, and the others in that of time.
pub(super) fn query(filter: &SessionFilter, (at, behind): (Millis, &str), most: i64) -> Query {
    let mut query = Query { text: LIST.to_owned(), values: vec![Box::new(at), Box::new(behind.to_owned())] };
    if let Some(prefix) = filter.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
        query.add("AND id >=", prefix.to_owned());
        // The last character that there is: ids are compared by their bytes.
        query.add("AND id <", format!("{prefix}{}", char::MAX));
    }
    if let Some(state) = filter.state {
        query.add("AND state =", state.as_str());
    }
    if let Some(parent) = &filter.parent {
        query.add("AND parent =", parent.as_str().to_owned());
    }
    if let Some(tenant) = &filter.tenant {
        query.add("AND tenant =", tenant.as_str().to_owned());
    }
    query.add("ORDER BY updated_at DESC, id LIMIT", most);
    query
}

const DAMAGED: &str =
    "SELECT id, damage FROM bob_sessions WHERE damage IS NOT NULL AND starts_with(id, $1) ORDER BY id";

async fn list(link: &Link, filter: &SessionFilter, cursor: Option<&str>) -> Result<SessionPage, StoreError> {
    // A cursor that is none is refused also while there is nothing to list.
    let behind = listing::after(cursor)?.unwrap_or((Millis::MAX, ""));
    let (prefix, limit) = (filter.prefix.as_deref().unwrap_or_default(), listing::limit(filter));
    let query = query(filter, behind, signed(limit as u64).saturating_add(1));
    reading(link, 1, SessionPage::default, async |up| {
        // Not prepared: the plan of a prepared one is soon the same for all values.
        let wanted = up.ask(up.client.query(&query.text, &query.values())).await?;
        let sessions = wanted.iter().take(limit).filter_map(summary).collect();
        let mut page = listing::page_of_cut(sessions, wanted.len() > limit);
        if cursor.is_none() {
            let damaged = up.ask(up.client.query(DAMAGED, &[&prefix])).await?;
            page.quarantined = damaged.iter().map(|row| (row.get(0), row.get(1))).collect();
        }
        Ok(page)
    })
    .await
}

fn summary(row: &Row) -> Option<SessionSummary> {
    let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
    let text = |column: usize| row.get::<_, Option<&str>>(column);
    let session = SessionId::parse(row.get(0)).ok()?;
    Some(SessionSummary {
        title: text(3).map(Into::into),
        state: text(4).map_or(Some(SessionState::Idle), SessionState::parse),
        turns: Some(count(5)),
        parent: text(6).and_then(|id| SessionId::parse(id).ok()),
        cwd: text(7).map(Into::into),
        created_at: row.get(8),
        tenant: text(9).map(TenantId::new),
        ..SessionSummary::bare(session, row.get(1), count(2))
    })
}
