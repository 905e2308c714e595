//! The database of a run: a cluster of the soak's own, which it may restart, or a schema of its own in one that was named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, config::Host};

use crate::soak::error::SoakError;

/// How long a cluster may take to start, and how often another port is tried.
const STARTED_WITHIN: Duration = Duration::from_secs(60);
const PORTS_TRIED: u32 = 20;

/// Where Debian has the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

pub(super) struct Database {
    /// The server as it was named, or is.
    server: String,
    schema: String,
    cluster: Option<Cluster>,
}

struct Cluster {
    folder: TempDir,
    binaries: PathBuf,
    port: u16,
}

impl Database {
    /// Starts a cluster, or makes a schema in the database of this URL.
    /// Errors: `Usage` when PostgreSQL is not installed, or the database cannot be reached or written.
    pub(super) async fn start(url: Option<&str>) -> Result<Self, SoakError> {
        let (server, cluster) = match url {
            Some(url) => (url.to_owned(), None),
            None => {
                let (cluster, url) = Cluster::start().await?;
                (url, Some(cluster))
            }
        };
        let schema = format!("bob_soak_{}_{:x}", std::process::id(), fastrand::u32(..));
        let database = Self { server, schema, cluster };
        database.target()?;
        database.run(&format!("CREATE SCHEMA {}", database.schema)).await.map_err(SoakError::usage)?;
        Ok(database)
    }

    /// Its URL, with the schema of the run, by way of this port of the loopback interface if there is one.
    pub(super) fn url(&self, port: Option<u16>) -> String {
        let (base, query) = self.server.split_once('?').unwrap_or((&self.server, ""));
        let base = match (port, base.rsplit_once('@')) {
            (Some(port), Some((user, place))) => {
                let name = place.split_once('/').map_or("", |(_, name)| name);
                format!("{user}@127.0.0.1:{port}/{name}")
            }
            _ => base.to_owned(),
        };
        let and = if query.is_empty() { String::new() } else { format!("{query}&") };
        format!("{base}?{and}options=-c%20search_path%3D{}", self.schema)
    }

    /// The host and port of the server. Errors: `Usage` when the URL names none.
    pub(super) fn target(&self) -> Result<(String, u16), SoakError> {
        let config = self.config()?;
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match config.get_hosts().first() {
            Some(Host::Tcp(host)) if self.server.contains('@') => Ok((host.clone(), port)),
            _ => Err(SoakError::usage("the URL of the database is postgres://USER:PASSWORD@HOST:PORT/DATABASE")),
        }
    }

    fn config(&self) -> Result<Config, SoakError> {
        // The error may repeat the URL, and with it the password.
        self.url(None).parse().map_err(|_quotes: tokio_postgres::Error| {
            SoakError::usage(
                "the URL of the database does not read; its form is postgres://USER:PASSWORD@HOST:PORT/DATABASE",
            )
        })
    }

    /// The process of the soak's own server.
    pub(super) fn postmaster(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.cluster.as_ref()?.data().join("postmaster.pid")).ok()?;
        text.lines().next()?.trim().parse().ok()
    }

    /// Stops the soak's own server as a crash would, and starts it again.
    pub(super) async fn restart(&self) -> Result<(), SoakError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        cluster.stop().await;
        cluster.start_on(cluster.port).await.map_err(SoakError::internal)
    }

    pub(super) async fn run(&self, sql: &str) -> Result<Vec<Vec<String>>, String> {
        let said = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(error) => format!("the database refused: {}", error.message()),
            None => format!("the database cannot be reached without TLS: {error}"),
        };
        let config = self.config().map_err(|error| error.to_string())?;
        let (client, connection) = config.connect(NoTls).await.map_err(said)?;
        let driver = tokio::spawn(connection);
        let rows = rows(&client, sql).await.map_err(said);
        drop(client);
        // It ends with its client.
        let _ended = driver.await;
        rows
    }

    /// Ends a cluster with everything in it, or removes the schema.
    pub(super) async fn end(&self) {
        match &self.cluster {
            Some(cluster) => cluster.stop().await,
            None => {
                let drop = format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", self.schema);
                if let Err(why) = self.run(&drop).await {
                    tracing::warn!(schema = self.schema, why, "the schema of the soak is left in the database");
                }
            }
        }
    }
}

