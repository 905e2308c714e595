//! What the database consists of, and how one of an older program becomes one of this.

use bob_messages::store::Formats;

/// Marks a database as one of this program's: "bob1".
pub(super) const APPLICATION: i64 = 0x626f_6231;

/// What brings a database from one version to the next; its version counts them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Changes the tables.
    Tables(&'static str),
    /// A newer format of records. Those of an older one that it changes are written anew; the
    /// others stand as they are, and an older program is kept out by the version alone.
    Records,
}

/// What a program knows: the steps, and the formats of records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) steps: &'static [Step],
    pub(super) formats: Formats,
}

/// What this program knows.
pub(super) const KNOWN: Known = Known { steps: STEPS, formats: Formats::KNOWN };

/// The steps of this program. One is never changed once it was released.
pub(super) const STEPS: &[Step] = &[
    Step::Tables(
        "
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        version INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        owner TEXT,
        lock TEXT,
        damage TEXT
    ) STRICT;
    CREATE INDEX sessions_by_time ON sessions (updated_at DESC, id) WHERE damage IS NULL;
    CREATE INDEX damaged_sessions ON sessions (id) WHERE damage IS NOT NULL;
    CREATE TABLE records (
        session INTEGER NOT NULL,
        version INTEGER NOT NULL,
        line TEXT NOT NULL,
        PRIMARY KEY (session, version)
    ) STRICT;
",
    ),
    Step::Tables(
        "
    ALTER TABLE sessions ADD COLUMN title TEXT;
    ALTER TABLE sessions ADD COLUMN state TEXT;
    ALTER TABLE sessions ADD COLUMN turns INTEGER;
    ALTER TABLE sessions ADD COLUMN parent TEXT;
",
    ),
    // Format 2.
    Step::Records,
    Step::Tables("ALTER TABLE sessions ADD COLUMN snapshot INTEGER;"),
    Step::Tables("ALTER TABLE sessions ADD COLUMN cwd TEXT; ALTER TABLE sessions ADD COLUMN created_at INTEGER;"),
    Step::Tables("ALTER TABLE sessions ADD COLUMN tenant TEXT;"),
    // Format 3.
    Step::Records,
    // The greatest epoch of a session that was deleted, in one row. A session that begins anew goes on behind it.
    Step::Tables("CREATE TABLE deletions (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL) STRICT;"),
    // Format 4.
    Step::Records,
    // Which database it is, in one row; in which transactions are counted, so that each writes it.
    Step::Tables(
        "
    CREATE TABLE identity (
        one INTEGER PRIMARY KEY CHECK (one = 1), secret TEXT NOT NULL, transactions INTEGER NOT NULL
    ) STRICT;
    INSERT INTO identity VALUES (1, lower(hex(randomblob(16))), 0);
",
    ),
];

/// After so many steps a database has an identity.
pub(super) const IDENTITY: usize = 10;
