//! Where a part of a journal stands. The last snapshot is found from the end: what is before it is neither parsed nor, as
//! a rule, read.
//!
//! Lines are told apart by how they begin, without their checksums; a reader that starts at a found position checks every
//! line from there on. What does not look as expected is not found, and then the journal is read from its beginning.

use super::position::Position;
use crate::store::Ledger;
use crate::store::line::{self, Line};
use bob_messages::ids::SessionId;
use bob_messages::store::{Fact, Formats, Glance};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// How much is read at a time, in bytes.
const PIECE: usize = 64 * 1024;

/// Journals of older formats have none.
const FIRST_WITH_SNAPSHOTS: u32 = 2;

/// How the kind of a record is written; before it are only names without quotes.
const KIND: &[u8] = b"\"kind\":\"";

impl Position {
    /// The position before the last snapshot in the first `end` bytes of a journal. `None` when there
    /// is none, or not as this program writes one.
    pub(super) fn before_snapshot(
        file: &File,
        end: u64,
        session: &SessionId,
        formats: Formats,
    ) -> io::Result<Option<Self>> {
        let header = line::header(formats.newest(), session).len() + 1;
        let mut begins = vec![0; header];
        if end < header as u64 || file.read_exact_at(&mut begins, 0).is_err() {
            return Ok(None);
        }
        let format = begins.strip_suffix(b"\n").and_then(|line| line::check_header(line, session, &formats).ok());
        let Some(format) = format.filter(|format| *format >= FIRST_WITH_SNAPSHOTS) else { return Ok(None) };
        let mut lines = Backwards { file, at: end, held: Vec::new() };
        while let Some((at, line)) = lines.next()? {
            if !is_snapshot(&line) {
                continue;
            }
            let Ok(Line::Record(record)) = line::parse(&line, &formats) else { return Ok(None) };
            if record.session != *session || !matches!(record.fact, Fact::Snapshot(_)) || record.version < 2 {
                return Ok(None);
            }
            let mut ledger = Ledger::behind(record.version - 1, Glance::default());
            ledger.claimed(record.epoch);
            let mut found = Self::at(formats, ledger, at);
            found.format = Some(format);
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// The position behind so many records, and where the page of at most so many behind it ends, if more follow.
    /// `None` when there are not so many.
    pub(super) fn page(
        file: &File,
        end: Option<u64>,
        behind: u64,
        most: usize,
        formats: Formats,
    ) -> io::Result<Option<(Self, Option<u64>)>> {
        let mut file = file;
        file.seek(SeekFrom::Start(0))?;
        let mut lines = BufReader::with_capacity(PIECE, file.take(end.unwrap_or(u64::MAX)));
        let (mut at, mut records, mut bytes) = (0, 0, Vec::new());
        let mut start = (behind == 0).then(|| Self::new(formats));
        loop {
            bytes.clear();
            at += lines.read_until(b'\n', &mut bytes)? as u64;
            let Some(line) = bytes.strip_suffix(b"\n") else { return Ok(start.map(|start| (start, None))) };
            records += u64::from(line::kind(line) == Some("record"));
            if start.is_none() && records == behind {
                let ledger = Ledger::behind(behind, Glance::default());
                start = Some(Self::at(formats, ledger, at));
            }
            if records == behind.saturating_add(most as u64) {
                return Ok(start.map(|start| (start, Some(at))));
            }
        }
    }
}

fn is_snapshot(line: &[u8]) -> bool {
    let is_record = line::kind(line) == Some("record");
    let kind = || line.windows(KIND.len()).position(|bytes| bytes == KIND).map(|at| &line[at + KIND.len()..]);
    is_record && kind().is_some_and(|kind| kind.starts_with(b"snapshot\""))
}

/// The lines of a file from its end, each with its offset and without its end. What stands behind the last end of a
/// line is the first of them.
struct Backwards<'f> {
    file: &'f File,
    /// Where what is held begins.
    at: u64,
    held: Vec<u8>,
}

impl Backwards<'_> {
    fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        // What was looked at for an end of a line and has none.
        let mut looked_at = 0;
        loop {
            let new = self.held.len() - looked_at;
            if let Some(end) = self.held[..new].iter().rposition(|&byte| byte == b'\n') {
                let line = self.held.split_off(end + 1);
                self.held.truncate(end);
                return Ok(Some((self.at + end as u64 + 1, line)));
            }
            if self.at == 0 {
                // The first line is the header.
                return Ok(None);
            }
            looked_at = self.held.len();
            let size = PIECE.max(looked_at).min(usize::try_from(self.at).unwrap_or(PIECE));
            let mut bytes = vec![0; size];
            self.at -= size as u64;
            self.file.read_exact_at(&mut bytes, self.at)?;
            bytes.append(&mut self.held);
            self.held = bytes;
        }
    }
}

#[cfg(test)]
#[path = "latest_tests.rs"]
mod tests;
