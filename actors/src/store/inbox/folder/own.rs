//! Which files of the folder were written by a program that can read the store: those with the sum that only such a one can make.
//!
//! Others may have come with the folder of a project, or from an older program. They are left where they are, and not taken.

use super::{Failed, Kept};
use crate::clock;
use crate::store::folder::{Folder, Inode, Seen};
use crate::store::identity::{Identified, Identity};
use bob_messages::Millis;
use bob_messages::store::StoreError;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// What the sums are for.
const PURPOSE: &str = "bob 2026-11 a message beside a store";

/// How many more files may be remembered than are there.
const SPARE: usize = 1_024;

/// What stands in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Summed {
    /// Over the name of the file and what is kept.
    sum: String,
    /// A [`Kept`], as text.
    kept: String,
}

/// A file as it was looked at: another one has another inode, size or time.
type Stamp = (Inode, u64, Millis);

/// A file that was changed less than this before it was looked at may have been replaced since by one that looks the same.
const SETTLED_MS: Millis = 1_000;

/// What is known of a file.
#[derive(Debug)]
struct Looked {
    stamp: Stamp,
    at: Millis,
    is_own: bool,
}

#[derive(Debug)]
pub(super) struct Own {
    identity: Arc<dyn Identified>,
    /// What was read before.
    looked: Mutex<HashMap<String, Looked>>,
}

impl Own {
    pub(super) fn new(identity: Arc<dyn Identified>) -> Self {
        Self { identity, looked: Mutex::default() }
    }

    /// Has the store made that the messages are of, if it is not there.
    pub(super) fn make(&self) -> Result<(), Failed> {
        Ok(self.identity.identity(true).map(drop)?)
    }

    /// A file for what is kept under this name.
    pub(super) fn text(&self, name: &str, kept: &Kept) -> Result<String, Failed> {
        let kept = serde_json::to_string(kept).map_err(io::Error::from)?;
        let none = || StoreError::Unavailable("the store has no identity, and gets none".to_owned());
        let sum = self.identity.identity(true)?.ok_or_else(none)?.sum(PURPOSE, &parts(name, &kept));
        Ok(serde_json::to_string(&Summed { sum, kept }).map_err(io::Error::from)?)
    }

    /// What is kept in a file; `None` where there is none, or one that is not own.
    pub(super) fn read(&self, folder: &Folder, name: &str) -> Result<Option<Kept>, Failed> {
        let Some(seen) = folder.look(name)? else { return Ok(None) };
        if self.known(name, &seen) == Some(false) {
            return Ok(None);
        }
        let Some(kept) = self.opened(folder, name)? else {
            // It was settled meanwhile, or is not own.
            if folder.look(name)?.is_some() {
                self.note(folder, name, &seen, false);
            }
            return Ok(None);
        };
        self.note(folder, name, &seen, true);
        let bad = |error| StoreError::Corrupt(format!("the message {}: {error}", folder.path_of(name)));
        Ok(Some(serde_json::from_str(&kept).map_err(bad)?))
    }

    /// Whether a file is own that looks like this. It is read when it is met for the first time.
    pub(super) fn has(&self, folder: &Folder, name: &str, seen: &Seen) -> Result<bool, Failed> {
        if let Some(known) = self.known(name, seen) {
            return Ok(known);
        }
        let is_own = self.opened(folder, name)?.is_some();
        self.note(folder, name, seen, is_own);
        Ok(is_own)
    }

    /// Remembers only these files.
    pub(super) fn keep(&self, names: &[String]) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.len() > names.len() + SPARE {
            let names: HashSet<&String> = names.iter().collect();
            looked.retain(|name, _| names.contains(name));
        }
    }

    fn opened(&self, folder: &Folder, name: &str) -> Result<Option<String>, Failed> {
        let mut file = match folder.open_file(name, OFlags::RDONLY) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            // A link, a folder or a pipe.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let Ok(Summed { sum, kept }) = serde_json::from_slice(&bytes) else { return Ok(None) };
        let identity = self.identity.identity(false)?;
        let is_own = |identity: Identity| identity.is_sum(PURPOSE, &sum, &parts(name, &kept));
        Ok(identity.is_some_and(is_own).then_some(kept))
    }

    fn known(&self, name: &str, seen: &Seen) -> Option<bool> {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&Looked| known.stamp == stamp_of(seen) && known.at - known.stamp.2 >= SETTLED_MS;
        looked.get(name).filter(is_it).map(|known| known.is_own)
    }

    fn note(&self, folder: &Folder, name: &str, seen: &Seen, is_own: bool) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let (stamp, at) = (stamp_of(seen), clock::now());
        let before = looked.insert(name.to_owned(), Looked { stamp, at, is_own });
        drop(looked);
        if !is_own && before.is_none_or(|before| before.is_own || before.stamp != stamp) {
            let file = folder.path_of(name);
            tracing::warn!(
                ?file,
                "a message was not left by a program that can read this store, or by one of an older version: it is not \
                 taken; remove it, and send it again if it is yours"
            );
        }
    }
}

fn stamp_of(seen: &Seen) -> Stamp {
    (seen.inode, seen.size, seen.modified_at)
}

/// A message is of one session, has one name there, and waits or is refused: under another name it is not own.
fn parts<'a>(name: &'a str, kept: &'a str) -> [&'a [u8]; 2] {
    [name.as_bytes(), kept.as_bytes()]
}
