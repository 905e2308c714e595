//! The file store keeps the contract, and its files survive what happens to files.

use super::*;
use tempfile::TempDir;

/// What the next writes and syncs shall do instead.
#[derive(Debug, Default)]
pub(super) struct Sabotage {
    /// After how many bytes the next write fails.
    pub(super) write_after: Option<usize>,
    pub(super) is_sync_failing: bool,
}

impl Sabotage {
    pub(super) fn next_write(&mut self) -> Option<usize> {
        self.write_after.take()
    }

    pub(super) fn next_sync(&mut self) -> bool {
        std::mem::take(&mut self.is_sync_failing)
    }
}

pub(super) fn open(folder: &TempDir, owner: &str) -> Arc<FileStore> {
    let options = FileStoreOptions { take_over: false, owner_name: owner.to_owned() };
    FileStore::open(folder.path(), options).unwrap()
}

fn make() -> (Arc<dyn SessionStore>, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder, "test"), folder)
}

crate::store_contract!(make);
