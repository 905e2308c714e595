//! Which journals of a folder are its own: those that a program began which can read the folder.
//!
//! The first claim of a journal has a sum that only such a program can make. Journals of older programs have none: a list
//! that is made once, before the first journal with a sum, names them with a sum over how each begins. Any other journal
//! may have come with the folder of a project. It is left as it is and not read.

use super::name;
use super::position::Position;
use crate::store::Marked;
use crate::store::folder::Folder;
use crate::store::identity::{self, FolderIdentity, Identified, Identity};
use crate::store::line::{self, ClaimLine, Line};
use bob_messages::ids::SessionId;
use bob_messages::store::{Formats, StoreError};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// The file of the list.
pub(super) const LIST: &str = "accepted";

/// What the sums are over: the session, epoch and owner of a first claim; how a journal without one begins; the list.
const CLAIM: &str = "bob 2026-12 the first claim of a journal";
const BEGINNING: &str = "bob 2026-12 how an accepted journal begins";
const ACCEPTED: &str = "bob 2026-12 the accepted journals of a folder";

/// How much of the beginning of an accepted journal its sum is over at most, in bytes: it has the first input, or most of it,
/// which cannot be guessed without reading the journal.
const MOST_BEGINNING: u64 = 16 * 1024;

/// How much is read to find the end of a line in it, in bytes.
const MOST_READ: u64 = 16 * 1024 * 1024;

/// In how many bytes the header and the first claim are looked for.
const HEAD: usize = 4 * 1024;
const MOST_HEAD: usize = 64 * 1024;

/// What is known of where a journal comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Own,
    Foreign,
    /// Its header or its first claim cannot be read: reading it says why.
    Unreadable,
}

/// The file of the list.
#[derive(Serialize, Deserialize)]
struct Summed {
    sum: String,
    /// [`Beginning`]s, as text.
    journals: String,
}

/// How a journal without a sum began when it was accepted.
#[derive(Debug, Serialize, Deserialize)]
struct Beginning {
    session: SessionId,
    bytes: u64,
    sum: String,
}

type Accepted = HashMap<SessionId, Vec<Beginning>>;

#[derive(Debug)]
pub(super) struct Own {
    folder: Arc<Folder>,
    formats: Formats,
    pub(super) identity: Arc<FolderIdentity>,
    accepted: OnceLock<Accepted>,
}

impl Own {
    pub(super) fn new(folder: Arc<Folder>, formats: Formats, marked: Option<Marked>) -> Self {
        let identity = Arc::new(FolderIdentity::new(folder.path().to_owned(), marked));
        Self { folder, formats, identity, accepted: OnceLock::new() }
    }

