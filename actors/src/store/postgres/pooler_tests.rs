//! A real pooler between the store and the database.

use super::database::{is_there, url};
use super::*;
use crate::store::postgres::address::Address;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// PgBouncer before the database of the tests.
struct Pooler {
    process: Child,
    url: String,
    _folder: TempDir,
}

impl Pooler {
    /// `None` where PgBouncer is not installed, which is said past the capture of the harness.
    fn start(test: &str, mode: &str) -> Option<Self> {
        if !is_there(test) {
            return None;
        }
        if Command::new("pgbouncer").arg("--version").output().is_err() {
            let _ = writeln!(std::io::stderr(), "skipped: store::postgres::{test}: pgbouncer is not installed");
            return None;
        }
        let url = url();
        let (user, place) = url.split_once("://").unwrap().1.split_once('@').unwrap();
        let ((name, password), (server, database)) = (user.split_once(':').unwrap(), place.split_once('/').unwrap());
        let (host, server_port) = server.split_once(':').unwrap();
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n{database} = host={host} port={server_port} user={name} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = {mode}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut run = match rustix::process::geteuid().is_root() {
            // It refuses to run as root; the server's user is there.
            true => {
                let owned = Command::new("chown").args(["-R", "postgres"]).arg(folder.path()).status().unwrap();
                assert!(owned.success());
                let mut run = Command::new("runuser");
                run.args(["-u", "postgres", "--", "pgbouncer"]);
                run
            }
            false => Command::new("pgbouncer"),
        };
        let process = run.arg("-q").arg(&file).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut pooler =
            Self { process, url: format!("postgres://{name}@127.0.0.1:{port}/{database}"), _folder: folder };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert_eq!(pooler.process.try_wait().unwrap(), None, "it started");
            std::thread::yield_now();
        }
        Some(pooler)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // `runuser` passes TERM on, and is killed otherwise without its child.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.process),
            rustix::process::Signal::TERM,
        );
        let _ = self.process.wait();
    }
}

#[test]
fn a_pooler_that_gives_its_connections_to_others_is_refused_by_name() {
    for mode in ["transaction", "statement"] {
        let Some(pooler) = Pooler::start("a_pooler_that_gives_its_connections_to_others", mode) else { return };
        let why = PostgresStore::open(&pooler.url, StoreOptions::default()).map(drop).unwrap_err().to_string();
        assert!(
            why.contains("is a pooler that changes the server's connection between two statements"),
            "{mode}: {why}"
        );
    }
}

/// As a pooler answers that changed the connection between the two halves of one prepared statement, which happens at times.
#[tokio::test]
async fn a_prepared_statement_of_another_connection_is_the_sign_of_a_pooler() {
    if !is_there("a_prepared_statement_of_another_connection") {
        return;
    }
    let address = Address::parse(&url()).unwrap();
    let (client, connection) = address.config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("PREPARE there AS SELECT 1").await.unwrap();
    for statement in ["EXECUTE not_there", "PREPARE there AS SELECT 1"] {
        let error = client.batch_execute(statement).await.unwrap_err();
        let why = address.failed("read", &error).to_string();
        assert!(why.contains("is a pooler that changes the server's connection"), "{statement}: {why}");
    }
}

#[test]
fn a_pooler_that_keeps_a_connection_for_its_client_is_a_way_to_the_database() {
    let Some(pooler) = Pooler::start("a_pooler_that_keeps_a_connection", "session") else { return };
    assert!(PostgresStore::open(&pooler.url, StoreOptions::default()).is_ok());
}