async fn rows(client: &Client, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let columns = |row: tokio_postgres::SimpleQueryRow| {
        (0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect()
    };
    Ok(messages
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(columns(row)),
            _ => None,
        })
        .collect())
}

impl Cluster {
    async fn start() -> Result<(Self, String), SoakError> {
        let binaries = installed().ok_or_else(|| {
            SoakError::usage("PostgreSQL is not installed (Debian: apt-get install postgresql-15); install it, or give --store the URL of a database")
        })?;
        let internal = |error: std::io::Error| SoakError::internal(format!("cannot make a cluster: {error}"));
        let folder = tempfile::Builder::new().prefix("bob-soak-db-").tempdir().map_err(internal)?;
        let password = format!("{:016x}", fastrand::u64(..));
        std::fs::write(folder.path().join("password"), &password).map_err(internal)?;
        let mut cluster = Self { folder, binaries, port: 0 };
        let path = cluster.folder.path().to_string_lossy().into_owned();
        if is_root() {
            let mut chown = Command::new("chown");
            chown.args(["-R", "postgres:", &path]);
            finished(chown).await.map_err(SoakError::internal)?;
        }
        let mut initdb = cluster.server("initdb");
        initdb.arg("--pgdata").arg(cluster.data()).args(["--username=bob", "--auth=scram-sha-256", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--pwfile"]).arg(cluster.folder.path().join("password"));
        finished(initdb).await.map_err(SoakError::internal)?;
        let mut why = String::new();
        for _attempt in 0..PORTS_TRIED {
            cluster.port = fastrand::u16(20_000..32_000);
            match cluster.start_on(cluster.port).await {
                Ok(()) => {
                    let url = format!("postgres://bob:{password}@127.0.0.1:{}/postgres", cluster.port);
                    return Ok((cluster, url));
                }
                Err(error) => why = error,
            }
            if !cluster.log().contains("Address already in use") {
                break;
            }
        }
        Err(SoakError::internal(format!("the cluster did not start: {why} {}", cluster.log())))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().join("; ")
    }

    async fn start_on(&self, port: u16) -> Result<(), String> {
        let mut start = self.server("pg_ctl");
        start.args(["start", "--wait", "--silent", "--pgdata"]).arg(self.data());
        start.arg("--log").arg(self.folder.path().join("log"));
        start.arg(format!(
            "--options=-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c max_connections=200"
        ));
        // The server would keep a pipe open.
        start.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        finished(start).await
    }

    async fn stop(&self) {
        let mut stop = self.server("pg_ctl");
        stop.args(["stop", "--mode=immediate", "--wait", "--silent", "--pgdata"]).arg(self.data());
        if let Err(why) = finished(stop).await {
            tracing::warn!(why, "the cluster of the soak could not be stopped");
        }
    }

    /// A program of PostgreSQL, as a user that it accepts, in a folder that this user may enter.
    fn server(&self, program: &str) -> Command {
        let path = self.binaries.join(program);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(path);
                command
            }
            false => Command::new(path),
        };
        command.current_dir("/").stdin(std::process::Stdio::null()).process_group(0);
        command
    }
}

impl Drop for Cluster {
    /// A run that was given up leaves no server.
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            let stop = self
                .server("pg_ctl")
                .as_std_mut()
                .arg("stop")
                .args(["--mode=immediate", "--silent", "--pgdata"])
                .arg(self.data())
                .status();
            if let Err(error) = stop {
                tracing::warn!(%error, "the cluster of the soak could not be stopped");
            }
        }
    }
}

async fn finished(mut command: Command) -> Result<(), String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = tokio::time::timeout(STARTED_WITHIN, command.output()).await;
    let output =
        output.map_err(|_late| format!("{name} takes too long"))?.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {} {}", output.status, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The folder with the programs: of the newest version that Debian has, or one of PATH.
fn installed() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder): &(u32, PathBuf)| folder.join("initdb").exists())
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = || std::env::split_paths(&path).find(|folder: &PathBuf| has_all(folder));
    versions.pop().map(|(_, folder)| folder).or_else(of_path)
}

fn has_all(folder: &Path) -> bool {
    folder.join("initdb").exists() && folder.join("pg_ctl").exists()
}
