//! Journals of older formats: rewritten as today's, line by line, by the first claim.
//!
//! The new file is written beside the old one, synced, read again, and takes the old one's
//! name at once; the old one is gone then, since all of it stands in the new one. Whatever
//! ends the process in between, the name leads to the old journal or to the new one.

use super::journals::{Entered, Journals};
use super::name;
use super::position::Position;
use crate::store::{line, owners};
use bob_messages::ids::SessionId;
use bob_messages::store::{Record, StoreError};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::sync::Arc;

impl Journals {
    /// Rewrites a journal of an older format, which was read to this position. Answers the new one and where it ends.
    pub(super) fn bring_up(
        &self,
        session: &SessionId,
        old: &Entered,
        position: &Position,
        records: &[Arc<Record>],
    ) -> Result<(Entered, Position), StoreError> {
        self.refuse_old_owner(position)?;
        let journal = name::of(session);
        let new = name::beside(&journal);
        let failed = |error: io::Error| self.unavailable("write", &new, &error);
        let bytes = self.rewritten(session, &old.file, position)?;
        self.disk.remove(&new).map_err(failed)?;
        let file = self.make(&new).map_err(failed)?;
        self.disk.write(&file.file, file.seen.inode, 0, &bytes).map_err(failed)?;
        self.disk.sync(&file.file).map_err(failed)?;
        let (mut end, mut read) = (Position::new(self.formats), Vec::new());
        let torn = end.read_on(&file.file, None, session, |record| read.push(record));
        if !torn.is_ok_and(|torn| torn == 0) || read != records {
            let path = self.folder.path_of(&journal);
            let text = format!("{path} cannot be brought up to today's format; it was left as it is");
            return Err(StoreError::Unavailable(text));
        }
        self.disk.replace(&new, &journal).map_err(failed)?;
        self.disk.sync_names().map_err(failed)?;
        let (from, to) = (position.format(), self.formats.newest());
        tracing::info!(%session, journal, from, to, "a journal of an older format was brought up to date");
        let entered = self.enter(session)?;
        entered.map(|entered| (entered, end)).ok_or_else(|| self.gone(session))
    }

    /// The lines up to the position as today's program writes them.
    fn rewritten(&self, session: &SessionId, mut old: &File, position: &Position) -> Result<Vec<u8>, StoreError> {
        let failed = |error: io::Error| self.unavailable("read", &name::of(session), &error);
        old.seek(SeekFrom::Start(0)).map_err(failed)?;
        let (mut reader, mut bytes) = (BufReader::new(old), Vec::new());
        let mut left = position.end.saturating_sub(reader.read_until(b'\n', &mut bytes).map_err(failed)? as u64);
        let mut new = line::header(self.formats.newest(), session);
        new.push(b'\n');
        let mut is_second = true;
        while left > 0 {
            bytes.clear();
            left = left.saturating_sub(reader.read_until(b'\n', &mut bytes).map_err(failed)? as u64);
            if std::mem::take(&mut is_second) {
                // It no longer begins as it was accepted.
                let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
                if let Some(own) = line::changed_claim(line, &self.formats, |claim| self.own.sign(session, claim))? {
                    new.extend_from_slice(&own);
                    continue;
                }
            }
            match line::brought_up(bytes.strip_suffix(b"\n").unwrap_or(&bytes), &self.formats) {
                Ok(Some(changed)) => new.extend_from_slice(&changed),
                Ok(None) => new.extend_from_slice(&bytes),
                Err(bad) => return Err(self.unreadable(session, position.bad(bad))),
            }
        }
        Ok(new)
    }

    /// Refuses a journal of format 1 that a running process owns: programs of that format share
    /// a folder session by session.
    pub(super) fn refuse_old_owner(&self, position: &Position) -> Result<(), StoreError> {
        match &position.owner {
            Some(claim) if owners::lives(&self.folder, &claim.lock) => {
                Err(StoreError::Busy { owner: format!("{}, an older program", claim.owner) })
            }
            Some(_) | None => Ok(()),
        }
    }
}
