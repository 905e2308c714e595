//! Messages in a folder beside the journals: a file each, for the processes of one machine.
//!
//! ```text
//! <session>~<request>            waits
//! <session>~<request>.refused    was refused, and is kept for its senders for a day
//! <session>~<request>.damaged    cannot be read, and is not taken; kept for 30 days
//! <process>~<number>.new         is being written, or was when its process ended
//! ```
//!
//! A file gets its name when it is complete, and never that of another: so a request id is kept once. Only files with the
//! sum of a program that can read the store count ([`own`]); one of those takes the place of another file of its name.

mod own;

use super::memory::{chosen, full};
use super::port::{Due, Inbox, MOST_WAITING, REFUSALS_KEPT_MS};
use crate::clock;
use crate::store::folder::Folder;
use crate::store::identity::Identified;
use crate::store::{StoreFuture, StoreOverview, name};
use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::{InboxEntry, InboxKey, InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt};
use own::Own;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
#[cfg(any(feature = "sqlite", test))]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Between session and request; no session id has it.
const APART: char = '~';

/// What the name of the folder has behind that of the database beside which it is.
#[cfg(feature = "sqlite")]
pub(crate) const BESIDE: &str = "-inbox";

const REFUSED: &str = ".refused";
const NEW: &str = ".new";
const DAMAGED: &str = ".damaged";

/// How long files are kept that are not messages, by the ends of their names, in milliseconds.
const KEPT_MS: [(&str, Millis); 3] =
    [(REFUSED, REFUSALS_KEPT_MS), (NEW, 24 * 60 * 60 * 1000), (DAMAGED, 30 * 24 * 60 * 60 * 1000)];

/// The messages in a folder, which is made by the first of them. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct FolderInbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    own: Own,
    changed: Notify,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Its place among the messages of its session.
    number: u64,
    request: RequestId,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<AgentError>,
}

impl FolderInbox {
    /// The messages in this folder of the store with this identity.
    pub(in crate::store) fn new(path: PathBuf, identity: Arc<dyn Identified>) -> Self {
        Self(Arc::new(Shared { path, own: Own::new(identity), changed: Notify::new() }))
    }

    /// The session was deleted.
    pub(crate) fn forget(&self, session: &SessionId) -> Result<(), StoreError> {
        self.0.forget(session).map_err(|error| self.0.failed(&error))
    }

    pub(crate) fn overview(&self) -> StoreFuture<'static, StoreOverview> {
        self.blocking(Shared::overview)
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Failed> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let shared = Arc::clone(&self.0);
        let work = tokio::task::spawn_blocking(move || {
            work(&shared).map_err(|failed| match failed {
                Failed::Io(error) => shared.failed(&error),
                Failed::Store(error) => error,
            })
        });
        let ended = || StoreError::InDoubt("the thread that did it ended before it could tell".to_owned());
        work.map(move |done| done.unwrap_or_else(|_ended| Err(ended()))).boxed()
    }
}

