//! What the database knows of all processes and messages, in one statement.

use super::again::reading;
use super::link::Link;
use super::node::lives;
use super::schema::HAS_POOLS;
use crate::store::overview::{EmptyPool, MOST_NODES, StoreNode, StoreOverview};
use bob_messages::ids::PoolName;
use bob_messages::store::StoreError;
use tokio_postgres::Row;

/// The figures of processes are in the tables of this version, and are read from those that lack them.
///
/// It reads the sessions that are owned or have an open turn, and the messages that are there, by their indexes. The totals stand
/// in each row, of which there is one at least.
const OVERVIEW: &str = concat!(
    "WITH nodes AS MATERIALIZED (
         SELECT n.number, n.name, n.address, ",
    lives!(),
    " AS is_alive, (extract(epoch FROM clock_timestamp() - n.renewed_at) * 1000)::bigint AS renewed_ms, n.pools,
                to_jsonb(n) ->> 'figures' AS figures FROM bob_nodes n),
     owned AS MATERIALIZED (
         SELECT s.node, count(*) AS sessions, count(*) FILTER (WHERE s.state = 'running') AS running
         FROM bob_sessions s WHERE s.node IS NOT NULL GROUP BY s.node),
     waiting AS MATERIALIZED (
         SELECT count(*) AS messages, count(DISTINCT session) AS sessions,
                (extract(epoch FROM clock_timestamp() - min(put_at)) * 1000)::bigint AS oldest_ms
         FROM bob_inbox WHERE refusal IS NULL)
     SELECT (SELECT count(*) FROM nodes),
            (SELECT count(*) FROM bob_sessions s LEFT JOIN nodes o ON o.number = s.node
             WHERE s.state = 'running' AND s.damage IS NULL AND NOT coalesce(o.is_alive, false)),
            w.messages, w.sessions, w.oldest_ms,
            (SELECT count(*) FROM bob_inbox WHERE refusal IS NOT NULL),
            n.number, n.name, n.address, n.is_alive, n.renewed_ms, coalesce(o.sessions, 0), coalesce(o.running, 0), n.pools, n.figures
     FROM waiting w LEFT JOIN nodes n ON true LEFT JOIN owned o ON o.node = n.number
     ORDER BY n.is_alive DESC, n.number DESC LIMIT $1"
);

/// It joins the messages that wait for sessions of a pool with these.
const EMPTY_POOLS: &str = concat!(
    "SELECT w.pool, count(*) FROM (
         SELECT coalesce(s.pool, i.pool) AS pool FROM bob_inbox i LEFT JOIN bob_sessions s ON s.id = i.session
         WHERE i.refusal IS NULL) w
     WHERE w.pool IS NOT NULL AND NOT EXISTS (SELECT FROM bob_nodes n WHERE w.pool = ANY (n.pools) AND ",
    lives!(),
    ") GROUP BY w.pool ORDER BY w.pool LIMIT $1"
);

pub(super) async fn overview(link: &Link) -> Result<StoreOverview, StoreError> {
    reading(link, HAS_POOLS, StoreOverview::default, async |up| {
        let statement = up.prepared(OVERVIEW).await?;
        let rows = up.ask(up.client.query(&statement, &[&MOST_NODES])).await?;
        let Some(first) = rows.first() else { return Ok(StoreOverview::default()) };
        let statement = up.prepared(EMPTY_POOLS).await?;
        let empty = up.ask(up.client.query(&statement, &[&MOST_NODES])).await?;
        Ok(StoreOverview {
            nodes: rows.iter().filter_map(node).collect(),
            all_nodes: count(first, 0),
            open_turns: count(first, 1),
            waiting: count(first, 2),
            waiting_sessions: count(first, 3),
            oldest_ms: first.get::<_, Option<i64>>(4).map(|ms| u64::try_from(ms).unwrap_or_default()),
            refused: count(first, 5),
            empty_pools: empty.iter().filter_map(empty_pool).collect(),
        })
    })
    .await
}

fn node(row: &Row) -> Option<StoreNode> {
    Some(StoreNode {
        number: u32::try_from(row.get::<_, Option<i32>>(6)?).ok()?,
        name: row.get(7),
        address: Some(row.get::<_, String>(8)).filter(|address| !address.is_empty()),
        is_alive: row.get(9),
        renewed_ms: count(row, 10),
        sessions: count(row, 11),
        running: count(row, 12),
        pools: row.get::<_, Vec<&str>>(13).into_iter().filter_map(|name| PoolName::parse(name).ok()).collect(),
        figures: row.get::<_, Option<&str>>(14).and_then(|figures| serde_json::from_str(figures).ok()),
    })
}

fn empty_pool(row: &Row) -> Option<EmptyPool> {
    Some(EmptyPool { name: PoolName::parse(row.get(0)).ok()?, waiting: count(row, 1) })
}

fn count(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or_default()
}
