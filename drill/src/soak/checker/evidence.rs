//! The checker's input: plain data, collected after the worker has ended. None of it comes from the runtime's memory:
//! journals are read from the store again, acknowledgements from the parent's log, effects from their file, and
//! process figures from `/proc`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use bob::SessionId;
use bob::sessions::SessionFilter;
use bob::store::{FileStore, Record, SessionStore, SqliteStore, StoreOptions};

use crate::soak::chaos::Kind;
use crate::soak::error::SoakError;
use crate::soak::parent::Seen;
use crate::soak::plan::{Plan, StoreKind};
use crate::soak::wire::{Answer, Line, Report};

#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) heard: BTreeMap<String, SessionReports>,
    pub(crate) journals: BTreeMap<String, Vec<Arc<Record>>>,
    /// Journals that could not be read, and why.
    pub(crate) unreadable: Vec<String>,
    /// How often each side effect happened, by its token.
    pub(crate) effects: HashMap<String, u32>,
    pub(crate) faults: Vec<Fault>,
    /// Recoveries: time, name, and outage in milliseconds.
    pub(crate) backs: Vec<(u64, String, u64)>,
    /// Observations of the parent.
    pub(crate) seen: Seen,
    /// What several workers said, and what their database has.
    pub(crate) shared: SharedEvidence,
}

/// Of a run of several workers.
#[derive(Debug, Default)]
pub(crate) struct SharedEvidence {
    /// Ownerships: when, which worker, which session, and the epoch; `None` when it was given back.
    pub(crate) claims: Vec<(u64, String, String, Option<u64>)>,
    /// Workers that did nothing for a while: until when, which, and for how many milliseconds.
    pub(crate) stalls: Vec<(u64, String, u64)>,
    /// Faults of workers and of the database: when, which kind, and whom they hit.
    pub(crate) strikes: Vec<(u64, Kind, String)>,
    /// How often each worker had to make another row of an owner, since the one that it renewed was a dead one's.
    pub(crate) superseded: BTreeMap<String, u64>,
    /// Messages that were refused, and why.
    pub(crate) refused: Vec<String>,
    /// Sessions whose rows of records are not one for each version.
    pub(crate) gaps: Vec<String>,
    /// Messages that are in the inbox still, and sessions that have an owner still, with it.
    pub(crate) waiting: Vec<String>,
    pub(crate) owned: Vec<(String, String)>,
}

/// Reports about one session; times are milliseconds since the epoch.
#[derive(Debug, Default)]
pub(crate) struct SessionReports {
    pub(crate) asked: Vec<(u64, String)>,
    pub(crate) answers: Vec<(u64, Answer)>,
    pub(crate) refused: Vec<(u64, String)>,
    /// Turns whose end was reported by an event.
    pub(crate) ended: Vec<EndTold>,
    /// Outcomes that several workers saw.
    pub(crate) worked: Vec<Answer>,
}

/// An end of a turn that an event told of.
#[derive(Debug)]
pub(crate) struct EndTold {
    pub(crate) at: u64,
    pub(crate) turn: String,
    /// Whether the store has it, as the event says.
    pub(crate) saved: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) kind: Kind,
    /// Affected sessions; empty means all.
    pub(crate) sessions: Vec<String>,
}

impl Evidence {
    /// Collects everything a run has left. Errors: when the log or the store cannot be read at all.
    pub(crate) async fn collect(plan: &Plan, seen: Seen) -> Result<Self, SoakError> {
        let mut evidence = Self { seen, ..Self::default() };
        evidence.read_files(plan)?;
        if let Some(store) = open(plan, &mut evidence.unreadable)? {
            evidence.read_store(&store).await?;
        }
        Ok(evidence)
    }

    pub(crate) fn read_files(&mut self, plan: &Plan) -> Result<(), SoakError> {
        let unreadable =
            |error: std::io::Error| SoakError::internal(format!("cannot read what the soak left: {error}"));
        self.read_log(&plan.log_path()).map_err(unreadable)?;
        self.read_effects(&plan.effects_path()).map_err(unreadable)
    }

