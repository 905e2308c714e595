//! Reading a journal: what is known of it up to its last whole line.
//!
//! A position is built by reading and moved by reading on, so that lines another
//! process wrote cost no more than themselves. It never writes.

use crate::store::Ledger;
use crate::store::line::{self, BadLine, ClaimLine, Line};
use bob_messages::ids::SessionId;
use bob_messages::store::Record;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// What is known of a journal.
#[derive(Debug, Default)]
pub(super) struct Position {
    pub(super) ledger: Ledger,
    /// The last claim, unless it was released.
    pub(super) owner: Option<ClaimLine>,
    /// Where the last whole line ends, in bytes.
    pub(super) end: u64,
    lines: u64,
}

/// Why a journal cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    Io(io::Error),
    TooNew(u32),
    /// In which line, and what is wrong.
    Damaged(String),
}

impl Position {
    /// Reads on from here to the end of the file, or to this many bytes, and gives
    /// the records to the sink. Answers how many bytes of a torn line follow.
    ///
    /// A torn line is one whose writer ended before its end was written: the last,
    /// without an end. Everything else that does not read is damage.
    pub(super) fn read_on(
        &mut self,
        mut file: &File,
        limit: Option<u64>,
        session: &SessionId,
        mut sink: impl FnMut(Arc<Record>),
    ) -> Result<u64, Unreadable> {
        file.seek(SeekFrom::Start(self.end)).map_err(Unreadable::Io)?;
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.end));
        let mut reader = BufReader::with_capacity(64 * 1024, file.take(left));
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let count = reader.read_until(b'\n', &mut bytes).map_err(Unreadable::Io)? as u64;
            let Some(whole) = bytes.strip_suffix(b"\n") else {
                return match self.is_torn(&bytes, session) {
                    true => Ok(count),
                    false => Err(self.damaged("it is no torn line, and its end is missing")),
                };
            };
            self.take(whole, session, &mut sink)?;
            self.end += count;
            self.lines += 1;
        }
    }

    fn take(
        &mut self,
        whole: &[u8],
        session: &SessionId,
        sink: &mut impl FnMut(Arc<Record>),
    ) -> Result<(), Unreadable> {
        if self.end == 0 {
            return line::check_header(whole, session).map_err(|bad| self.bad(bad));
        }
        match line::parse(whole).map_err(|bad| self.bad(bad))? {
            Line::Record(record) if record.session != *session => {
                Err(self.damaged(&format!("it is a record of {}", record.session)))
            }
            Line::Record(record) if record.version != self.ledger.version() + 1 => Err(self.damaged(&format!(
                "it is record {} where {} should be",
                record.version,
                self.ledger.version() + 1
            ))),
            Line::Record(record) => {
                self.ledger.stored(&record);
                sink(record);
                Ok(())
            }
            Line::Claim(claim) if claim.epoch <= self.ledger.epoch() => {
                Err(self.damaged(&format!("it claims epoch {} after {}", claim.epoch, self.ledger.epoch())))
            }
            Line::Claim(claim) => {
                self.ledger.claimed(claim.epoch);
                self.owner = Some(claim);
                Ok(())
            }
            Line::Release(release) => {
                self.owner.take_if(|owner| owner.epoch == release.epoch);
                Ok(())
            }
        }
    }

    /// Notes lines that this process itself has just written at the end.
    pub(super) fn wrote(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    }

    /// A beginning of a line is what a torn write leaves. A whole line with one
    /// strange byte behind it is not: there its end was damaged. A header is known
    /// to the byte, so nothing foreign passes for the beginning of one.
    fn is_torn(&self, bytes: &[u8], session: &SessionId) -> bool {
        match bytes {
            [] => true,
            _ if self.end == 0 => line::header(session).starts_with(bytes),
            [whole @ .., _strange] => line::parse(whole).is_err(),
        }
    }

    fn bad(&self, bad: BadLine) -> Unreadable {
        match bad {
            BadLine::TooNew(found) => Unreadable::TooNew(found),
            BadLine::Damaged(what) => self.damaged(&what),
        }
    }

    fn damaged(&self, what: &str) -> Unreadable {
        Unreadable::Damaged(format!("line {}: {what}", self.lines + 1))
    }
}
