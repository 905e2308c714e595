//! What is read: loads and listings, on a connection of their own, beside each other.

use super::again::reading;
use super::contents;
use super::job::Ask;
use super::link::Link;
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
    let mut asked = JoinSet::new();
    while let Some(ask) = asks.recv().await {
        let link = Rc::clone(&link);
        asked.spawn_local(async move {
            match ask {
                Ask::Load(session, span, reply) => reply.send(load(&link, &session, span).await),
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

async fn load(link: &Link, session: &SessionId, span: Span) -> Result<Vec<Arc<Record>>, StoreError> {
    reading(link, 1, Vec::new, async |up| {
        loop {
            let Some(entry) = find(&up, session).await? else { return Ok(Vec::new()) };
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

const LIST: &str =
    "SELECT id, updated_at, bytes, title, state, turns, parent, cwd, created_at, tenant FROM bob_sessions
    WHERE damage IS NULL AND updated_at <= $1 AND (updated_at < $1 OR id > $2) AND starts_with(id, $3)
      AND ($5::text IS NULL OR state = $5) AND ($6::text IS NULL OR parent = $6) AND ($7::text IS NULL OR tenant = $7)
    ORDER BY updated_at DESC, id LIMIT $4";

const DAMAGED: &str =
    "SELECT id, damage FROM bob_sessions WHERE damage IS NOT NULL AND starts_with(id, $1) ORDER BY id";

async fn list(link: &Link, filter: &SessionFilter, cursor: Option<&str>) -> Result<SessionPage, StoreError> {
    // A cursor that is none is refused also while there is nothing to list.
    let (at, behind) = listing::after(cursor)?.unwrap_or((Millis::MAX, ""));
    let (prefix, limit) = (filter.prefix.as_deref().unwrap_or_default(), listing::limit(filter));
    let state = filter.state.map(SessionState::as_str);
    let parent = filter.parent.as_ref().map(SessionId::as_str);
    let tenant = filter.tenant.as_ref().map(TenantId::as_str);
    reading(link, 1, SessionPage::default, async |up| {
        let more = signed(limit as u64).saturating_add(1);
        let statement = up.prepared(LIST).await?;
        let values: [&(dyn ToSql + Sync); 7] = [&at, &behind, &prefix, &more, &state, &parent, &tenant];
        let wanted = up.ask(up.client.query(&statement, &values)).await?;
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
