//! Artifacts in a folder: one of its own for each session, with one file for each artifact.
//!
//! ```text
//! s-<session>/<artifact>    the content
//! new/, owners/             what is not recorded yet
//! lock                      shared while something is put, held alone while something is removed
//! ```
//!
//! A session that gets the artifact of another one gets a link to its file, so the content is gone with the last of them. A
//! file has its name only when all of it is on the disk. All work is done on blocking threads.

use super::marks::{DELETED, Marks};
use super::port::{ArtifactStorePort, StoredArtifact};
use crate::store::folder::Folder;
use crate::store::{StoreFuture, full, name};
use bob_messages::artifact::ArtifactId;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use futures_util::future::{BoxFuture, FutureExt};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What the folder of a session begins with.
const SESSION: &str = "s-";

/// What a file begins with that is being written.
const UNFINISHED: &str = ".new-";

/// A store of artifacts in a folder, which is made by the first artifact.
#[derive(Debug, Clone)]
pub struct FolderArtifacts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    opened: OnceLock<Opened>,
    written: AtomicU64,
}

#[derive(Debug)]
struct Opened {
    marks: Marks,
    root: Folder,
}

impl FolderArtifacts {
    /// Artifacts in this folder. Nothing is made or read before the first artifact.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Inner { root: root.into(), opened: OnceLock::new(), written: AtomicU64::new(0) }))
    }

    /// The session is about to be deleted: when that is interrupted, its artifacts are looked for. Blocks.
    pub(in crate::store) fn deleting(&self, session: &SessionId) -> Result<(), StoreError> {
        self.0.told("delete", |inner| match inner.folder(session).is_dir() {
            true => inner.opened()?.marks.set(&of(session), DELETED),
            false => Ok(()),
        })
    }

    /// Removes the artifacts of a session that was deleted, and takes back what [`deleting`](Self::deleting) noted of one
    /// that was not. What cannot be removed now is looked for later. Blocks.
    pub(in crate::store) fn settle_deletion(
        &self,
        session: &SessionId,
        deleted: Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let settled = self.0.told("delete", |inner| match deleted {
            Ok(_) => inner.delete_all(session),
            Err(_) if !inner.folder(session).is_dir() => Ok(0),
            Err(_) => {
                inner.opened()?.marks.clear(|mark| mark.session == of(session) && mark.what == DELETED).map(|()| 0)
            }
        });
        if let Err(error) = &settled {
            tracing::warn!(%session, %error, "artifacts of a session that is deleted are left behind for now");
        }
        deleted.map(|found| found || settled.is_ok_and(|count| count > 0))
    }

    /// The file whose lock says that what stands for a process lives.
    #[cfg(test)]
    pub(super) fn owner_file(&self) -> PathBuf {
        self.0.root.join("owners").join(self.0.opened().unwrap().marks.process())
    }

    fn blocking<'a, T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Inner) -> io::Result<T> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let inner = Arc::clone(&self.0);
        async move {
            let done = tokio::task::spawn_blocking(move || inner.told(doing, work)).await;
            done.unwrap_or_else(|_| Err(StoreError::Unavailable("the runtime ends".to_owned())))
        }
        .boxed()
    }
}

impl Inner {
    fn told<T>(&self, doing: &str, work: impl FnOnce(&Self) -> io::Result<T>) -> Result<T, StoreError> {
        let what = || format!("the artifacts in {}", self.root.display());
        work(self).map_err(|error| full::unavailable(doing, &what(), &error))
    }

    fn folder(&self, session: &SessionId) -> PathBuf {
        self.root.join(of(session))
    }

    fn opened(&self) -> io::Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = Opened { root: Folder::open(&self.root)?, marks: Marks::open(&self.root)? };
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Takes the lock of the folder: shared, which excludes removals, or alone.
    fn lock(&self, alone: bool) -> io::Result<File> {
        let opened = self.opened()?;
        let file = opened.root.open_file("lock", OFlags::RDWR | OFlags::CREATE)?;
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        if alone {
            file.lock()?
        } else {
            file.lock_shared()?
        }
        Ok(file)
    }

