//! What the database consists of, and how one of an older program becomes one of this.
//!
//! `bob_meta` has one row, with the number of steps that were taken. `bob_sessions` has a row for each session: its
//! epoch, its owner, how many records it has, what a list shows. `bob_records` has their lines, as they would stand in
//! a journal file. `bob_nodes` has a row for each process that owns sessions, `bob_inbox` one for each message to a session.
//! `bob_artifacts`, `bob_artifact_pieces` and `bob_artifact_holders` have the large parts of records, and whose they are.
//!
//! All tables are in the schema that the connection creates tables in (`search_path`): stores may share a database.

use super::address::Address;
use super::failure::is_in_the_way;
use super::up::{Unread, Up};
use bob_messages::store::StoreError;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The first of two numbers of an advisory lock; the second is 0 for the migration, else the number of a node. It is
/// the schema's own, so that stores in one database have locks of their own.
pub(super) const LOCK_CLASS: &str = "hashtext('bob:' || current_schema())";

/// What brings a database from one version to the next. One is never changed once it was released.
pub(super) const STEPS: &[&str] = &[
    "
    CREATE TABLE bob_nodes (
        number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL,
        address text NOT NULL,
        entered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        expires_at timestamptz NOT NULL,
        dead boolean NOT NULL DEFAULT false
    );
    CREATE TABLE bob_sessions (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE \"C\" NOT NULL UNIQUE,
        epoch bigint NOT NULL,
        version bigint NOT NULL,
        bytes bigint NOT NULL,
        updated_at bigint NOT NULL,
        node integer,
        damage text,
        snapshot bigint NOT NULL DEFAULT 0,
        title text,
        state text,
        turns bigint NOT NULL DEFAULT 0,
        parent text COLLATE \"C\",
        cwd text,
        created_at bigint,
        tenant text
    ) WITH (fillfactor = 50);
    CREATE INDEX bob_sessions_by_time ON bob_sessions (updated_at DESC, id) WHERE damage IS NULL;
    CREATE INDEX bob_sessions_damaged ON bob_sessions (id) WHERE damage IS NOT NULL;
    CREATE INDEX bob_sessions_owned ON bob_sessions (node) WHERE node IS NOT NULL;
    CREATE TABLE bob_records (
        session bigint NOT NULL,
        version bigint NOT NULL,
        line text NOT NULL,
        PRIMARY KEY (session, version)
    );
",
    "
    CREATE TABLE bob_inbox (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session text COLLATE \"C\" NOT NULL,
        request text COLLATE \"C\" NOT NULL,
        message text NOT NULL,
        refusal text,
        refused_at timestamptz,
        put_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        UNIQUE (session, request)
    );
    CREATE INDEX bob_sessions_running ON bob_sessions (number) WHERE state = 'running';
    CREATE INDEX bob_inbox_waiting ON bob_inbox (session, number) WHERE refusal IS NULL;
    CREATE INDEX bob_inbox_refused ON bob_inbox (refused_at) WHERE refusal IS NOT NULL;
",
    "
    ALTER TABLE bob_sessions ADD COLUMN pool text;
    ALTER TABLE bob_nodes ADD COLUMN pools text[] NOT NULL DEFAULT '{}';
    ALTER TABLE bob_inbox ADD COLUMN pool text;
    CREATE INDEX bob_inbox_oldest ON bob_inbox (number) WHERE refusal IS NULL;
",
    "
    CREATE TABLE bob_artifacts (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        bytes bigint NOT NULL
    );
    CREATE TABLE bob_artifact_pieces (
        artifact bigint NOT NULL REFERENCES bob_artifacts ON DELETE CASCADE,
        start bigint NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (artifact, start)
    );
    CREATE TABLE bob_artifact_holders (
        session text COLLATE \"C\" NOT NULL,
        id text COLLATE \"C\" NOT NULL,
        artifact bigint NOT NULL REFERENCES bob_artifacts,
        node integer,
        PRIMARY KEY (session, id)
    );
    CREATE INDEX bob_artifact_holders_of ON bob_artifact_holders (artifact);
    CREATE INDEX bob_artifact_holders_new ON bob_artifact_holders (node) WHERE node IS NOT NULL;
    CREATE OR REPLACE FUNCTION bob_session_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        DELETE FROM bob_artifact_holders WHERE session = OLD.id;
        RETURN NULL;
    END $$;
    CREATE TRIGGER bob_session_deleted AFTER DELETE ON bob_sessions
        FOR EACH ROW EXECUTE FUNCTION bob_session_deleted();
    -- Of two that remove the last holders at once, the second one waits for the first, and sees what that left.
    CREATE OR REPLACE FUNCTION bob_artifact_released() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        PERFORM FROM bob_artifacts a WHERE a.number IN (SELECT artifact FROM released) ORDER BY a.number FOR UPDATE;
        DELETE FROM bob_artifacts a WHERE a.number IN (SELECT artifact FROM released)
            AND NOT EXISTS (SELECT FROM bob_artifact_holders h WHERE h.artifact = a.number);
        RETURN NULL;
    END $$;
    CREATE TRIGGER bob_artifact_released AFTER DELETE ON bob_artifact_holders
        REFERENCING OLD TABLE AS released FOR EACH STATEMENT EXECUTE FUNCTION bob_artifact_released();
    ALTER TABLE bob_nodes ADD COLUMN figures text;
",
    // Who has very many sessions makes these indexes before, by the same names and without a lock (CONCURRENTLY).
    "
    CREATE INDEX IF NOT EXISTS bob_sessions_of_tenant ON bob_sessions (tenant, updated_at DESC, id)
        WHERE tenant IS NOT NULL AND damage IS NULL;
    CREATE INDEX IF NOT EXISTS bob_sessions_of_parent ON bob_sessions (parent, updated_at DESC, id)
        WHERE parent IS NOT NULL AND damage IS NULL;
    CREATE INDEX IF NOT EXISTS bob_sessions_waiting ON bob_sessions (state, updated_at DESC, id)
        WHERE state NOT IN ('idle', 'running') AND damage IS NULL;
",
];

