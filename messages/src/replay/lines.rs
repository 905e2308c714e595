//! JSON lines to records, session by session.

use crate::ids::SessionId;
use crate::store::{BadRecord, Formats, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a text is no journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if *line == 0 { String::new() } else { format!("line {line}: ") })]
#[non_exhaustive]
pub struct Unreadable {
    /// Which line, from 1; 0 when it is the whole.
    pub line: usize,
    /// Description of the error.
    pub why: String,
}

/// Reads journals, one record a line, as `sessions export` prints them. Lines of several sessions may be mixed; those of
/// one are in their order.
///
/// # Errors
/// For a line that is no record, one of a newer program, and one that does not follow the one before it.
pub fn read<T: AsRef<str>>(
    lines: impl IntoIterator<Item = T>,
) -> Result<BTreeMap<SessionId, Vec<Arc<Record>>>, Unreadable> {
    let mut journals: BTreeMap<SessionId, Vec<Arc<Record>>> = BTreeMap::new();
    for (at, text) in lines.into_iter().enumerate() {
        let wrong = |why: String| Unreadable { line: at + 1, why };
        let text = text.as_ref();
        if text.trim().is_empty() {
            continue;
        }
        let record = Formats::KNOWN.read(text.as_bytes()).map_err(|bad| match bad {
            BadRecord::TooNew(_) => wrong("it was written by a newer program; use that one".to_owned()),
            BadRecord::Damaged(why) => wrong(why),
        })?;
        let journal = journals.entry(record.session.clone()).or_default();
        let version = journal.len() as u64 + 1;
        if record.version != version {
            let why = format!("it is record {} of session {}, expected was {version}", record.version, record.session);
            return Err(wrong(why));
        }
        journal.push(Arc::new(record));
    }
    if journals.is_empty() {
        return Err(Unreadable { line: 0, why: "there is no record in it".to_owned() });
    }
    Ok(journals)
}