    /// Makes the identity of the folder if it has none, and the list. What lies there before that is accepted.
    /// The folder is locked, or has no journals.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        self.settle_with(|name| self.folder.open_file(name, OFlags::RDONLY))
    }

    pub(super) fn settle_with(&self, open: impl Fn(&str) -> io::Result<Option<File>>) -> Result<(), StoreError> {
        if self.accepted()?.is_some() {
            return Ok(());
        }
        let identity = self.identity()?;
        let failed = |error: io::Error| crate::store::full::unavailable("make", &self.folder.path_of(LIST), &error);
        let beginnings = self.beginnings(&identity, open).map_err(failed)?;
        let journals = serde_json::to_string(&beginnings).map_err(|error| failed(error.into()))?;
        let sum = identity.sum(ACCEPTED, &[journals.as_bytes()]);
        let list = serde_json::to_vec(&Summed { sum, journals }).map_err(|error| failed(error.into()))?;
        identity::put(&self.folder, LIST, &list).map_err(failed)?;
        // Another process may have been first.
        self.accepted().map(drop)
    }

    /// Makes the identity of the folder if it has none, and the list if there is no journal.
    pub(super) fn identify(&self) -> Result<(), StoreError> {
        self.identity()?;
        let names = self.folder.names();
        let names = names.map_err(|error| crate::store::full::unavailable("list", &self.folder.path_of(""), &error))?;
        match names.iter().any(|name| session_of(name).is_some()) {
            true => Ok(()),
            false => self.settle(),
        }
    }

    /// Adds the sum to the first claim of a journal.
    pub(super) fn sign(&self, session: &SessionId, claim: ClaimLine) -> Result<ClaimLine, StoreError> {
        let own = self.identity()?.sum(CLAIM, &parts(session, &claim.epoch.to_le_bytes(), &claim.owner));
        Ok(ClaimLine { own, ..claim })
    }

    /// Where this journal of a session comes from. Until there is a list, each is the folder's own.
    pub(super) fn origin(&self, session: &SessionId, file: &File) -> Result<Origin, StoreError> {
        let Some(accepted) = self.accepted()? else { return Ok(Origin::Own) };
        let identity = self.identity()?;
        let found = match self.is_accepted(accepted.get(session), file, &identity, session) {
            Ok(true) => Ok(Origin::Own),
            Ok(false) => self.told_by_its_head(session, file, &identity),
            Err(error) => Err(error),
        };
        found.map_err(|error| crate::store::full::unavailable("read", &self.folder.path_of(&name::of(session)), &error))
    }

    /// Fails where it cannot be told which journals are own.
    pub(super) fn is_readable(&self) -> Result<(), StoreError> {
        self.accepted().map(drop)
    }

    /// Why a foreign journal is not read.
    pub(super) fn foreign(&self, session: &SessionId) -> StoreError {
        StoreError::Corrupt(format!("{}: {}", self.folder.path_of(&name::of(session)), self.why_foreign()))
    }

    /// For people.
    pub(super) fn why_foreign(&self) -> String {
        let list = self.folder.path_of(LIST);
        format!(
            "it was not begun by a program that can read this store, or by one of an older version, and is not used; remove it, \
             or, if all journals there are yours, remove {list}"
        )
    }

    /// The list; `None` where there is none yet.
    fn accepted(&self) -> Result<Option<&Accepted>, StoreError> {
        if let Some(accepted) = self.accepted.get() {
            return Ok(Some(accepted));
        }
        let path = || self.folder.path_of(LIST);
        let read = |mut file: File| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_count| bytes)
        };
        let bytes = self.folder.open_file(LIST, OFlags::RDONLY).and_then(|file| file.map(read).transpose());
        let bytes = bytes.map_err(|error| crate::store::full::unavailable("read", &path(), &error))?;
        let Some(bytes) = bytes else { return Ok(None) };
        // Never made here: the identity that belongs to the list is missing.
        let Some(identity) = self.identity.identity(false)? else {
            let identity = self.folder.path_of(identity::FILE);
            return Err(StoreError::Corrupt(format!(
                "{identity} is missing: put it back; or, if all journals there are yours, remove {}",
                path()
            )));
        };
        let is_its = |list: &Summed| identity.is_sum(ACCEPTED, &list.sum, &[list.journals.as_bytes()]);
        let list = serde_json::from_slice(&bytes).ok().filter(is_its);
        let beginnings = list.and_then(|list| serde_json::from_str::<Vec<Beginning>>(&list.journals).ok());
        let bad = || {
            StoreError::Corrupt(format!(
                "{} was not written by a program that can read this store: put a copy of it back; or, if all journals there are \
                 yours, remove it",
                path()
            ))
        };
        let mut accepted = Accepted::new();
        for beginning in beginnings.ok_or_else(bad)? {
            accepted.entry(beginning.session.clone()).or_default().push(beginning);
        }
        Ok(Some(self.accepted.get_or_init(|| accepted)))
    }

    fn identity(&self) -> Result<Identity, StoreError> {
        let none = || StoreError::Unavailable("the store has no identity, and gets none".to_owned());
        self.identity.identity(true)?.ok_or_else(none)
    }

    /// Of all journals that are there, those that were set aside included: they may be repaired.
    fn beginnings(
        &self,
        identity: &Identity,
        open: impl Fn(&str) -> io::Result<Option<File>>,
    ) -> io::Result<Vec<Beginning>> {
        let mut beginnings = Vec::new();
        for name in self.folder.names()? {
            let Some(session) = session_of(&name) else { continue };
            // A link or a folder is no journal.
            let Ok(Some(file)) = open(&name) else { continue };
            match self.beginning(&session, &file, identity) {
                Ok(beginning) => beginnings.extend(beginning),
                // It stops no other session.
                Err(error) => {
                    let path = self.folder.path_of(&name);
                    tracing::warn!(%error, path, "a journal of an older program cannot be read, and is not accepted");
                }
            }
        }
        Ok(beginnings)
    }

    /// How a journal without a sum begins.
    fn beginning(&self, session: &SessionId, file: &File, identity: &Identity) -> io::Result<Option<Beginning>> {
        if self.told_by_its_head(session, file, identity)? == Origin::Own {
            return Ok(None);
        }
        let length = file.metadata()?.len();
        // What is behind the last whole line may be cut off; the first record may be a long one.
        let (mut position, mut limit) = (Position::new(self.formats), MOST_BEGINNING);
        loop {
            let _what_is_damaged_is_found_later = position.read_on(file, Some(limit), session, drop);
            if position.end >= MOST_BEGINNING || limit >= length.min(MOST_READ) {
                break;
            }
            limit *= 8;
        }
        let bytes = if position.end > 0 { position.end } else { length }.min(MOST_BEGINNING);
        // What a killed process did not sync may still be lost.
        file.sync_data()?;
        let sum = sum_of(file, bytes, identity, session)?;
        Ok(sum.map(|sum| Beginning { session: session.clone(), bytes, sum }))
    }

    fn is_accepted(
        &self,
        beginnings: Option<&Vec<Beginning>>,
        file: &File,
        identity: &Identity,
        session: &SessionId,
    ) -> io::Result<bool> {
        for beginning in beginnings.into_iter().flatten() {
            if sum_of(file, beginning.bytes, identity, session)?.is_some_and(|sum| sum == beginning.sum) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn told_by_its_head(&self, session: &SessionId, file: &File, identity: &Identity) -> io::Result<Origin> {
        let mut head = head(file, HEAD)?;
        if head.len() == HEAD && head.iter().filter(|&&byte| byte == b'\n').count() < 2 {
            head = self::head(file, MOST_HEAD)?;
        }
        let mut lines = head.split(|&byte| byte == b'\n');
        let (Some(first), Some(second), Some(_behind)) = (lines.next(), lines.next(), lines.next()) else {
            return Ok(Origin::Unreadable);
        };
        if line::check_header(first, session, &self.formats).is_err() {
            return Ok(Origin::Unreadable);
        }
        Ok(match line::parse(second, &self.formats) {
            Ok(Line::Claim(ClaimLine { epoch, owner, own, .. })) => {
                match identity.is_sum(CLAIM, &own, &parts(session, &epoch.to_le_bytes(), &owner)) {
                    true => Origin::Own,
                    false => Origin::Foreign,
                }
            }
            Ok(Line::Record(_) | Line::Release(_)) => Origin::Foreign,
            Err(_) => Origin::Unreadable,
        })
    }
}

fn session_of(name: &str) -> Option<SessionId> {
    name::session(name).or_else(|| name::session_of_aside(name))
}

fn parts<'a>(session: &'a SessionId, epoch: &'a [u8; 8], owner: &'a str) -> [&'a [u8]; 3] {
    [session.as_str().as_bytes(), epoch, owner.as_bytes()]
}

/// Over so many bytes of a journal; `None` when it has not so many.
fn sum_of(file: &File, bytes: u64, identity: &Identity, session: &SessionId) -> io::Result<Option<String>> {
    let mut beginning = vec![0; usize::try_from(bytes.min(MOST_BEGINNING)).unwrap_or_default()];
    match file.read_exact_at(&mut beginning, 0) {
        Ok(()) => Ok(Some(identity.sum(BEGINNING, &[session.as_str().as_bytes(), &beginning]))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn head(file: &File, most: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut filled) = (vec![0; most], 0);
    while filled < most {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
