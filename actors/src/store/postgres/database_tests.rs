//! A schema for each test, in the database that `BOB_TEST_POSTGRES` names.

use crate::store::{PostgresStore, SessionStore, StoreOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The URL of a database for tests; `scripts/postgres.sh run` sets it.
const DATABASE: &str = "BOB_TEST_POSTGRES";

/// Whether there is a database. Says which test is skipped where there is none, past the capture of the harness.
pub(super) fn is_there(test: &str) -> bool {
    let is_there = std::env::var_os(DATABASE).is_some();
    if !is_there {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: store::postgres::{test}: {DATABASE} names no database; sh scripts/postgres.sh run COMMAND sets it"
        );
    }
    is_there
}

pub(super) fn url() -> String {
    std::env::var(DATABASE).expect("it was looked for")
}

/// An empty schema, which is dropped with this.
#[derive(Debug)]
pub(super) struct Schema {
    name: String,
}

/// An empty schema for a test, where there is a database.
pub(super) fn schema(test: &str) -> Option<Schema> {
    is_there(test).then(|| {
        let name = format!("bob_test_{:016x}", fastrand::u64(..));
        run(&url(), &format!("CREATE SCHEMA {name}"));
        Schema { name }
    })
}

impl Schema {
    pub(super) fn url(&self) -> String {
        in_schema(&self.name)
    }

    pub(super) fn open(&self, owner: &str, take_over: bool) -> Arc<dyn SessionStore> {
        PostgresStore::open(
            &self.url(),
            StoreOptions { take_over, owner_name: owner.to_owned(), ..StoreOptions::default() },
        )
        .unwrap()
    }

    pub(super) fn run(&self, sql: &str) {
        run(&self.url(), sql);
    }

    /// The one text that a query answers.
    pub(super) fn one(&self, sql: &str) -> String {
        run(&self.url(), sql).expect("it answers a row")
    }

    /// Waits until this answers such a text.
    pub(super) async fn until(&self, sql: &str, is_it: impl Fn(&str) -> bool) {
        within(async {
            while !is_it(&self.one(sql)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    pub(super) fn tables(&self) -> String {
        let sql = "SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '') FROM pg_class
                   WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
        self.one(sql)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        run(&url(), &format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

fn in_schema(name: &str) -> String {
    let url = url();
    let join = if url.contains('?') { '&' } else { '?' };
    format!("{url}{join}options=-c%20search_path%3D{name}")
}

/// A connection that a test uses beside the store.
pub(super) async fn connected(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// What ends, however busy the machine is.
pub(super) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends")
}

/// Opens a store in a schema of its own for each folder.
pub(super) fn open_in(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
    let name = blake3::hash(folder.as_os_str().as_encoded_bytes()).to_hex();
    let name = format!("bob_test_{}", &name[..16]);
    let create = format!("SELECT pg_advisory_xact_lock(1); CREATE SCHEMA IF NOT EXISTS {name}");
    run(&url(), &create);
    PostgresStore::open(&in_schema(&name), options).unwrap()
}

/// Runs statements on a connection of their own. Answers the first column of the last row.
pub(super) fn run(url: &str, sql: &str) -> Option<String> {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let said = client.simple_query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            said.iter().rev().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _other => None,
            })
        })
    });
    thread.join().unwrap()
}
