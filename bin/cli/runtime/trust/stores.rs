//! Which stores belong to this user: those that their processes created, used by name, or were told to trust.
//!
//! A journal is authoritative: approvals in it apply, and open steps are run. So a store that came with a folder is
//! no more trustworthy than the folder. A store is identified by path, inode, birth time, and a mark of its own, recorded outside
//! the project before the file is renamed into place, so a copied, unpacked or checked-out store never matches. Its parts (logs,
//! messages, artifacts) count as a store, too.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bob::store::{FileStore, Marked, StoreError, StoreOptions};
use bob_config::assemble::Recorder;
use bob_config::{Config, StoreKind};
use serde::{Deserialize, Serialize};

use super::memory::PathRecords;
use crate::exit::{Exit, Failure};

/// The lock of a folder of journals, which stays behind a process that was killed.
const LOCK: &str = "folder.owner";

/// The list of a folder of journals, which is made after its identity.
const LIST: &str = "accepted";

/// The ends of the names of what lies beside a database: what a new one would take for its own, and the rest.
const TAKEN: &[&str] = &["-wal", "-journal", "-inbox"];
const OTHERS: &[&str] = &["-shm", "-artifacts", "-owners"];

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    inode: u64,
    /// Nanoseconds since the epoch; the device where the file system does not know it.
    born: u64,
    /// What the store says of itself; `None` where an older program made it or this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        let born = found.created().ok().and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        let born = born.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Self { inode: found.ino(), born: born.unwrap_or_else(|| found.dev()), mark: None }
    }

    /// With what the store at this path says of itself.
    fn marked(found: &Metadata, kind: StoreKind, path: &Path) -> Self {
        Self { mark: mark_of(kind, path).ok().flatten(), ..Self::of(found) }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.inode, self.born) == (other.inode, other.born)
    }
}

pub(super) struct Kept {
    path: PathBuf,
    kind: StoreKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is none, and none is missed.
    New,
    /// It is this user's.
    Known,
    /// Its origin is unknown.
    Unknown,
    /// This user's was there, and another one is now.
    Replaced,
    /// This user's was there, and nothing is now.
    Gone,
    /// There is no database, and parts of one lie where it would be.
    Parts,
}

