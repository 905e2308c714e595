//! Reading a journal: what is known of it up to its last whole line.
//!
//! A position is built by reading, and moved by reading on or by what was written. It never writes.

use crate::store::Ledger;
use crate::store::line::{self, BadLine, ClaimLine, Line};
use bob_messages::ids::SessionId;
use bob_messages::store::{Formats, Record};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// The smallest part of a file that reaches a disk, or does not, in bytes.
const BLOCK: u64 = 512;

/// What is wrong with a file of no bytes.
pub(super) const EMPTY: &str = "it is empty: it was cut off, or an older program ended before it wrote anything";

#[derive(Debug)]
pub(super) struct Position {
    pub(super) ledger: Ledger,
    /// The last claim, unless it was released. Only in a journal of format 1 it says who may write.
    pub(super) owner: Option<ClaimLine>,
    formats: Formats,
    /// What the header says; nothing before it was read.
    pub(super) format: Option<u32>,
    /// Where the last whole line ends, in bytes.
    pub(super) end: u64,
    pub(super) lines: u64,
}

#[derive(Debug)]
pub(super) enum Unreadable {
    Io(io::Error),
    TooNew(u32),
    /// In which line, and what is wrong.
    Damaged(String),
}

impl Position {
    pub(super) fn new(formats: Formats) -> Self {
        Self { ledger: Ledger::default(), owner: None, formats, format: None, end: 0, lines: 0 }
    }

    /// A place behind a line of a journal of the newest format.
    pub(super) fn at(formats: Formats, ledger: Ledger, end: u64) -> Self {
        Self { ledger, end, ..Self::new(formats) }
    }

    /// The journal's format; the newest before its header was read.
    pub(super) fn format(&self) -> u32 {
        self.format.unwrap_or(self.formats.newest())
    }

    pub(super) fn is_older(&self) -> bool {
        self.format() < self.formats.newest()
    }

    /// Reads on from here to the end of the file, or to this many bytes, and gives
    /// the records to the sink. Answers how many bytes of a torn write follow.
    ///
    /// A torn write is one whose writer ended before all of it was written: its last line has no end, or, when the
    /// machine went down with its writer, some of its blocks never reached the disk and read as zeros. Everything else
    /// that does not read is damage, a missing header or first claim included: a journal gets its name only with both.
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
                if self.end == 0 {
                    return Err(self.damaged(if bytes.is_empty() { EMPTY } else { "it is no header" }));
                }
                if !self.is_torn(&bytes) {
                    return Err(self.damaged("it is no torn line, and its end is missing"));
                }
                return self.refuse_unclaimed(limit).map(|()| count);
            };
            match self.take(whole, session, &mut sink) {
                Ok(()) => {}
                Err(Unreadable::Damaged(_)) if self.end > 0 && has_hole(whole, self.end) => {
                    let behind = behind_a_hole(&mut reader)?;
                    let damaged = || self.damaged("a part of it was lost, and it is not of the last write");
                    let behind = behind.ok_or_else(damaged)?;
                    return self.refuse_unclaimed(limit).map(|()| count + behind);
                }
                Err(other) => return Err(other),
            }
            self.end += count;
            self.lines += 1;
        }
    }

    /// Fails at the end of a file that was read from its beginning and has no claim.
    fn refuse_unclaimed(&self, limit: Option<u64>) -> Result<(), Unreadable> {
        match self.format.is_some() && limit.is_none() && self.ledger.epoch() == 0 {
            true => Err(self.damaged("its first claim is missing")),
            false => Ok(()),
        }
    }

    fn take(
        &mut self,
        whole: &[u8],
        session: &SessionId,
        sink: &mut impl FnMut(Arc<Record>),
    ) -> Result<(), Unreadable> {
        if self.end == 0 {
            let format = line::check_header(whole, session, &self.formats).map_err(|bad| self.bad(bad))?;
            self.format = Some(format);
            return Ok(());
        }
        match line::parse(whole, &self.formats).map_err(|bad| self.bad(bad))? {
            Line::Record(record) if record.session != *session => {
                Err(self.damaged(&format!("it is a record of {}", record.session)))
            }
            // Its claim would have raised the journal's format before. A record that is changed when it is read says no more
            // which format it had.
            Line::Record(record) if record.format > self.format() && !self.formats.rewrites() => {
                let (format, header) = (record.format, self.format());
                Err(self.damaged(&format!("a record of format {format} is in a journal of format {header}")))
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
    fn is_torn(&self, bytes: &[u8]) -> bool {
        match bytes {
            [] => true,
            // Of a line that fills its blocks the end alone may not have reached the disk.
            [whole @ .., 0] if (self.end + whole.len() as u64).is_multiple_of(BLOCK) => true,
            [whole @ .., _strange] => line::parse(whole, &self.formats).is_err(),
        }
    }

    pub(super) fn bad(&self, bad: BadLine) -> Unreadable {
        match bad {
            BadLine::TooNew(found) => Unreadable::TooNew(found),
            BadLine::Damaged(what) => self.damaged(&what),
        }
    }

    fn damaged(&self, what: &str) -> Unreadable {
        Unreadable::Damaged(format!("line {}: {what}", self.lines + 1))
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

/// Reads to the end. How many bytes follow, if no line there shows that what is before it was on the disk once.
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
