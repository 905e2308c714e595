//! Which artifacts no record names yet: an empty file for each, named after session, artifact and the process that put it.
//!
//! ```text
//! new/<session>~<artifact>~<process>    put, and not recorded
//! new/<session>~deleted~<process>       the session is being deleted
//! owners/<process>                      locked while the process lives
//! ```
//!
//! No clock and no process id says whether a process lives: its lock is free once it has ended, however it ended.

use crate::store::folder::Folder;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

/// Between the parts of a name; no session id has it.
const APART: char = '~';

/// In the place of an artifact: the session is being deleted.
pub(super) const DELETED: &str = "deleted";

#[derive(Debug)]
pub(super) struct Marks {
    new: Folder,
    owners: Folder,
    process: String,
    /// Locked for as long as the process lives.
    _alive: File,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) session: String,
    pub(super) what: String,
    process: String,
}

impl Mark {
    fn name(&self) -> String {
        let Self { session, what, process } = self;
        format!("{session}{APART}{what}{APART}{process}")
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split(APART).map(str::to_owned);
        let mark = Self { session: parts.next()?, what: parts.next()?, process: parts.next()? };
        parts.next().is_none().then_some(mark)
    }
}

impl Marks {
    /// The marks below this folder, which are made when they are not there.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let (new, owners) = (Folder::open(&root.join("new"))?, Folder::open(&root.join("owners"))?);
        loop {
            let process = format!("{:016x}", fastrand::u64(..));
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            match owners.open_file(&process, flags) {
                // Between making and locking it, another process may have taken it for that of one that has ended, and
                // removed it; then another file is made.
                Ok(Some(alive)) => {
                    if alive.try_lock().is_ok() && owners.look(&process)?.is_some() {
                        return Ok(Self { new, owners, process, _alive: alive });
                    }
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn process(&self) -> &str {
        &self.process
    }

    #[cfg(test)]
    pub(super) fn is_own(&self, mark: &Mark) -> bool {
        mark.process == self.process
    }

    /// Sets a mark of this process, durably.
    pub(super) fn set(&self, session: &str, what: &str) -> io::Result<()> {
        let mark = Mark { session: session.to_owned(), what: what.to_owned(), process: self.process.clone() };
        self.new.open_file(&mark.name(), OFlags::WRONLY | OFlags::CREATE)?;
        self.new.sync()
    }

    pub(super) fn all(&self) -> io::Result<Vec<(Mark, bool)>> {
        let mut lives: HashMap<String, bool> = HashMap::from([(self.process.clone(), true)]);
        let mut marks = Vec::new();
        for mark in self.new.names()?.iter().filter_map(|name| Mark::parse(name)) {
            let alive = match lives.get(&mark.process) {
                Some(alive) => *alive,
                None => *lives.entry(mark.process.clone()).or_insert(self.lives(&mark.process)?),
            };
            marks.push((mark, alive));
        }
        Ok(marks)
    }

    /// Removes marks: those of this process, and of processes that have ended.
    pub(super) fn clear(&self, is_meant: impl Fn(&Mark) -> bool) -> io::Result<()> {
        for (mark, alive) in self.all()? {
            if is_meant(&mark) && (!alive || mark.process == self.process) {
                self.new.remove(&mark.name())?;
            }
        }
        Ok(())
    }

    pub(super) fn clear_ended(&self, is_meant: impl Fn(&Mark) -> bool) -> io::Result<()> {
        for (mark, alive) in self.all()? {
            if is_meant(&mark) && !alive {
                self.new.remove(&mark.name())?;
            }
        }
        Ok(())
    }

    /// Removes the locks of processes that have ended and left no mark.
    pub(super) fn forget_ended(&self) -> io::Result<()> {
        let marks = self.all()?;
        for process in self.owners.names()? {
            let is_named = marks.iter().any(|(mark, _)| mark.process == process);
            if !process.starts_with('.') && !is_named && !self.lives(&process)? {
                self.owners.remove(&process)?;
            }
        }
        Ok(())
    }

    fn lives(&self, process: &str) -> io::Result<bool> {
        if process == self.process {
            return Ok(true);
        }
        let Some(file) = self.owners.open_file(process, OFlags::RDWR)? else { return Ok(false) };
        match file.try_lock() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}
