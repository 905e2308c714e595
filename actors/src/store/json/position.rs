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

/// The smallest part of a file that reaches a disk, or does not, in bytes.
const BLOCK: u64 = 512;

/// No claim and record together have fewer bytes.
const SMALLEST_CLAIM_AND_RECORD: usize = 250;

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
    /// the records to the sink. Answers how many bytes of a torn write follow.
    ///
    /// A torn write is one whose writer ended before all of it was written: its last line
    /// has no end, or, when the machine went down with its writer, some of its blocks never
    /// reached the disk and read as zeros. Everything else that does not read is damage.
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
            match self.take(whole, session, &mut sink) {
                Ok(()) => {}
                Err(Unreadable::Damaged(_)) if has_hole(whole, self.end) => {
                    let behind = behind_a_hole(&mut reader)?;
                    let damaged = || self.damaged("a part of it was lost, and it is not of the last write");
                    return behind.map(|behind| count + behind).ok_or_else(damaged);
                }
                Err(other) => return Err(other),
            }
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
    /// strange byte behind it is not: there its end was damaged.
    fn is_torn(&self, bytes: &[u8], session: &SessionId) -> bool {
        match bytes {
            [] => true,
            _ if self.end == 0 => is_torn_start(bytes, session),
            // Of a line that fills its blocks the end alone may not have reached the disk.
            [whole @ .., 0] if (self.end + whole.len() as u64).is_multiple_of(BLOCK) => true,
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

/// A header is known to the byte, so nothing foreign passes for the beginning of one. Zeros
/// may follow it; there may be nothing else if so few that no record can have stood there.
fn is_torn_start(bytes: &[u8], session: &SessionId) -> bool {
    let header = line::header(session);
    let start = bytes.len() - bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    match bytes.get(..start) {
        Some([]) => bytes.len() < header.len() + SMALLEST_CLAIM_AND_RECORD,
        Some(begun) => header.starts_with(begun),
        None => false,
    }
}

/// Whether a line at this offset has zeros where a whole block, or what the last write had of
/// it, would be. A line has no zero byte of its own.
fn has_hole(line: &[u8], at: u64) -> bool {
    let is_edge = |offset: usize| offset == 0 || (at + offset as u64).is_multiple_of(BLOCK);
    let mut rest = 0;
    while let Some(start) = line.get(rest..).and_then(|rest| rest.iter().position(|&byte| byte == 0)) {
        let start = rest + start;
        let end = start + line.get(start..).unwrap_or_default().iter().take_while(|&&byte| byte == 0).count();
        if is_edge(start) && is_edge(end) {
            return true;
        }
        rest = end;
    }
    false
}

/// Reads to the end. How many bytes follow, if no line there shows that what is before it
/// was on the disk once.
fn behind_a_hole(reader: &mut impl BufRead) -> Result<Option<u64>, Unreadable> {
    let (mut behind, mut bytes) = (0, Vec::new());
    loop {
        bytes.clear();
        let count = reader.read_until(b'\n', &mut bytes).map_err(Unreadable::Io)? as u64;
        match bytes.strip_suffix(b"\n") {
            Some(whole) if line::begins_write(whole) => return Ok(None),
            Some(_) => behind += count,
            None => return Ok(Some(behind + count)),
        }
    }
}
