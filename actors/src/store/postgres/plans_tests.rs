//! How the server finds the rows of what is written: by an index that names the session, however little it knows of the tables
//! when it plans.

use super::appends::{APPEND, FREE};
use super::claims::{CLAIM, DELETE, DELETE_LATE, RELEASE};
use super::database::{connected, schema};
use super::due;
use super::link::{LOOKED_UP, PLANNED_ONCE};
use crate::store::contract::{claim, session};
use tokio_postgres::{Client, SimpleQueryMessage};

/// The indexes that have one row for a session, or one for a record.
const OF_ONE: [&str; 3] = ["bob_sessions_id_key", "bob_sessions_pkey", "bob_records_pkey"];

/// The plan of a statement with so many values, none of which is known.
async fn plan(client: &Client, sql: &str, values: usize) -> Vec<String> {
    let nulls = vec!["NULL"; values].join(", ");
    let explain = format!("PREPARE p AS {sql}; EXPLAIN (COSTS OFF) EXECUTE p({nulls}); DEALLOCATE p");
    let rows = client.simple_query(&explain).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let lines = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _other => None,
    });
    lines.map(str::to_owned).collect()
}

fn reads_all(plan: &[String]) -> bool {
    ["bob_sessions", "bob_records", "bob_inbox"]
        .iter()
        .any(|table| plan.iter().any(|line| line.contains(&format!("Seq Scan on {table}"))))
}

/// The index of `bob_sessions` that a line of a plan names.
fn index(line: &str) -> Option<&str> {
    let named = line.split(" using ").nth(1).or_else(|| line.split("Bitmap Index Scan on ").nth(1))?;
    named.split(' ').next().filter(|name| name.starts_with("bob_sessions"))
}

#[tokio::test]
async fn what_a_writer_writes_is_looked_up_by_session() {
    let Some(schema) = schema("what_a_writer_writes_is_looked_up_by_session") else { return };
    // The tables are new: the server plans with what it assumes of empty ones.
    claim(&schema.open("ann", false), &session("one")).await;
    let client = connected(&schema.url()).await;
    client.batch_execute(PLANNED_ONCE).await.unwrap();
    for (sql, values) in [(APPEND, 16), (CLAIM, 6), (RELEASE, 3), (DELETE, 3), (DELETE_LATE, 1), (FREE, 1)] {
        let plan = plan(&client, sql, values).await;
        let are_of_one = plan.iter().filter_map(|line| index(line)).all(|index| OF_ONE.contains(&index));
        assert!(!reads_all(&plan) && are_of_one, "{}", plan.join("\n"));
        assert!(plan.iter().any(|line| OF_ONE.iter().any(|index| line.contains(index))), "{}", plan.join("\n"));
    }
}

#[tokio::test]
async fn a_look_for_something_to_do_reads_no_whole_table() {
    let Some(schema) = schema("a_look_for_something_to_do_reads_no_whole_table") else { return };
    claim(&schema.open("ann", false), &session("one")).await;
    let client = connected(&schema.url()).await;
    let plan_before = plan(&client, due::FREE, 7).await;
    assert!(reads_all(&plan_before), "an empty table is read whole unless that is forbidden");
    client.batch_execute(LOOKED_UP).await.unwrap();
    let plan = plan(&client, due::FREE, 7).await;
    assert!(!reads_all(&plan), "{}", plan.join("\n"));
}
