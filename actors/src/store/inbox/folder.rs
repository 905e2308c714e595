//! Messages in a folder beside the journals: a file each, for the processes of one machine.
//!
//! ```text
//! <session>~<request>            waits
//! <session>~<request>.refused    was refused, and is kept for its sender
//! <session>~<request>.damaged    cannot be read, and is not taken
//! <process>~<number>.new         is being written
//! ```
//!
//! A file gets its name when it is complete, and never that of another: so a request id is kept once.

use super::memory::{chosen, full};
use super::port::{Due, Inbox, MOST_WAITING, REFUSALS_KEPT_MS};
use crate::clock;
use crate::store::folder::Folder;
use crate::store::name;
use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::{InboxEntry, InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Between session and request; no session id has it.
const APART: char = '~';

const REFUSED: &str = ".refused";
const NEW: &str = ".new";
const DAMAGED: &str = ".damaged";

/// The messages in a folder, which is made by the first of them. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct FolderInbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    changed: Notify,
}

/// What stands in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Its place among the messages of its session.
    number: u64,
    /// Its name.
    request: RequestId,
    /// The message, as text.
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<AgentError>,
}

impl FolderInbox {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(Arc::new(Shared { path, changed: Notify::new() }))
    }

    /// The session was deleted.
    pub(crate) fn forget(&self, session: &SessionId) -> Result<(), StoreError> {
        self.0.forget(session).map_err(|error| self.0.failed(&error))
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, Failed> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
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
        StoreError::Unavailable(format!("the inbox {}: {error}", self.path.display()))
    }

    /// The folder, if it was made.
    fn there(&self) -> io::Result<Option<Folder>> {
        self.path.is_dir().then(|| Folder::open(&self.path)).transpose()
    }

    fn forget(&self, session: &SessionId) -> io::Result<()> {
        let Some(folder) = self.there()? else { return Ok(()) };
        for name in folder.names()?.iter().filter(|name| session_of(name).as_ref() == Some(session)) {
            folder.remove(name)?;
        }
        folder.sync()
    }

    fn put(&self, message: &InboxMessage) -> Result<bool, Failed> {
        let folder = Folder::open(&self.path)?;
        let name = file_of(&message.session, &message.request_id);
        if folder.look(&name)?.is_some() {
            return Ok(false);
        }
        let waiting = read_all(&folder, &message.session)?;
        if waiting.len() >= MOST_WAITING {
            return Err(full().into());
        }
        let number = waiting.iter().map(|(_, kept)| kept.number).max().unwrap_or_default() + 1;
        let new = write_new(
            &folder,
            &Kept { number, request: message.request_id.clone(), message: message.to_text()?, refusal: None },
        )?;
        let is_new = folder.rename(&new, &name)?;
        match is_new {
            // What was said of it before is over.
            true => folder.remove(&format!("{name}{REFUSED}"))?,
            false => folder.remove(&new)?,
        };
        Ok(is_new)
    }

    fn take(&self, session: &SessionId) -> Result<Vec<InboxEntry>, Failed> {
        let Some(folder) = self.there()? else { return Ok(Vec::new()) };
        let mut waiting = read_all(&folder, session)?;
        waiting.sort_by(|(one, kept), (other, than)| (kept.number, one).cmp(&(than.number, other)));
        Ok(waiting.iter().map(|(_, kept)| InboxEntry::parse(kept.request.clone(), &kept.message)).collect())
    }

    fn settle(&self, session: &SessionId, request: &RequestId, refusal: Option<AgentError>) -> Result<(), Failed> {
        let Some(folder) = self.there()? else { return Ok(()) };
        let name = file_of(session, request);
        let refused = format!("{name}{REFUSED}");
        match refusal {
            None => {
                folder.remove(&refused)?;
            }
            Some(_) => {
                let Some(kept) = read(&folder, &name)? else { return Ok(()) };
                let new = write_new(&folder, &Kept { refusal, ..kept })?;
                folder.replace(&new, &refused)?;
            }
        }
        folder.remove(&name)?;
        Ok(folder.sync()?)
    }

    fn standing(&self, session: &SessionId, request: &RequestId) -> Result<InboxStanding, Failed> {
        let Some(folder) = self.there()? else { return Ok(InboxStanding::Gone) };
        let name = file_of(session, request);
        if folder.look(&name)?.is_some() {
            return Ok(InboxStanding::Waiting);
        }
        let refused = read(&folder, &format!("{name}{REFUSED}"))?.and_then(|kept| kept.refusal);
        Ok(refused.map_or(InboxStanding::Gone, |error| InboxStanding::Refused(Box::new(error))))
    }

    fn due(&self, most: usize, known: &BTreeSet<SessionId>) -> Result<Vec<Due>, Failed> {
        let Some(folder) = self.there()? else { return Ok(Vec::new()) };
        let mut due = BTreeMap::<SessionId, u64>::new();
        for name in folder.names()? {
            if name.ends_with(REFUSED) {
                let is_old = |at: Millis| at < clock::now() - REFUSALS_KEPT_MS;
                if folder.look(&name)?.is_some_and(|seen| is_old(seen.modified_at)) {
                    folder.remove(&name)?;
                }
            } else if let Some(session) = session_of(&name) {
                // Every name has a part in the sum.
                let mark = due.entry(session).or_default();
                *mark = mark.wrapping_add(mark_of(&name));
            }
        }
        let due = due.into_iter().map(|(session, mark)| Due { session, epoch: None, mark });
        Ok(chosen(due, most, known))
    }
}

