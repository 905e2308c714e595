//! The open files of journals: a bounded number, the least used one closed first.

use crate::store::folder::Inode;
use bob_messages::ids::SessionId;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

/// The most files kept open: far below the 1,024 descriptors many systems allow a
/// process, since tool servers and sockets want theirs too.
const MAX_OPEN: usize = 256;

/// An open journal and which file it is.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    pub(super) file: Arc<File>,
    pub(super) inode: Inode,
}

#[derive(Debug, Default)]
pub(super) struct Handles {
    open: HashMap<SessionId, (Handle, u64)>,
    /// Counts uses; the smallest is the longest ago.
    uses: u64,
}

impl Handles {
    pub(super) fn get(&mut self, session: &SessionId) -> Option<Handle> {
        self.uses += 1;
        let (handle, used) = self.open.get_mut(session)?;
        *used = self.uses;
        Some(handle.clone())
    }

    pub(super) fn keep(&mut self, session: SessionId, handle: Handle) {
        if self.open.len() >= MAX_OPEN {
            let longest_ago = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(session, _)| session.clone());
            longest_ago.and_then(|session| self.open.remove(&session));
        }
        self.uses += 1;
        self.open.insert(session, (handle, self.uses));
    }

    pub(super) fn forget(&mut self, session: &SessionId) {
        self.open.remove(session);
    }
}
