//! What a list shows of a journal, from its beginning and its end: no journal is read for it.
//!
//! The title stands where the first message is, the state where the last records are. What is
//! found in neither, since long records hide it, is not known here; nothing is written for it.
//! A working folder that was changed between the two is the one of the beginning.

use crate::store::line::{self, Line};
use bob_messages::store::{Formats, Glance, SessionState, SessionSummary};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much of the beginning is looked at, in bytes.
const HEAD: usize = 16 * 1024;

/// How much of the beginning is looked at where the first record is longer: it has the options of a session, of up to 1 MiB.
const MOST_HEAD: usize = 8 * 1024 * 1024;

/// How much of the end is looked at, in bytes.
const TAIL: usize = 16 * 1024;

/// Adds what the journal's beginning and end show.
pub(super) fn seen(file: &File, summary: SessionSummary) -> SessionSummary {
    let read = |at: u64, most: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most];
        let mut filled = 0;
        while filled < most {
            match file.read_at(&mut bytes[filled..], at + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    };
    let Ok(head) = read(0, HEAD + TAIL) else { return summary };
    if head.len() < HEAD + TAIL {
        // A torn line at its end is none.
        return summary.seen(&glance(&head, false));
    }
    let mut begun = glance(&head[..HEAD], true);
    let (mut most, mut has_first) = (HEAD, has_record(&head[..HEAD]));
    while !has_first && most < MOST_HEAD && (most as u64) < summary.bytes {
        most *= 8;
        let Ok(head) = read(0, most) else { break };
        (begun, has_first) = (glance(&head, true), has_record(&head));
    }
    let tail = read(summary.bytes.saturating_sub(TAIL as u64), TAIL).unwrap_or_default();
    let (mut state, mut cwd, mut tenant) = (None, begun.cwd, begun.tenant);
    for line in lines(&tail) {
        if let Ok(Line::Record(record)) = line::parse(line, &Formats::KNOWN) {
            state = SessionState::told_by(&record.fact).or(state);
            tenant = tenant.or_else(|| record.fact.tenant().cloned());
            if let Some(options) = Glance::options_told_by(&record.fact) {
                cwd = options.cwd.as_deref().map(Into::into);
            }
        }
    }
    let Glance { title, parent, created_at, .. } = begun;
    SessionSummary { title, parent, state, tenant, cwd, created_at, ..summary }
}

/// What the records in these bytes show.
fn glance(bytes: &[u8], only_begun: bool) -> Glance {
    let mut glance = Glance::default();
    for line in lines(bytes) {
        if let Ok(Line::Record(record)) = line::parse(line, &Formats::KNOWN) {
            glance.note(&record);
            if only_begun && glance.title.is_some() {
                break;
            }
        }
    }
    glance
}

/// Whether a line behind the first ends in these bytes that is no claim: a record, or what cannot be read.
fn has_record(bytes: &[u8]) -> bool {
    lines(bytes)
        .skip(1)
        .any(|line| !matches!(line::parse(line, &Formats::KNOWN), Ok(Line::Claim(_) | Line::Release(_))))
}

/// The lines that end in these bytes; the first one may lack its beginning.
fn lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    bytes[..end].split(|&byte| byte == b'\n')
}