/// The name of a message's file.
fn file_of(session: &SessionId, request: &RequestId) -> String {
    let hash = blake3::hash(request.as_str().as_bytes()).to_hex();
    format!("{}{APART}{}", name::of_folder(session), &hash[..32])
}

/// The session of a message, whether it waits or was refused.
fn session_of(file: &str) -> Option<SessionId> {
    let (session, request) = file.split_once(APART)?;
    (!request.ends_with(NEW) && !request.ends_with(DAMAGED)).then(|| name::session_of_folder(session)).flatten()
}

fn mark_of(name: &str) -> u64 {
    blake3::hash(name.as_bytes()).as_bytes().iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

/// The messages that wait for a session, in no order.
fn read_all(folder: &Folder, session: &SessionId) -> Result<Vec<(String, Kept)>, Failed> {
    let mut all = Vec::new();
    let names = folder.names()?.into_iter().filter(|name| !name.ends_with(REFUSED));
    for name in names.filter(|name| session_of(name).as_ref() == Some(session)) {
        match read(folder, &name) {
            Ok(Some(kept)) => all.push((name, kept)),
            // It was settled meanwhile.
            Ok(None) => {}
            Err(Failed::Store(error)) => {
                tracing::error!(%error, "a message of the inbox cannot be read; it is set aside");
                folder.replace(&name, &format!("{name}{DAMAGED}"))?;
            }
            Err(failed) => return Err(failed),
        }
    }
    Ok(all)
}

fn read(folder: &Folder, name: &str) -> Result<Option<Kept>, Failed> {
    let Some(mut file) = folder.open_file(name, OFlags::RDONLY)? else { return Ok(None) };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let bad = |error| StoreError::Corrupt(format!("the message {}: {error}", folder.path_of(name)));
    Ok(Some(serde_json::from_str(&text).map_err(bad)?))
}

/// Writes a file under a name of its own, durably.
fn write_new(folder: &Folder, kept: &Kept) -> Result<String, Failed> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // The number of a process may be that of one on another machine, or of one that has ended.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}{APART}{number}-{:016x}{NEW}", std::process::id(), fastrand::u64(..));
    let access = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = folder.open_file(&name, access)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let text = serde_json::to_string(kept).map_err(io::Error::from)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(name)
}

/// The folder of messages beside a file of sessions.
#[cfg(feature = "sqlite")]
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("-inbox");
    path.with_file_name(name)
}

impl Inbox for FolderInbox {
    fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>> {
        let put = self.blocking(move |shared| shared.put(&message));
        put.inspect(|_| self.0.changed.notify_one()).boxed()
    }

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>> {
        let session = session.clone();
        self.blocking(move |shared| shared.take(&session))
    }

    fn settle<'a>(
        &'a self,
        session: &'a SessionId,
        request: &'a RequestId,
        refusal: Option<AgentError>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (session, request) = (session.clone(), request.clone());
        let settled = self.blocking(move |shared| shared.settle(&session, &request, refusal));
        settled.inspect(|_| self.0.changed.notify_one()).boxed()
    }

    fn standing<'a>(
        &'a self,
        session: &'a SessionId,
        request: &'a RequestId,
    ) -> BoxFuture<'a, Result<InboxStanding, StoreError>> {
        let (session, request) = (session.clone(), request.clone());
        self.blocking(move |shared| shared.standing(&session, &request))
    }

    fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>> {
        let known = known.clone();
        self.blocking(move |shared| shared.due(most, &known))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.0.changed.notified().boxed()
    }
}