    /// The folder of a session, if it is there.
    fn existing(&self, session: &SessionId) -> io::Result<Option<Folder>> {
        let path = self.folder(session);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => Folder::open(&path).map(Some),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no folder")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The folder of a session, made when it is not there.
    fn own(&self, session: &SessionId) -> io::Result<Folder> {
        let known = self.existing(session)?;
        match known {
            Some(folder) => Ok(folder),
            None => {
                let made = Folder::open(&self.folder(session))?;
                self.opened()?.root.sync()?;
                Ok(made)
            }
        }
    }

    fn put(&self, session: &SessionId, content: &[u8]) -> io::Result<ArtifactId> {
        let id = ArtifactId::of(content);
        let _excludes_removal = self.lock(false)?;
        // The mark is first: content without one would never be looked for.
        self.opened()?.marks.set(&of(session), id.as_str())?;
        let folder = self.own(session)?;
        if folder.look(id.as_str())?.is_some_and(|known| known.size == content.len() as u64) {
            return Ok(id);
        }
        let unfinished = self.unfinished()?;
        let written = self.write(&folder, &unfinished, content).and_then(|()| {
            folder.replace(&unfinished, id.as_str())?;
            folder.sync()
        });
        if written.is_err() {
            drop(folder.remove(&unfinished));
        }
        written.map(|()| id)
    }

    fn unfinished(&self) -> io::Result<String> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{UNFINISHED}{}-{number}", self.opened()?.marks.process()))
    }

    fn write(&self, folder: &Folder, name: &str, content: &[u8]) -> io::Result<()> {
        let file = folder.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let mut file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn get(&self, session: &SessionId, id: &ArtifactId, range: &Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let Some(folder) = self.existing(session)? else { return Ok(None) };
        let Some(file) = folder.open_file(id.as_str(), OFlags::RDONLY)? else { return Ok(None) };
        let bytes = file.metadata()?.len();
        let (start, end) = (range.start.min(bytes), range.end.min(bytes));
        let mut content = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut content, start)?;
        Ok(Some(content))
    }

    fn list(&self, session: &SessionId) -> io::Result<Vec<StoredArtifact>> {
        let Some(folder) = self.existing(session)? else { return Ok(Vec::new()) };
        let mut list = Vec::new();
        for id in folder.names()?.iter().filter_map(|name| ArtifactId::parse(name).ok()) {
            if let Some(found) = folder.look(id.as_str())? {
                list.push(StoredArtifact { id, bytes: found.size });
            }
        }
        list.sort();
        Ok(list)
    }

    fn share(&self, from: &SessionId, to: &SessionId, ids: &[ArtifactId]) -> io::Result<()> {
        let Some(source) = self.existing(from)? else { return Ok(()) };
        let _excludes_removal = self.lock(false)?;
        for id in ids {
            if source.look(id.as_str())?.is_none() {
                continue;
            }
            self.opened()?.marks.set(&of(to), id.as_str())?;
            let folder = self.own(to)?;
            let (old, new) = (self.folder(from).join(id.as_str()), self.folder(to).join(id.as_str()));
            match fs::hard_link(old, new) {
                Ok(()) => folder.sync()?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Not every file system has links.
                Err(_no_link) => {
                    let content = self.get(from, id, &(0..u64::MAX))?.unwrap_or_default();
                    let unfinished = self.unfinished()?;
                    self.write(&folder, &unfinished, &content)?;
                    folder.replace(&unfinished, id.as_str())?;
                    folder.sync()?;
                }
            }
        }
        Ok(())
    }

    fn recorded(&self, session: &SessionId, ids: &[ArtifactId]) -> io::Result<()> {
        let named = of(session);
        let is_named = |what: &str| ids.iter().any(|id| id.as_str() == what);
        self.opened()?.marks.clear(|mark| mark.session == named && is_named(&mark.what))
    }

    fn unrecorded(&self, most: usize) -> io::Result<Vec<(SessionId, Vec<ArtifactId>)>> {
        if !self.root.is_dir() {
            return Ok(Vec::new());
        }
        let marks = &self.opened()?.marks;
        let mut found: BTreeMap<SessionId, Vec<ArtifactId>> = BTreeMap::new();
        let mut count = 0;
        for (mark, alive) in marks.all()? {
            let Some(session) = session_of(&mark.session).filter(|_| !alive && count < most) else { continue };
            let ids = match mark.what.as_str() {
                DELETED => self.list(&session)?.into_iter().map(|stored| stored.id).collect(),
                what => ArtifactId::parse(what).into_iter().collect::<Vec<_>>(),
            };
            count += ids.len().max(1);
            let known = found.entry(session).or_default();
            known.extend(ids);
            known.sort();
            known.dedup();
        }
        marks.forget_ended()?;
        Ok(found.into_iter().collect())
    }

