//! Where the database is, and what went wrong with it, in words that name no password.

use super::failure::is_broken;
use super::tls::{Tls, Untrusted};
use bob_messages::store::StoreError;
use std::io;
use std::time::Duration;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};

/// How long one attempt to connect may take.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// How long a connection may be silent before it is probed, and how long what was sent may stay without an answer of the
/// network: a machine that is gone answers nothing.
const SILENT: Duration = Duration::from_secs(10);

/// How the URL of a database begins.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

const FORM: &str = "postgres://USER:PASSWORD@HOST:PORT/DATABASE";

/// A database as its URL names it.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Tls,
    /// `host:port`, for people.
    server: String,
    user: String,
    database: String,
}

impl Address {
    /// # Errors
    /// `Unavailable` for what is no URL of a database. The text does not repeat the URL, which may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let refuse = |why: &str| StoreError::Unavailable(format!("the URL of the database {why}; its form is {FORM}"));
        let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme));
        let Some(rest) = rest else { return Err(refuse("does not begin with postgres:// or postgresql://")) };
        // What is behind the first one would pass for the host, which errors name.
        let (place, _options) = rest.split_once('?').unwrap_or((rest, ""));
        if place.matches('@').count() > 1 {
            return Err(refuse("has more than one @; write %40 for each that is part of the user or of the password"));
        }
        let (tls, url) = Tls::of(url).map_err(refuse)?;
        // Why it does not read is not said: the parser quotes what it was given.
        let mut config: Config = url.parse().map_err(|_quotes: Error| {
            refuse("does not read; check its port, its options, and that %, :, /, ? and @ in its password are written as %25, %3A, %2F, %3F and %40")
        })?;
        let host = config.get_hosts().first().map(|host| match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        });
        let Some(host) = host else { return Err(refuse("names no host")) };
        let server = format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432));
        if config.get_user().is_none() {
            return Err(StoreError::Unavailable(format!("the URL of the database on {server} names no user")));
        }
        let user = config.get_user().unwrap_or_default().to_owned();
        let database = config.get_dbname().unwrap_or(&user).to_owned();
        if config.get_application_name().is_none() {
            config.application_name("bob");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECTED_WITHIN);
        }
        config.keepalives_idle(SILENT).tcp_user_timeout(SILENT);
        Ok(Self { config, tls, server, user, database })
    }

    pub(super) fn shown(&self) -> String {
        format!("{} on {}", self.database, self.server)
    }

    pub(super) fn refused(&self, error: &Error) -> StoreError {
        let (server, user, database) = (&self.server, &self.user, &self.database);
        if let Some(untrusted) = Untrusted::of(error) {
            return StoreError::Unavailable(format!("PostgreSQL on {server} {untrusted}"));
        }
        let is_full = error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS);
        let class = if is_full || is_broken(error) { StoreError::Away } else { StoreError::Unavailable };
        class(match error.as_db_error() {
            Some(said) if *said.code() == SqlState::INVALID_PASSWORD => {
                format!("PostgreSQL on {server} does not accept the password of user {user}; correct the URL")
            }
            Some(said) if *said.code() == SqlState::INVALID_CATALOG_NAME => {
                format!(
                    "PostgreSQL on {server} has no database {database}; create it (createdb {database}) or correct the URL"
                )
            }
            Some(said) if *said.code() == SqlState::TOO_MANY_CONNECTIONS => format!(
                "PostgreSQL on {server} accepts no more connections ({}); a process needs 5: raise max_connections",
                said.message()
            ),
            Some(said) if said.message().contains("unsupported startup parameter") => self.pooled_text(),
            Some(said) => {
                format!("PostgreSQL on {server} refused user {user} and database {database}: {}", said.message())
            }
            None => format!("PostgreSQL on {server} cannot be reached: {}", reason(error)),
        })
    }

    /// That a server took a connection and did not answer on it.
    pub(super) fn silent(&self, within: Duration) -> StoreError {
        let server = &self.server;
        StoreError::Away(format!("PostgreSQL on {server} cannot be reached: it did not answer within {within:?}"))
    }

    /// What came of a statement that did not work.
    pub(super) fn failed(&self, doing: &str, error: &Error) -> StoreError {
        let database = self.shown();
        let Some(said) = error.as_db_error() else {
            return StoreError::Away(format!("the connection to {database} broke: {}", reason(error)));
        };
        let code = said.code();
        // A statement that was prepared on this connection is missing, or one that was not prepared on it is there: it is
        // another connection of the server now. The store itself drops none that it uses.
        if [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code) {
            return self.pooled();
        }
        if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) {
            return StoreError::Unavailable(format!(
                "{database} does not have the tables of its version ({}); another program has changed it: put a copy of it back",
                said.message()
            ));
        }
        if *code == SqlState::INSUFFICIENT_PRIVILEGE {
            return StoreError::Unavailable(format!(
                "user {} may not {doing} {database}: {}",
                self.user,
                said.message()
            ));
        }
        if *code == SqlState::DISK_FULL {
            return StoreError::Unavailable(format!("the disk of the database is full: cannot {doing} {database}"));
        }
        let class = if is_broken(error) { StoreError::Away } else { StoreError::Unavailable };
        class(format!("cannot {doing} {database}: {}", said.message()))
    }

    /// That something between here and the database gives its connections to others.
    pub(super) fn pooled(&self) -> StoreError {
        StoreError::Unavailable(self.pooled_text())
    }

    fn pooled_text(&self) -> String {
        format!(
            "{} is a pooler that changes the server's connection between two statements, which breaks the locks and \
             notifications of the store; name the database's own address, or a pooler in session mode",
            self.server
        )
    }

    /// That the server takes no writes, as one does for some seconds that is about to become the primary.
    pub(super) fn no_primary(&self) -> StoreError {
        StoreError::Away(format!("{} is a replica that cannot be written; name the primary", self.shown()))
    }

    pub(super) fn refuse(&self, why: &str) -> StoreError {
        StoreError::Unavailable(format!("{} {why}", self.shown()))
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.shown()).finish()
    }
}

/// The innermost cause, which says most.
fn reason(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(io) if io.kind() == io::ErrorKind::ConnectionRefused => {
            "the connection was refused; does it run?".to_owned()
        }
        _other => cause.to_string(),
    }
}