    fn read_log(&mut self, path: &Path) -> std::io::Result<()> {
        for line in BufReader::new(File::open(path)?).lines() {
            // The parent wrote only lines that it could parse.
            if let Ok(line) = serde_json::from_str::<Line>(&line?) {
                self.hear(line);
            }
        }
        Ok(())
    }

    pub(crate) fn hear(&mut self, Line { at, told }: Line) {
        match told {
            Report::Asked { session, request } => self.of(session).asked.push((at, request)),
            Report::Answered(answer) => self.of(answer.session.clone()).answers.push((at, *answer)),
            Report::Refused { session, request, why } => {
                self.shared.refused.push(format!("{request}: {why}"));
                self.of(session).refused.push((at, request));
            }
            Report::Ended { session, turn, saved } => self.of(session).ended.push(EndTold { at, turn, saved }),
            Report::Fault { kind, target, sessions } => {
                if kind.is_of_replicas() {
                    self.shared.strikes.push((at, kind, target));
                }
                self.faults.push(Fault { at, kind, sessions });
            }
            Report::Claimed { who, session, epoch } => self.shared.claims.push((at, who, session, Some(epoch))),
            Report::Released { who, session } => self.shared.claims.push((at, who, session, None)),
            Report::Worked { who: _, answer } => self.of(answer.session.clone()).worked.push(*answer),
            Report::Stalled { who, ms } => self.shared.stalls.push((at, who, ms)),
            Report::Back { who, after_ms } => self.backs.push((at, who, after_ms)),
            Report::Ready { .. } | Report::Sample { .. } | Report::Quiet { .. } => {}
        }
    }

    fn of(&mut self, session: String) -> &mut SessionReports {
        self.heard.entry(session).or_default()
    }

    fn read_effects(&mut self, path: &Path) -> std::io::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        for line in BufReader::new(File::open(path)?).lines() {
            let line = line?;
            let token = line.split('\t').next().unwrap_or_default();
            *self.effects.entry(token.to_owned()).or_default() += 1;
        }
        Ok(())
    }

    /// Reads every journal. Errors: when the store cannot be read at all.
    pub(crate) async fn read_store(&mut self, store: &Arc<dyn SessionStore>) -> Result<(), SoakError> {
        let mut names: Vec<SessionId> = Vec::new();
        let (filter, mut cursor) = (SessionFilter { limit: 1_000, ..SessionFilter::default() }, None);
        loop {
            let page = store.list(&filter, cursor.as_deref()).await?;
            names.extend(page.sessions.into_iter().map(|summary| summary.session));
            self.unreadable.extend(page.quarantined.into_iter().map(|(name, why)| format!("{name}: {why}")));
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        for session in names {
            match store.load(&session).await {
                Ok(records) => {
                    self.journals.insert(session.to_string(), records);
                }
                Err(error) => self.unreadable.push(format!("{session}: {error}")),
            }
        }
        Ok(())
    }
}

/// The store of a run of one worker, if it was made; the errors of a database are noted.
fn open(plan: &Plan, unreadable: &mut Vec<String>) -> Result<Option<Arc<dyn SessionStore>>, SoakError> {
    let path = plan.store_path();
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(match plan.store {
        StoreKind::Sqlite => {
            unreadable.extend(damage(&path).unwrap_or_else(|error| vec![error.to_string()]));
            SqliteStore::open(&path, StoreOptions::default())?
        }
        StoreKind::Json | StoreKind::Postgres => FileStore::open(&path, StoreOptions::default())?,
    }))
}

/// Errors that SQLite's integrity check reports, by table and index.
fn damage(database: &Path) -> rusqlite::Result<Vec<String>> {
    let connection = rusqlite::Connection::open(database)?;
    let mut found = connection.prepare("PRAGMA integrity_check")?;
    let lines = found.query_map([], |row| row.get::<_, String>(0))?;
    Ok(lines.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter(|line| line != "ok").collect())
}