/// The version since which there is an inbox.
pub(super) const HAS_INBOX: usize = 2;

/// The version since which there are pools.
pub(super) const HAS_POOLS: usize = 3;

/// The version since which there are artifacts.
pub(super) const HAS_ARTIFACTS: usize = 4;

/// The tables of all steps.
const TABLES: [&str; 8] = [
    "bob_artifact_holders",
    "bob_artifact_pieces",
    "bob_artifacts",
    "bob_inbox",
    "bob_meta",
    "bob_nodes",
    "bob_sessions",
    "bob_records",
];

/// What there is before a store has written anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nature {
    Empty,
    /// Ours, after so many steps.
    Ours(usize),
}

/// What the schema of this connection holds.
/// Errors: `TooNew`; `Unavailable` for tables that another program made; that it could not be read.
pub(super) async fn nature(up: &Up, address: &Address) -> Result<Nature, Unread> {
    let refuse = |why: &str| Unread::Bad(address.refuse(why));
    let said = "SELECT current_schema() IS NOT NULL, array(SELECT relname::text FROM pg_class
                WHERE relnamespace = current_schema()::regnamespace AND relname = ANY ($1) ORDER BY relname)";
    let row = up.ask(up.client.query_one(said, &[&&TABLES[..]])).await?;
    if !row.get::<_, bool>(0) {
        return Err(refuse("has no schema to create tables in; correct the search_path of its user"));
    }
    let there: Vec<String> = row.get(1);
    if there.is_empty() {
        return Ok(Nature::Empty);
    }
    let foreign = |what: &str| {
        refuse(&format!(
            "has a table {what} that another program made; it was left as it is: name another database or schema"
        ))
    };
    if !there.iter().any(|table| table == "bob_meta") {
        return Err(foreign(&there[0]));
    }
    let read = "SELECT max(version), count(*) FROM bob_meta WHERE application = 'bob'";
    let row = up.ask(up.client.query_one(read, &[])).await.map_err(|error| match is_of_others(&error) {
        true => foreign("bob_meta"),
        false => Unread::Failed(error),
    })?;
    let found = row.try_get::<_, i32>(0).ok().filter(|_| row.get::<_, i64>(1) == 1);
    let (found, known) = (found.ok_or_else(|| foreign("bob_meta"))?, STEPS.len());
    match usize::try_from(found) {
        Ok(found) if found <= known => Ok(Nature::Ours(found)),
        Ok(_) | Err(_) => {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            Err(Unread::Bad(StoreError::TooNew { found, known: known as u32 }))
        }
    }
}

