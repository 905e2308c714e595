//! Lasting decisions about tools: one line of JSON for each, in the user's state folder.
//!
//! A decision applies to the folder of a configuration, a tool and its definition. The file is read once, when the
//! runtime is opened, and only appended to; a revocation is another line. The last line about one subject wins. Only
//! the end of the process waits for writes. Invalid lines are ignored.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bob::approvals::{ApprovalMemory, Standing};
use bob::config::{Millis, clock};
use bob::context::Identity;
use bob::tools::ToolName;
use serde::{Deserialize, Serialize};

use crate::runtime::trust;
use crate::terminal::print;

/// No larger memory is read, bytes; a real one has a few kilobytes. A part of it may lack the latest decisions.
const MOST_BYTES: u64 = 16 << 20;

pub(crate) struct Remembered {
    place: Place,
    known: Mutex<Known>,
    /// The current writer; each waits for the one before, so that lines are in order.
    writing: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file with those for all configurations.
    pub(crate) file: PathBuf,
    /// The folder of this configuration.
    pub(crate) folder: PathBuf,
}

/// The combined content of the lines.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) decided: Vec<Arc<Standing>>,
    /// Revoked decisions, which journals of sessions may still contain.
    taken_back: Vec<Arc<Standing>>,
    /// Time of each line, in order.
    times: Vec<(Arc<Standing>, Millis)>,
}

/// One line: a decision, or that one is taken back.
#[derive(Serialize, Deserialize)]
struct Line {
    folder: PathBuf,
    /// When; older lines do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decision: Option<Arc<Standing>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Arc<Standing>>,
}

impl Remembered {
    /// The decisions for configurations in this folder; `None` where there is no place for any. An absent
    /// file holds none; one that cannot be read holds none either, which is reported, and calls ask again.
    pub(crate) fn open(folder: &Path) -> Option<Arc<Self>> {
        Place::of(folder).map(Self::at)
    }

    fn at(place: Place) -> Arc<Self> {
        let known = place.read().unwrap_or_else(|error| {
            let name = place.file.display();
            print::note(&format!("warning: cannot read {name}: {error}; what was decided there is asked again"));
            Known::default()
        });
        Arc::new(Self { place, known: Mutex::new(known), writing: Mutex::default() })
    }

    /// Waits until everything is written. Blocks.
    pub(crate) fn flush(&self) {
        let last = lock(&self.writing).take();
        let _told_by_itself = last.map(JoinHandle::join);
    }
}

impl ApprovalMemory for Remembered {
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
        let known = lock(&self.known);
        let is_theirs = |standing: &&Arc<Standing>| standing.tool == *tool && standing.identity == *identity;
        known.decided.iter().filter(is_theirs).cloned().collect()
    }

    fn keep(&self, standing: Arc<Standing>) {
        let at = clock::now();
        lock(&self.known).decide(&standing, Some(at));
        let place = self.place.clone();
        let mut writing = lock(&self.writing);
        let before = writing.take();
        let write = move || {
            let _told_by_itself = before.map(JoinHandle::join);
            if let Err(error) = place.append(Some(at), Some(standing), None) {
                let name = place.file.display();
                print::note(&format!("warning: the decision is not remembered: {name}: {error}"));
            }
        };
        *writing = Some(thread::spawn(write));
    }

    fn is_taken_back(&self, standing: &Standing) -> bool {
        lock(&self.known).taken_back.iter().any(|back| standing.gives_way_to(back))
    }
}

impl Place {
    /// The place for configurations in this folder; `None` where there is none.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let file = trust::state_folder().ok()?.join("approvals.jsonl");
        let folder = folder.canonicalize().ok();
        let folder = folder.or_else(|| Path::new(".").canonicalize().ok())?;
        Some(Self { file, folder })
    }

    /// Returns the decisions. Blocks.
    pub(crate) fn read(&self) -> io::Result<Known> {
        let mut bytes = Vec::new();
        match File::open(&self.file) {
            Ok(opened) => opened.take(MOST_BYTES + 1).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(io::Error::other(format!("it is larger than {} MiB", MOST_BYTES >> 20)));
        }
        let mut known = Known::default();
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        for Line { at, decision, revoked, .. } in lines.filter(|line| line.folder == self.folder) {
            decision.iter().for_each(|standing| known.decide(standing, at));
            revoked.into_iter().for_each(|standing| known.take_back(standing));
        }
        Ok(known)
    }

    /// Revokes decisions about this tool and these arguments, also those in sessions. Blocks until that is on disk.
    pub(crate) fn take_back(&self, standing: &Standing) -> io::Result<()> {
        // The description is not needed in a revocation.
        let revoked = Standing { text: String::new(), ..standing.clone() };
        self.append(Some(clock::now()), None, Some(Arc::new(revoked)))
    }

    /// One write of one line, so that lines of several processes do not mix.
    fn append(
        &self,
        at: Option<Millis>,
        decision: Option<Arc<Standing>>,
        revoked: Option<Arc<Standing>>,
    ) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut text = serde_json::to_string(&Line { folder: self.folder.clone(), at, decision, revoked })?;
        text.push('\n');
        let mut opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.file)?;
        // Behind a line that a crash cut off this one would be lost, too.
        let (length, mut last) = (opened.metadata()?.len(), [b'\n']);
        if length > 0 && opened.read_at(&mut last, length - 1).is_ok() && last != *b"\n" {
            text.insert(0, '\n');
        }
        opened.write_all(text.as_bytes())?;
        opened.sync_all()
    }
}

impl Known {
    /// Time of a decision, if its line has one.
    pub(crate) fn decided_at(&self, standing: &Arc<Standing>) -> Option<Millis> {
        self.times.iter().rev().find(|(decided, _)| Arc::ptr_eq(decided, standing)).map(|(_, at)| *at)
    }

    fn decide(&mut self, standing: &Arc<Standing>, at: Option<Millis>) {
        self.taken_back.retain(|back| !back.gives_way_to(standing));
        Arc::clone(standing).join(&mut self.decided);
        self.times.retain(|(decided, _)| self.decided.iter().any(|standing| Arc::ptr_eq(standing, decided)));
        self.times.extend(at.map(|at| (Arc::clone(standing), at)));
    }

    fn take_back(&mut self, standing: Arc<Standing>) {
        self.decided.retain(|decided| !decided.gives_way_to(&standing));
        standing.join(&mut self.taken_back);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "remembered_tests.rs"]
mod tests;