enum Failed {
    Io(io::Error),
    Store(StoreError),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Shared {
    fn failed(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable(self.why(error))
    }

    fn why(&self, error: &io::Error) -> String {
        format!("the inbox {}: {error}", self.path.display())
    }

    /// The folder, if it was made.
    fn there(&self) -> io::Result<Option<Folder>> {
        self.path.is_dir().then(|| Folder::open(&self.path)).transpose()
    }

    fn forget(&self, session: &SessionId) -> io::Result<()> {
        let Some(folder) = self.there()? else { return Ok(()) };
        let is_its = |name: &String| session_of(name.trim_end_matches(DAMAGED)).as_ref() == Some(session);
        for name in folder.names()?.iter().filter(|name| is_its(name)) {
            folder.remove(name)?;
        }
        folder.sync()
    }

    fn put(&self, message: &InboxMessage) -> Result<bool, Failed> {
        let name = file_of(&message.session, &message.request_id);
        // The store is there before its messages are.
        self.own.make()?;
        let folder = Folder::open(&self.path)?;
        let is_taken = folder.look(&name)?.is_some();
        if is_taken && self.own.read(&folder, &name)?.is_some() {
            return Ok(false);
        }
        let waiting = self.read_all(&folder, &message.session)?;
        if waiting.len() >= MOST_WAITING {
            return Err(full().into());
        }
        let number = waiting.iter().map(|(_, kept)| kept.number).max().unwrap_or_default() + 1;
        let new = self.write_new(
            &folder,
            &name,
            &Kept { number, request: message.request_id.clone(), message: message.to_text()?, refusal: None },
        )?;
        // What was said of it before is over. Behind the new name nothing is left to be done that may fail.
        folder.remove(&format!("{name}{REFUSED}"))?;
        let named = match is_taken {
            true => folder.replace(&new, &name).map(|()| true),
            false => folder.rename(&new, &name),
        };
        let renamed = named.and_then(|is_new| folder.sync().map(|()| is_new));
        let is_new = match renamed {
            Ok(is_new) => is_new,
            // Its name is there, and may not be durable.
            Err(error) if folder.look(&name)?.is_some() => return Err(StoreError::InDoubt(self.why(&error)).into()),
            Err(error) => return Err(error.into()),
        };
        if !is_new {
            folder.remove(&new)?;
        }
        Ok(is_new)
    }

    fn take(&self, session: &SessionId) -> Result<Vec<InboxEntry>, Failed> {
        let Some(folder) = self.there()? else { return Ok(Vec::new()) };
        let mut waiting = self.read_all(&folder, session)?;
        waiting.sort_by(|(one, kept), (other, than)| (kept.number, one).cmp(&(than.number, other)));
        Ok(waiting.iter().map(|(_, kept)| InboxEntry::parse(kept.request.clone(), &kept.message)).collect())
    }

    fn settle(&self, key: &InboxKey, refusal: Option<AgentError>) -> Result<bool, Failed> {
        let Some(folder) = self.there()? else { return Ok(false) };
        let name = file_of(&key.session, &key.request);
        let refused = format!("{name}{REFUSED}");
        match refusal {
            None => {
                folder.remove(&refused)?;
            }
            Some(_) => {
                let Some(kept) = self.own.read(&folder, &name)? else { return Ok(false) };
                let new = self.write_new(&folder, &refused, &Kept { refusal, ..kept })?;
                folder.replace(&new, &refused)?;
            }
        }
        let was_there = folder.remove(&name)?;
        folder.sync()?;
        Ok(was_there)
    }

    fn standing(&self, key: &InboxKey) -> Result<InboxStanding, Failed> {
        let Some(folder) = self.there()? else { return Ok(InboxStanding::Gone) };
        let name = file_of(&key.session, &key.request);
        if self.own.read(&folder, &name)?.is_some() {
            return Ok(InboxStanding::Waiting);
        }
        let refused = self.own.read(&folder, &format!("{name}{REFUSED}"))?.and_then(|kept| kept.refusal);
        Ok(refused.map_or(InboxStanding::Gone, |error| InboxStanding::Refused(Box::new(error))))
    }

    fn overview(&self) -> Result<StoreOverview, Failed> {
        let mut overview = StoreOverview::default();
        let Some(folder) = self.there()? else { return Ok(overview) };
        let (mut sessions, mut oldest) = (BTreeSet::new(), None::<Millis>);
        let names = folder.names()?;
        self.own.keep(&names);
        for name in names {
            let Some(session) = session_of(&name) else { continue };
            // It may have been settled meanwhile.
            let Some(seen) = folder.look(&name)? else { continue };
            if !self.own.has(&folder, &name, &seen)? {
                continue;
            }
            match name.ends_with(REFUSED) {
                true => overview.refused += 1,
                false => {
                    overview.waiting += 1;
                    oldest = Some(oldest.map_or(seen.modified_at, |oldest| oldest.min(seen.modified_at)));
                    sessions.insert(session);
                }
            }
        }
        overview.waiting_sessions = sessions.len() as u64;
        overview.oldest_ms = oldest.map(|oldest| u64::try_from(clock::now() - oldest).unwrap_or_default());
        Ok(overview)
    }

    fn due(&self, most: usize, known: &BTreeSet<SessionId>) -> Result<Vec<Due>, Failed> {
        let Some(folder) = self.there()? else { return Ok(Vec::new()) };
        let mut due = BTreeMap::<SessionId, (Millis, u64)>::new();
        let names = folder.names()?;
        self.own.keep(&names);
        for name in names {
            let ends_so = KEPT_MS.iter().find(|(end, _)| name.ends_with(end));
            let session = session_of(&name).filter(|_| ends_so.is_none());
            // Who takes none asks for the sessions that it names.
            let is_asked = session.as_ref().is_none_or(|session| most > 0 || known.contains(session));
            if ends_so.is_none() && session.is_none() || !is_asked {
                continue;
            }
            // It may have been settled meanwhile.
            let Some(seen) = folder.look(&name)? else { continue };
            match (session, ends_so) {
                (Some(_), _) if !self.own.has(&folder, &name, &seen)? => {}
                (Some(session), _) => {
                    let (oldest, mark) = due.entry(session).or_insert((seen.modified_at, 0));
                    *oldest = seen.modified_at.min(*oldest);
                    // Every name has a part in the sum.
                    *mark = mark.wrapping_add(mark_of(&name));
                }
                (None, Some((_, kept_ms))) if seen.modified_at < clock::now() - kept_ms => drop(folder.remove(&name)?),
                (None, _) => {}
            }
        }
        let due = due.into_iter().map(|(session, (oldest, mark))| (oldest, Due { session, epoch: None, mark }));
        Ok(chosen(due.collect(), most, known))
    }

    /// The messages that wait for a session, in no order.
    fn read_all(&self, folder: &Folder, session: &SessionId) -> Result<Vec<(String, Kept)>, Failed> {
        let mut all = Vec::new();
        let names = folder.names()?.into_iter().filter(|name| !name.ends_with(REFUSED));
        for name in names.filter(|name| session_of(name).as_ref() == Some(session)) {
            match self.own.read(folder, &name) {
                Ok(Some(kept)) => all.push((name, kept)),
                // It was settled meanwhile, or is not own.
                Ok(None) => {}
                Err(Failed::Store(error @ StoreError::Corrupt(_))) => {
                    tracing::error!(%error, "a message of the inbox cannot be read; it is set aside");
                    folder.replace(&name, &format!("{name}{DAMAGED}"))?;
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(all)
    }

    /// Writes a file for this name under a name of its own, durably.
    fn write_new(&self, folder: &Folder, of: &str, kept: &Kept) -> Result<String, Failed> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let text = self.own.text(of, kept)?;
        // The number of a process may be that of one on another machine, or of one that has ended.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{APART}{number}-{:016x}{NEW}", std::process::id(), fastrand::u64(..));
        let access = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = folder.open_file(&name, access)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(name)
    }
}

fn file_of(session: &SessionId, request: &RequestId) -> String {
    let hash = blake3::hash(request.as_str().as_bytes()).to_hex();
    format!("{}{APART}{}", name::of_folder(session), &hash[..32])
}

fn session_of(file: &str) -> Option<SessionId> {
    let (session, request) = file.split_once(APART)?;
    (!request.ends_with(NEW) && !request.ends_with(DAMAGED)).then(|| name::session_of_folder(session)).flatten()
}

fn mark_of(name: &str) -> u64 {
    blake3::hash(name.as_bytes()).as_bytes().iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

#[cfg(feature = "sqlite")]
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(BESIDE);
    path.with_file_name(name)
}

impl Inbox for FolderInbox {
    fn put(&self, message: InboxMessage) -> StoreFuture<'_, bool> {
        let put = self.blocking(move |shared| shared.put(&message));
        put.inspect(|_| self.0.changed.notify_one()).boxed()
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InboxEntry>> {
        let session = session.clone();
        self.blocking(move |shared| shared.take(&session))
    }

    fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> StoreFuture<'_, bool> {
        let settled = self.blocking(move |shared| shared.settle(&key, refusal));
        settled.inspect(|_| self.0.changed.notify_one()).boxed()
    }

    fn standing(&self, key: InboxKey) -> StoreFuture<'_, InboxStanding> {
        self.blocking(move |shared| shared.standing(&key))
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> StoreFuture<'a, Vec<Due>> {
        let known = known.clone();
        self.blocking(move |shared| shared.due(most, &known))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.0.changed.notified().boxed()
    }
}

#[cfg(test)]
mod folder_tests;