/// Whether a table does not have the columns of ours. Other errors say nothing of what it is.
fn is_of_others(error: &Error) -> bool {
    let codes = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_TEXT_REPRESENTATION,
        SqlState::WRONG_OBJECT_TYPE,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

/// How long other processes that bring up the same tables are waited for, and how long a step may take.
const MADE_WITHIN: Duration = Duration::from_secs(30);
const STEP_WITHIN: Duration = Duration::from_secs(600);

/// How long a step waits for a table that another transaction uses. Every statement that comes meanwhile waits behind it, the
/// renewals of leases among them.
const LOCKED_WITHIN: Duration = Duration::from_millis(300);

/// How long nothing waits behind a step that did not get a table.
const PAUSE: Duration = Duration::from_millis(700);

/// Brings the tables up to the newest step: once, wholly, in one transaction, while other processes wait. A table that is
/// in use is tried again.
///
/// # Errors
/// As [`nature`]; `Unavailable` when the user may not create tables, or a table stays in use.
pub(super) async fn bring_up(up: &Up, address: &Address) -> Result<(), StoreError> {
    let until = Instant::now() + MADE_WITHIN;
    loop {
        let why = match up.ask_within(STEP_WITHIN, take_steps(up, address)).await {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        // The transaction may have begun, also when its first statement failed. If the rollback fails as well, the
        // connection is lost, which ends the transaction.
        let _ = up.ask(up.client.batch_execute("ROLLBACK")).await;
        match why {
            Unread::Failed(error) if is_in_the_way(&error) && Instant::now() < until => sleep(PAUSE).await,
            Unread::Failed(error) => return Err(address.failed("create the tables of the store in", &error)),
            Unread::Bad(error) => return Err(error),
        }
    }
}

async fn take_steps(up: &Up, address: &Address) -> Result<(), Unread> {
    let begin = format!(
        "BEGIN; SET LOCAL client_min_messages = warning; SET LOCAL lock_timeout = '{}ms';
         SELECT pg_advisory_xact_lock({LOCK_CLASS}, 0); SET LOCAL lock_timeout = '{}ms'",
        MADE_WITHIN.as_millis(),
        LOCKED_WITHIN.as_millis()
    );
    up.ask_within(2 * MADE_WITHIN, up.client.batch_execute(&begin)).await?;
    let have = match nature(up, address).await? {
        Nature::Empty => {
            let meta = "CREATE TABLE bob_meta (application text PRIMARY KEY, version integer NOT NULL);
                        INSERT INTO bob_meta VALUES ('bob', 0)";
            up.client.batch_execute(meta).await?;
            0
        }
        Nature::Ours(have) => have,
    };
    for step in STEPS.iter().skip(have) {
        up.client.batch_execute(step).await?;
    }
    if have < STEPS.len() {
        let taken = format!("UPDATE bob_meta SET version = {} WHERE application = 'bob'", STEPS.len());
        up.client.batch_execute(&taken).await?;
    }
    Ok(up.client.batch_execute("COMMIT").await?)
}
