//! Databases as the programs of older formats left them: rows of their tables, which the store reads and goes on with.

use super::database::{Schema, schema};
use super::schema::STEPS;
use crate::store::fixtures_tests::{check, folder_of, is_writing, told, write};
use bob_messages::store::FORMAT;
use std::fs;
use std::path::PathBuf;

/// The first format of which there is one.
const FIRST: u32 = 4;

/// What else the tables hold is of processes, or of messages that wait.
const SESSIONS: &str = "number, id, epoch, version, bytes, updated_at, damage, snapshot, title, state, turns, parent, cwd, created_at, tenant";

fn file_of(format: u32) -> PathBuf {
    folder_of(format).join("postgres.sql")
}

/// Statements that make the tables and fill them.
fn dumped(schema: &Schema) -> String {
    let rows = |table: &str, columns: &str| {
        let of_row =
            format!("format('INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE VALUES (%s);', row_values)");
        let quoted: Vec<String> = columns.split(", ").map(|column| format!("quote_nullable({column})")).collect();
        let values = format!(
            "SELECT concat_ws(', ', {}) AS row_values, row_number() OVER (ORDER BY {columns}) AS place FROM {table}",
            quoted.join(", ")
        );
        schema.one(&format!("SELECT string_agg({of_row}, E'\\n' ORDER BY place) FROM ({values}) rows"))
    };
    let meta = format!(
        "CREATE TABLE bob_meta (application text PRIMARY KEY, version integer NOT NULL);\nINSERT INTO bob_meta VALUES ('bob', {});",
        STEPS.len()
    );
    let filled = [rows("bob_sessions", SESSIONS), rows("bob_records", "session, version, line")];
    let next =
        "SELECT setval(pg_get_serial_sequence('bob_sessions', 'number'), (SELECT max(number) FROM bob_sessions));";
    [
        vec![meta],
        STEPS.iter().map(|step| step.trim_end().to_owned()).collect(),
        filled.to_vec(),
        vec![next.to_owned(), String::new()],
    ]
    .concat()
    .join("\n")
}

#[tokio::test]
async fn databases_of_every_format_are_read_and_gone_on_with() {
    let test = "databases_of_every_format_are_read_and_gone_on_with";
    if is_writing()
        && let Some(schema) = schema(test)
    {
        let store = schema.open("bob (a fixture)", false);
        write(&store, &told(FORMAT)).await;
        drop(store);
        fs::write(file_of(FORMAT), dumped(&schema)).unwrap();
    }
    for format in FIRST..=FORMAT {
        let Some(schema) = schema(test) else { return };
        schema.run(&fs::read_to_string(file_of(format)).unwrap());
        check(&schema.open("bob", false), &told(format), &format!("format {format}, postgres")).await;
    }
}