    fn delete(&self, session: &SessionId, ids: &[ArtifactId], only_unrecorded: bool) -> io::Result<()> {
        if !self.root.is_dir() {
            return Ok(());
        }
        let _alone = self.lock(true)?;
        let (marks, named) = (&self.opened()?.marks, of(session));
        let all = marks.all()?;
        let of_session = || all.iter().filter(|(mark, _)| mark.session == named);
        let is_wanted = |id: &ArtifactId| of_session().any(|(mark, alive)| *alive && mark.what == id.as_str());
        // A record that named it meanwhile took its marks away.
        let is_left = |id: &ArtifactId| {
            of_session().any(|(mark, alive)| !alive && (mark.what == id.as_str() || mark.what == DELETED))
        };
        let gone: Vec<_> = ids.iter().filter(|id| !is_wanted(id) && (!only_unrecorded || is_left(id))).collect();
        if let Some(folder) = self.existing(session)? {
            for id in &gone {
                folder.remove(id.as_str())?;
            }
            let own = format!("{UNFINISHED}{}-", marks.process());
            for name in folder.names()?.iter().filter(|name| name.starts_with(UNFINISHED) && !name.starts_with(&own)) {
                // Nothing is written while the lock is held alone.
                folder.remove(name)?;
            }
            if folder.names()?.iter().all(|name| name == "." || name == "..") {
                fs::remove_dir(self.folder(session))?;
            }
        }
        let is_gone = |what: &str| what == DELETED || ids.iter().any(|id| id.as_str() == what);
        marks.clear_ended(|mark| mark.session == named && is_gone(&mark.what))
    }

    fn delete_all(&self, session: &SessionId) -> io::Result<usize> {
        let path = self.folder(session);
        if !path.is_dir() {
            return Ok(0);
        }
        let count = self.list(session)?.len();
        let _alone = self.lock(true)?;
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => self.opened()?.root.sync()?,
        }
        let named = of(session);
        self.opened()?.marks.clear(|mark| mark.session == named)?;
        Ok(count)
    }
}

fn of(session: &SessionId) -> String {
    format!("{SESSION}{}", name::of_folder(session))
}

fn session_of(folder: &str) -> Option<SessionId> {
    name::session_of_folder(folder.strip_prefix(SESSION)?)
}

#[cfg(feature = "sqlite")]
pub(in crate::store) fn beside(path: &std::path::Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("-artifacts");
    path.with_file_name(name)
}

impl ArtifactStorePort for FolderArtifacts {
    fn put<'a>(&'a self, session: &'a SessionId, content: Arc<Vec<u8>>) -> StoreFuture<'a, ArtifactId> {
        let session = session.clone();
        self.blocking("write", move |inner| inner.put(&session, &content))
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a ArtifactId,
        range: Range<u64>,
    ) -> StoreFuture<'a, Option<Vec<u8>>> {
        let (session, id) = (session.clone(), id.clone());
        self.blocking("read", move |inner| inner.get(&session, &id, &range))
    }

    fn list<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<StoredArtifact>> {
        let session = session.clone();
        self.blocking("read", move |inner| inner.list(&session))
    }

    fn share<'a>(&'a self, from: &'a SessionId, to: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        let (from, to, ids) = (from.clone(), to.clone(), ids.to_vec());
        self.blocking("write", move |inner| inner.share(&from, &to, &ids))
    }

    fn recorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        let (session, ids) = (session.clone(), ids.to_vec());
        self.blocking("note", move |inner| inner.recorded(&session, &ids)).map(drop).boxed()
    }

    fn unrecorded(&self, most: usize) -> StoreFuture<'_, Vec<(SessionId, Vec<ArtifactId>)>> {
        self.blocking("read", move |inner| inner.unrecorded(most))
    }

    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        let (session, ids) = (session.clone(), ids.to_vec());
        self.blocking("delete", move |inner| inner.delete(&session, &ids, false))
    }

    fn delete_unrecorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> StoreFuture<'a, ()> {
        let (session, ids) = (session.clone(), ids.to_vec());
        self.blocking("delete", move |inner| inner.delete(&session, &ids, true))
    }

    fn delete_all<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, usize> {
        let session = session.clone();
        self.blocking("delete", move |inner| inner.delete_all(&session))
    }
}
