//! Messages in a folder beside the journals: a file each, for the processes of one machine.
//!
//! ```text
//! <session>~<request>            waits
//! <session>~<request>.refused    was refused, and is kept for its sender
//! <process>~<number>.new         is being written
//! ```
//!
//! A file gets its name when it is complete, and never that of another: so a request id is kept once.

use super::memory::full;
use super::port::{Due, Inbox, MOST_WAITING};
use crate::clock;
use crate::store::folder::Folder;
use crate::store::name;
use bob_messages::Millis;
use bob_messages::error::AgentError;
use bob_messages::ids::{RequestId, SessionId};
use bob_messages::inbox::{InboxMessage, InboxStanding};
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
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

/// How long a refusal waits for its sender, in milliseconds.
const REFUSALS_KEPT_MS: Millis = 24 * 60 * 60 * 1000;

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
        if is_there(&folder, &name)? {
            return Ok(false);
        }
        let waiting = read_all(&folder, &message.session)?;
        if waiting.len() >= MOST_WAITING {
            return Err(full().into());
        }
        let number = waiting.iter().map(|(_, kept)| kept.number).max().unwrap_or_default() + 1;
        let new = write_new(&folder, &Kept { number, message: message.to_text()?, refusal: None })?;
        let is_new = folder.rename(&new, &name)?;
        if !is_new {
            folder.remove(&new)?;
        }
        Ok(is_new)
    }

    fn take(&self, session: &SessionId) -> Result<Vec<InboxMessage>, Failed> {
        let Some(folder) = self.there()? else { return Ok(Vec::new()) };
        let mut waiting = read_all(&folder, session)?;
        waiting.sort_by(|(one, kept), (other, than)| (kept.number, one).cmp(&(than.number, other)));
        Ok(waiting.iter().map(|(_, kept)| InboxMessage::parse(&kept.message)).collect::<Result<_, _>>()?)
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
        let refused = read(&folder, &format!("{name}{REFUSED}"))?.and_then(|kept| kept.refusal);
        Ok(match refused {
            Some(error) => InboxStanding::Refused(Box::new(error)),
            None if folder.look(&name)?.is_some() => InboxStanding::Waiting,
            None => InboxStanding::Gone,
        })
    }

    fn due(&self, most: usize) -> Result<Vec<Due>, Failed> {
        let Some(folder) = self.there()? else { return Ok(Vec::new()) };
        let mut due = BTreeSet::new();
        for name in folder.names()? {
            if name.ends_with(REFUSED) {
                let is_old = |at: Millis| at < clock::now() - REFUSALS_KEPT_MS;
                if folder.look(&name)?.is_some_and(|seen| is_old(seen.modified_at)) {
                    folder.remove(&name)?;
                }
            } else {
                due.extend(session_of(&name));
            }
        }
        Ok(due.into_iter().take(most).map(|session| Due { session, epoch: None }).collect())
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
    (!request.ends_with(NEW)).then(|| name::session_of_folder(session)).flatten()
}

fn is_there(folder: &Folder, name: &str) -> io::Result<bool> {
    Ok(folder.look(name)?.is_some() || folder.look(&format!("{name}{REFUSED}"))?.is_some())
}

/// The messages that wait for a session, in no order.
fn read_all(folder: &Folder, session: &SessionId) -> Result<Vec<(String, Kept)>, Failed> {
    let mut all = Vec::new();
    let names = folder.names()?.into_iter().filter(|name| !name.ends_with(REFUSED));
    for name in names.filter(|name| session_of(name).as_ref() == Some(session)) {
        // One that is gone was settled meanwhile.
        if let Some(kept) = read(folder, &name)? {
            all.push((name, kept));
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
    let name = format!("{}{APART}{}{NEW}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let access = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
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

    fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxMessage>, StoreError>> {
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

    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        self.blocking(move |shared| shared.due(most))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.0.changed.notified().boxed()
    }
}
