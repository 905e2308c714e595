//! A page of a listing costs as much as is on it, however many sessions rest.

use super::database::{Schema, connected, schema};
use super::reader::query;
use super::*;
use bob_messages::Millis;
use bob_messages::store::SessionState;

/// Sessions of which few are of a tenant, of a parent, or wait for something.
const RESTING: &str = "INSERT INTO bob_sessions (id, epoch, version, bytes, updated_at, title, state, tenant, parent)
    SELECT md5(n::text), 1, 8, 4000, 1700000000000 + n, repeat('t', 60),
           CASE n WHEN 3 THEN 'approval' WHEN 4 THEN 'running' ELSE 'idle' END,
           CASE WHEN n < 6 THEN 'rare' WHEN n % 2 = 0 THEN 'often' END, CASE WHEN n < 6 THEN 'top' END
    FROM generate_series(1, 20000) n";

/// As many pages of the tables as a few sessions and the way to them are, and far less than all sessions.
const FEW: u64 = 200;

/// How many pages of its tables and indexes the database read for a page of a listing, and how many sessions were on it.
async fn read(schema: &Schema, filter: &SessionFilter) -> (u64, usize) {
    let query = query(filter, (Millis::MAX, ""), 101);
    let client = connected(&schema.url()).await;
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", query.text);
    let plan = client.query(&explain, &query.values()).await.unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    // The first one is that of the whole plan: "Buffers: shared hit=3 read=4".
    let buffers = plan.iter().find(|line| line.contains("Buffers: shared")).map_or("", String::as_str);
    let counts = buffers.split(' ').filter_map(|word| word.strip_prefix("hit=").or_else(|| word.strip_prefix("read=")));
    let pages = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    (pages, client.query(&query.text, &query.values()).await.unwrap().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_filter_reads_all_sessions() {
    let Some(schema) = schema("no_filter_reads_all_sessions") else { return };
    let store = schema.open("ann", false);
    claim(&store, &session("zzz")).await;
    schema.run(RESTING);
    schema.run("ANALYZE bob_sessions");
    let pages = "SELECT (pg_relation_size('bob_sessions') / 8192)::text";
    assert!(schema.one(pages).parse::<u64>().unwrap() > 2 * FEW, "there are more pages than few");
    let third: String = schema.one("SELECT md5('3')");
    let every = SessionFilter::default();
    let cases = [
        ("the last ones", 101, every.clone()),
        ("a tenant", 5, SessionFilter { tenant: Some("rare".into()), ..every.clone() }),
        ("a large tenant", 101, SessionFilter { tenant: Some("often".into()), ..every.clone() }),
        ("a parent", 5, SessionFilter { parent: Some(session("top")), ..every.clone() }),
        ("what waits", 1, SessionFilter { state: Some(SessionState::Approval), ..every.clone() }),
        ("what runs", 1, SessionFilter { state: Some(SessionState::Running), ..every.clone() }),
        ("what rests", 101, SessionFilter { state: Some(SessionState::Idle), ..every.clone() }),
        ("an id", 1, SessionFilter { prefix: Some(third.clone()), ..every.clone() }),
        ("the beginning of an id", 1, SessionFilter { prefix: Some(third[..8].to_owned()), ..every.clone() }),
        ("below an id", 0, SessionFilter { prefix: Some(format!("{third}.")), ..every.clone() }),
        ("no tenant", 0, SessionFilter { tenant: Some("none".into()), ..every.clone() }),
    ];
    for (what, sessions, filter) in cases {
        let (pages, rows) = read(&schema, &filter).await;
        assert_eq!(rows, sessions, "{what}");
        assert!(pages < FEW, "{what}: {pages} pages were read");
    }
}
