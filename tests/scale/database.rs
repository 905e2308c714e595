//! A schema for each test, in the database that `BOB_TEST_POSTGRES` names.

use crate::home::{AGENT, Home};
use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::terminal::Terminal;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const DATABASE: &str = "BOB_TEST_POSTGRES";

/// A schema, which is dropped with this.
pub(crate) struct Database {
    name: String,
    pub(crate) server: String,
}

impl Database {
    /// An empty one. Without a server the test is skipped, which is said past the capture of the harness.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let Ok(server) = std::env::var(DATABASE) else {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {test}: {DATABASE} names no database; sh scripts/postgres.sh run COMMAND sets it"
            );
            return None;
        };
        Some(Self::on(server))
    }

    /// An empty one on this server.
    pub(crate) fn on(server: String) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("bob_test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let database = Self { name, server };
        database.sql(&format!("CREATE SCHEMA {}", database.name));
        database
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?options=-c%20search_path%3D{}", self.server, self.name)
    }

    /// Runs statements and answers what they print.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.asked(sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    fn asked(&self, sql: &str) -> Result<String, String> {
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        let said = psql.args(["--command", sql]).arg(self.url()).output().expect("psql runs");
        match said.status.success() {
            true => Ok(String::from_utf8(said.stdout).unwrap().trim().to_owned()),
            false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
        }
    }

    /// A database of its own on this server, in which nothing else happens; it is dropped with this.
    pub(crate) fn alone(&self) -> Alone<'_> {
        self.sql(&format!("CREATE DATABASE {}", self.name));
        Alone { beside: self, name: self.name.clone() }
    }

    /// Runs a query until it prints this; a minute at most. A process that has begun may not have made the tables yet.
    #[track_caller]
    pub(crate) fn until(&self, sql: &str, expected: &str) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let said = self.asked(sql);
            if said.as_deref() == Ok(expected) {
                return;
            }
            assert!(std::time::Instant::now() < end, "{sql} does not become {expected}: {said:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// A machine that uses it, whose model is this provider.
    pub(crate) fn machine(&self, provider: &FakeProvider) -> Machine<'_> {
        let home = Home::served_by(provider);
        Machine::of(self, home)
    }

    /// A machine that uses it, whose model answers `hello`.
    pub(crate) fn scripted(&self) -> Machine<'_> {
        Machine::of(self, Home::scripted(&serde_json::json!([{ "replies": [{ "text": "hello" }] }])))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.sql(&format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", self.name));
    }
}

/// A database in which nothing else happens than what a test does.
pub(crate) struct Alone<'d> {
    beside: &'d Database,
    name: String,
}

impl Alone<'_> {
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.beside.server.rsplit_once('/').unwrap().0, self.name)
    }

    /// How many statements it has committed, each a transaction of its own. The server counts up to some seconds late.
    pub(crate) fn commits(&self) -> i64 {
        let count = "SELECT xact_commit FROM pg_stat_database WHERE datname";
        self.beside.sql(&format!("{count} = '{}'", self.name)).parse().unwrap()
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.beside.sql(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// A folder with a configuration that uses a database.
pub(crate) struct Machine<'d> {
    pub(crate) home: Home,
    database: &'d Database,
}

impl<'d> Machine<'d> {
    pub(super) fn of(database: &'d Database, home: Home) -> Self {
        let config = home.scratch.read("agent.toml");
        home.scratch.agent_toml(&format!("{config}[store]\nkind = \"postgres\"\nurl = \"${{DATABASE_URL}}\"\n"));
        Self { home, database }
    }

    pub(crate) fn agent<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        self.at(&self.database.url(), args)
    }

    /// With another address of the database.
    pub(crate) fn at<'a>(&self, url: &str, args: impl IntoIterator<Item = &'a str>) -> Program {
        let folder = self.home.scratch.path();
        let program = Program::new(AGENT).dir(folder).env("DATABASE_URL", url);
        let program = program.env("XDG_STATE_HOME", self.home.scratch.join("state"));
        program.env("XDG_RUNTIME_DIR", self.home.scratch.folder("runtime")).args(["--config", "agent.toml"]).args(args)
    }

    /// On a terminal.
    #[track_caller]
    pub(crate) fn terminal(&self, args: &[&str]) -> Terminal {
        let folder = self.home.scratch.path();
        let (state, runtime) = (self.home.scratch.join("state"), self.home.scratch.folder("runtime"));
        let url = self.database.url();
        let env = [
            ("DATABASE_URL", url.as_str()),
            ("XDG_STATE_HOME", state.to_str().unwrap()),
            ("XDG_RUNTIME_DIR", runtime.to_str().unwrap()),
        ];
        let args = [&["--config", "agent.toml"], args].concat();
        Terminal::start(AGENT, &args, folder, &env).deadline(std::time::Duration::from_secs(60))
    }

    #[track_caller]
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        self.agent(args).run()
    }
}
