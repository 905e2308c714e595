//! Arbitrary bytes as journals: each is read as records, or refused as damaged or too new;
//! nothing panics, and the session beside it is as it was.

use super::tests::{journals, store};
use crate::store::contract::{append, session};
use crate::store::line;
use bob_messages::store::{FORMAT, Record, StoreError};
use std::fs;
use std::sync::Arc;
use tempfile::TempDir;

/// How often it is tried in an ordinary run.
const ITERATIONS: usize = 600;

/// What is done to a journal, one change after the other.
#[derive(Debug, Clone, bolero::TypeGenerator)]
pub(in crate::store) enum Change {
    /// So many bytes from here on become these.
    Replace(u16, u8, Vec<u8>),
    /// The line is doubled.
    Double(u8),
    /// The line is lost.
    Lose(u8),
    /// All behind this byte is lost.
    Cut(u16),
    /// This becomes a line with a right sum.
    Line(u8, Body),
}

/// What stands in a line whose sum is right.
#[derive(Debug, Clone, bolero::TypeGenerator)]
pub(in crate::store) enum Body {
    Bytes(Vec<u8>),
    Format(u32),
    Kind(u8),
    Nested(u16),
}

impl Body {
    fn bytes(&self, record: &Record) -> Vec<u8> {
        let mut json = serde_json::to_value(record).unwrap();
        match self {
            Self::Bytes(bytes) => return bytes.clone(),
            Self::Format(format) => json["format"] = (*format).into(),
            Self::Kind(kind) => json["kind"] = format!("kind_{kind}").into(),
            Self::Nested(deep) => return "[".repeat(usize::from(*deep)).into_bytes(),
        }
        json.to_string().into_bytes()
    }

    /// A line of this with its sum, without its end.
    pub(in crate::store) fn line(&self, record: &Record) -> Vec<u8> {
        let (body, mut sum) = (self.bytes(record), blake3::Hasher::new());
        sum.update(b"record:").update(&body);
        let sum = sum.finalize().to_hex();
        [b"{\"sum\":\"", &sum.as_bytes()[..16], b"\",\"record\":", &body, b"}"].concat()
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, record: &Record) {
        let at = |place: u16, bytes: &[u8]| usize::from(place) % (bytes.len() + 1);
        let mut lines: Vec<_> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        let count = lines.len().max(1);
        match self {
            Self::Replace(place, length, new) => {
                let start = at(*place, bytes);
                let end = bytes.len().min(start + usize::from(*length));
                bytes.splice(start..end, new.iter().copied());
                return;
            }
            Self::Cut(place) => return bytes.truncate(at(*place, bytes)),
            Self::Double(line) => {
                let line = usize::from(*line) % count;
                lines.extend(lines.get(line).cloned());
            }
            Self::Lose(line) => drop(lines.drain(..).enumerate().filter(|(at, _)| *at != usize::from(*line) % count)),
            Self::Line(line, body) => {
                let line = usize::from(*line) % count;
                lines.insert(line, [body.line(record), b"\n".to_vec()].concat());
            }
        }
        *bytes = lines.concat();
    }
}

#[test]
fn fuzz_whatever_stands_in_a_journal_is_read_or_refused() {
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let (one, other) = (session("one"), session("other"));
    let written = {
        let journals = journals(&folder, "first");
        for session in [&one, &other] {
            let epoch = journals.claim(session).unwrap().epoch;
            assert_eq!(store(&journals, append(session, epoch, 0, 3)), Ok(3));
        }
        fs::read(folder.path().join("one.jsonl")).unwrap()
    };
    let old = [line::header(FORMAT - 1, &one), b"\n".to_vec()].concat();
    let record = append(&one, 1, 3, 1).records.remove(0);
    let path = folder.path().join("one.jsonl");
    bolero::check!().with_iterations(ITERATIONS).with_type::<(bool, bool, Vec<u8>, Vec<Change>)>().for_each(
        |(is_journal, is_old, bytes, changes)| {
            let mut bytes = if *is_journal { written.clone() } else { bytes.clone() };
            if *is_old && *is_journal {
                bytes.splice(..old.len(), old.iter().copied());
            }
            changes.iter().take(8).for_each(|change| change.apply(&mut bytes, &record));
            fs::write(&path, &bytes).unwrap();
            check(&folder, &bytes);
        },
    );
}

fn check(folder: &TempDir, bytes: &[u8]) {
    let (journals, one, other) = (journals(folder, "second"), session("one"), session("other"));
    let loaded: Result<Vec<Arc<Record>>, _> = journals.load(&one);
    let claimed = journals.claim(&one).map(|claim| claim.records);
    let is_said =
        |read: &Result<_, StoreError>| matches!(read, Ok(_) | Err(StoreError::Corrupt(_) | StoreError::TooNew { .. }));
    assert!(is_said(&loaded), "{loaded:?}");
    match (&loaded, &claimed) {
        (Ok(loaded), Ok(claimed)) => assert_eq!(loaded, claimed),
        (Err(StoreError::TooNew { .. }), _) => {
            assert_eq!(claimed, loaded);
            assert_eq!(fs::read(folder.path().join("one.jsonl")).unwrap(), bytes, "it is left alone");
        }
        (Err(_), _) => assert!(matches!(claimed, Err(StoreError::Corrupt(_))), "{claimed:?}"),
        (Ok(_), Err(_)) => panic!("it is read and not claimed: {claimed:?}"),
    }
    assert_eq!(journals.load(&other).unwrap().len(), 3, "the other session is as it was");
    assert!(journals.delete(&one).is_ok());
}
