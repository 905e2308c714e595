//! What the database consists of, and how one of an older program becomes one of this.

/// Marks a database as one of this program's: "bob1".
pub(super) const APPLICATION: i64 = 0x626f_6231;

/// What brings a database from one version to the next; its version counts them.
pub(super) type Steps = &'static [&'static str];

/// The steps of this program. One is never changed once it was released.
pub(super) const STEPS: Steps = &[
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
    "
    ALTER TABLE sessions ADD COLUMN title TEXT;
    ALTER TABLE sessions ADD COLUMN state TEXT;
    ALTER TABLE sessions ADD COLUMN turns INTEGER;
    ALTER TABLE sessions ADD COLUMN parent TEXT;
",
];
