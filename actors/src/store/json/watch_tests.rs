//! For tests: what was done to the disk, in order, and what of it shall fail.

use crate::store::folder::{Inode, Seen};
use std::fs::File;
use std::io;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Make(String),
    /// Into which file, from which offset, what.
    Write(Inode, u64, Vec<u8>),
    Sync(Inode),
    Cut(Inode, u64),
    Rename(String, String),
    Replace(String, String),
    Remove(String),
    SyncNames,
}

#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) steps: Vec<Step>,
    pub(super) count: usize,
    /// Which fails, counted from 1, and with which error.
    pub(super) fails: Option<(usize, rustix::io::Errno)>,
    /// The next of this kind fails.
    pub(super) is_next_sync_failing: bool,
    pub(super) is_next_write_failing: bool,
    /// Of a write that fails so many bytes are written nevertheless.
    pub(super) bytes_of_a_failing_write: usize,
}

impl Watch {
    pub(super) fn meet(&mut self, step: Step) -> Option<io::Error> {
        self.count += 1;
        let is_planned = match &step {
            Step::Sync(_) => std::mem::take(&mut self.is_next_sync_failing),
            Step::Write(..) => std::mem::take(&mut self.is_next_write_failing),
            Step::Make(_)
            | Step::Cut(..)
            | Step::Rename(..)
            | Step::Replace(..)
            | Step::Remove(_)
            | Step::SyncNames => false,
        };
        self.steps.push(step);
        match self.fails {
            Some((at, error)) if at == self.count => Some(error.into()),
            Some(_) | None => is_planned.then(|| rustix::io::Errno::IO.into()),
        }
    }
}

pub(super) fn inode(file: &File) -> io::Result<Inode> {
    Ok(Seen::from(rustix::fs::fstat(file)?).inode)
}