impl Kept {
    /// Of a store that is kept at all.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let path = config.store_path()?;
        let path = std::path::absolute(&path).unwrap_or(path);
        // The folder may have several names.
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let path = match (folder, path.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => path,
        };
        Some(Self { path, kind: config.store.kind })
    }

    /// Metadata of the store, if it is not empty.
    fn found(&self) -> Option<Metadata> {
        let found = fs::symlink_metadata(&self.path).ok()?;
        match self.kind {
            StoreKind::Json if found.is_dir() => (!self.parts().is_empty()).then_some(found),
            StoreKind::Memory | StoreKind::Json | StoreKind::Sqlite | StoreKind::Postgres => Some(found),
        }
    }

    /// Whether nothing is there, which is not said of what cannot be looked at.
    fn is_absent(&self) -> bool {
        fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// What belongs to the store and holds something: messages, logs and artifacts count as journals do.
    fn parts(&self) -> Vec<PathBuf> {
        match self.kind {
            StoreKind::Sqlite => self.beside(&[TAKEN, OTHERS].concat()),
            StoreKind::Json | StoreKind::Memory | StoreKind::Postgres => {
                let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
                let is_its = |entry: &fs::DirEntry| entry.file_name() != ".gitignore" && entry.file_name() != LOCK;
                entries.filter(is_its).map(|entry| entry.path()).filter(|part| holds(part)).collect()
            }
        }
    }

    pub(super) fn has_parts(&self) -> bool {
        !self.parts().is_empty()
    }

    /// Whether there are parts that a new database would take for its own.
    pub(super) fn has_parts_taken(&self) -> bool {
        self.kind == StoreKind::Sqlite && !self.beside(TAKEN).is_empty()
    }

    /// What lies beside the database under its name and one of these ends, and holds something.
    fn beside(&self, ends: &[&str]) -> Vec<PathBuf> {
        let named = |end: &&str| {
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(end);
            self.path.with_file_name(name)
        };
        ends.iter().map(named).filter(|part| holds(part)).collect()
    }

    pub(super) fn standing(&self) -> Standing {
        // In this order: another process that makes the store records it before something is in it.
        let found = self.found().map(|found| Identity::of(&found));
        match (found, self.known()) {
            (None, None) if self.parts().is_empty() => Standing::New,
            // Another process has made it meanwhile.
            (None, None) if fs::symlink_metadata(&self.path).is_ok() => self.standing(),
            (None, None) => Standing::Parts,
            // A folder of journals is recorded while it is empty. Another empty one in its place lacks them.
            (None, Some(known)) if self.path.is_dir() => match fs::symlink_metadata(&self.path) {
                Ok(found) if Identity::of(&found).is_same_file(&known) => Standing::Known,
                Ok(_) => Standing::Replaced,
                Err(_removed_meanwhile) => Standing::Gone,
            },
            (None, Some(known)) if self.is_absent() && self.is_being_made(&known) => Standing::Known,
            (None, Some(_)) if self.is_absent() && self.has_parts_taken() => Standing::Parts,
            (None, Some(_)) if self.is_absent() => Standing::Gone,
            // A folder above it cannot be read now: opening the store says why.
            (None, Some(_)) => Standing::Known,
            (Some(_), None) => Standing::Unknown,
            (Some(found), Some(known)) if found.is_same_file(&known) => self.by_its_mark(known),
            (Some(_), Some(_)) => Standing::Replaced,
        }
    }

    /// Whether another process has made the recorded database under another name, and is about to give it its own.
    fn is_being_made(&self, known: &Identity) -> bool {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else { return false };
        let beside = format!(".{}-", name.to_string_lossy());
        let is_it = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_made_so = name.starts_with(&beside) && name.ends_with(".new");
            is_made_so && entry.metadata().is_ok_and(|found| Identity::of(&found).is_same_file(known))
        };
        fs::read_dir(folder).into_iter().flatten().flatten().any(is_it)
    }

    /// What is recorded of it.
    fn known(&self) -> Option<Identity> {
        PathRecords::open("stores").ok().and_then(|records| records.get(&self.path))
    }

    /// Whether what is in the file is what was in it: it may have been overwritten.
    fn by_its_mark(&self, known: Identity) -> Standing {
        // In this order: another process may make, one after the other, the record, the identity and the list.
        let has_list = self.has_list();
        let found = mark_of(self.kind, &self.path);
        let known = self.known().unwrap_or(known);
        match (found, &known.mark) {
            // One of an older program, from which an identity that comes later is not its own; or the process ended that
            // recorded a mark, before there was the identity.
            (Ok(None), mark) if self.kind == StoreKind::Json && (mark.is_none() || !has_list) => {
                let _marked_the_next_time = self.identify();
                Standing::Known
            }
            // Opening it does the same, and says why it cannot.
            (Err(_), _) | (Ok(None), None) => Standing::Known,
            (Ok(Some(_)), None) if self.kind == StoreKind::Json => Standing::Replaced,
            (Ok(Some(_)), None) => {
                let _marked_the_next_time = self.keep();
                Standing::Known
            }
            (Ok(found), Some(_)) if found == known.mark => Standing::Known,
            (Ok(_), Some(_)) => Standing::Replaced,
        }
    }

    /// Has a folder of journals say of itself which it is, and records that.
    fn identify(&self) -> Result<(), StoreError> {
        // One that lost its identity is left to its user.
        if self.kind != StoreKind::Json || !self.path.is_dir() || self.has_list() {
            return Ok(());
        }
        FileStore::open_telling(&self.path, StoreOptions::default(), Some(marked(self.path.clone())))?.identify()
    }

    fn has_list(&self) -> bool {
        self.kind == StoreKind::Json && fs::symlink_metadata(self.path.join(LIST)).is_ok()
    }

    /// Records this store as the user's.
    pub(super) fn keep(&self) -> Result<(), Failure> {
        // First, since a record without a mark would replace the one of a process that does it now.
        let _marked_the_next_time = self.identify();
        match fs::symlink_metadata(&self.path) {
            Ok(found) => PathRecords::open("stores")?.put(&self.path, Identity::marked(&found, self.kind, &self.path)),
            Err(_nothing_there) => Ok(()),
        }
    }

    pub(super) fn forget(&self) {
        if let Ok(records) = PathRecords::open("stores") {
            records.forget(&self.path);
        }
    }

    pub(super) fn brings(&self) -> String {
        let path = self.path.display();
        let Some(found) = self.found() else {
            return format!("{}: parts of a database that is not there", self.named());
        };
        let changed = found.modified().ok().and_then(|time| jiff::Timestamp::try_from(time).ok());
        let changed = changed.map(|time| format!(", last changed {}", time.strftime("%Y-%m-%d %H:%M:%S UTC")));
        let how_much = match self.kind {
            StoreKind::Json if found.is_dir() => match journals(&self.path) {
                0 => "no session, but what belongs to some".to_owned(),
                sessions => crate::terminal::print::counted(sessions, "session"),
            },
            StoreKind::Memory | StoreKind::Json | StoreKind::Sqlite | StoreKind::Postgres => {
                format!("{} bytes of sessions", found.len())
            }
        };
        format!("{path}: {how_much}{}", changed.unwrap_or_default())
    }

    /// Why a store that was replaced is not used.
    pub(super) fn replaced(&self, config: &Path) -> Failure {
        let (path, config) = (self.path.display(), config.display());
        let (why, what) = match self.found() {
            Some(_) if self.got_its_identity() && self.has_list() => (
                "its file `identity` came later; remove that and its file `accepted` if they came with the folder",
                "this one, with all its journals",
            ),
            Some(_) if self.got_its_identity() => (
                "its file `identity` came later; remove that if it came with the folder",
                "this one, with all its journals",
            ),
            Some(_) => ("it was replaced", "this one, with what was approved in it"),
            None => ("an empty folder is in its place", "this one"),
        };
        let message = format!(
            "{path} is not the store that was used here: {why}; put the other one back, or take {what}: cli-agent --config \
             {config} trust"
        );
        Failure { exit: Exit::Store, kind: "store", ..Failure::usage(message) }
    }

    /// Whether it had none when it was recorded.
    fn got_its_identity(&self) -> bool {
        let is_same = |known: &Identity| self.found().is_some_and(|found| Identity::of(&found).is_same_file(known));
        self.kind == StoreKind::Json && self.known().is_some_and(|known| known.mark.is_none() && is_same(&known))
    }

    /// The parts, by name.
    fn named(&self) -> String {
        self.parts().iter().map(|part| part.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Why no database is made where parts of one lie.
    pub(super) fn in_parts(&self) -> Failure {
        let (path, parts) = (self.path.display(), self.named());
        let message = format!(
            "{path} is not there, and parts of such a store are: {parts}; they came with the folder, or are left of one \
             that was removed. Put the store back that they belong to, or remove them to begin anew without its sessions"
        );
        Failure { exit: Exit::Store, kind: "store", ..Failure::usage(message) }
    }

    pub(super) fn gone(&self) -> String {
        format!("note: {} is gone; its sessions are not there, and a new store begins", self.path.display())
    }
}

/// What a store says of itself.
fn mark_of(kind: StoreKind, path: &Path) -> Result<Option<String>, StoreError> {
    match kind {
        #[cfg(feature = "sqlite")]
        StoreKind::Sqlite => bob::store::SqliteStore::mark_of(path),
        #[cfg(not(feature = "sqlite"))]
        StoreKind::Sqlite => Ok(None),
        StoreKind::Json => FileStore::mark_of(path),
        StoreKind::Memory | StoreKind::Postgres => Ok(None),
    }
}

/// Whether there is something in a file or folder.
fn holds(part: &Path) -> bool {
    match fs::symlink_metadata(part) {
        Ok(found) if found.is_dir() => fs::read_dir(part).map_or(true, |mut entries| entries.next().is_some()),
        Ok(found) => !found.is_file() || found.len() > 0,
        Err(_removed_meanwhile) => false,
    }
}

/// How many journals there are in a folder, those set aside included.
fn journals(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_journal = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains(".jsonl");
    u64::try_from(entries.filter(is_journal).count()).unwrap_or(u64::MAX)
}

/// Returns what records a new store of this configuration before it gets its name, or its identity.
pub(crate) fn recorder(config: &Config) -> Option<Recorder> {
    let Kept { path, kind } = Kept::of(config)?;
    let marked = marked(path.clone());
    let made = Arc::new(move |file: &Path| {
        // If this fails, the user is asked later.
        if let (Ok(records), Ok(found)) = (PathRecords::open("stores"), fs::symlink_metadata(file)) {
            let _asked_about_later = records.put(&path, Identity::marked(&found, kind, file));
        }
    });
    Some(Recorder { made, marked })
}

/// Records the mark that the folder at this path gets.
fn marked(path: PathBuf) -> Marked {
    Arc::new(move |mark: &str| {
        // Where nothing can be remembered, the user is asked later.
        let Ok(records) = PathRecords::open("stores") else { return Ok(()) };
        let now = Identity { mark: Some(mark.to_owned()), ..Identity::of(&fs::symlink_metadata(&path)?) };
        match records.put(&path, now) {
            // The folder would be taken for another one than the recorded one.
            Err(failure) if records.get::<Identity>(&path).is_some() => Err(io::Error::other(failure.message)),
            Ok(()) | Err(_) => Ok(()),
        }
    })
}
