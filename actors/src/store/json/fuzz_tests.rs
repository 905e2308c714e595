//! Arbitrary bytes as journals: each is read as records, or refused as damaged or too new; nothing panics, no whole line
//! is passed over, and the session beside it is as it was.
//!
//! An input selects changes of a journal, or is one of those in `__fuzz__`: a journal as it stands on a disk, behind a
//! line that says what becomes of it.

use super::journals::Journals;
use super::tests::{journals, store};
use crate::store::contract::{append, session};
use crate::store::{line, name};
use bob_messages::ids::SessionId;
use bob_messages::store::{FORMAT, Record, StoreError};
use bolero::TypeGenerator;
use bolero::generator::bolero_generator::driver::{ByteSliceDriver, Options};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
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

/// What becomes of a journal that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Verdict {
    Read,
    Damaged,
    Newer,
}

impl Verdict {
    pub(in crate::store) fn of<T>(read: &Result<T, StoreError>) -> Self {
        match read {
            Ok(_) => Self::Read,
            Err(StoreError::Corrupt(_)) => Self::Damaged,
            Err(StoreError::TooNew { .. }) => Self::Newer,
            Err(other) => panic!("it is neither read nor refused: {other}"),
        }
    }

    pub(in crate::store) fn named(word: &[u8]) -> Self {
        match word {
            b"read" => Self::Read,
            b"damaged" => Self::Damaged,
            b"newer" => Self::Newer,
            other => panic!("{:?} is no verdict", String::from_utf8_lossy(other)),
        }
    }
}

/// The words of an input's first line and what follows it, if it is a kept one of this kind.
pub(in crate::store) fn kept<'a>(input: &'a [u8], kind: &str) -> Option<(Vec<&'a [u8]>, &'a [u8])> {
    let rest = input.strip_prefix(kind.as_bytes())?.strip_prefix(b" ")?;
    let end = rest.iter().position(|byte| *byte == b'\n').expect("a line end behind the first line");
    Some((rest[..end].split(|byte| *byte == b' ').collect(), &rest[end + 1..]))
}

/// The value that these bytes select.
pub(in crate::store) fn selected<T: TypeGenerator>(input: &[u8]) -> Option<T> {
    T::generate(&mut ByteSliceDriver::new(input, &Options::default()))
}

/// A journal, and what becomes of it where that is known.
struct Case {
    session: SessionId,
    bytes: Vec<u8>,
    verdict: Option<Verdict>,
}

/// The session that the first line of a journal names.
fn named(journal: &[u8]) -> Option<SessionId> {
    let header: Value = serde_json::from_slice(journal.split(|byte| *byte == b'\n').next()?).ok()?;
    SessionId::parse(header["session"].as_str()?).ok()
}

struct Fixture {
    folder: TempDir,
    /// The journal of the session `one`.
    written: Vec<u8>,
    /// A record that may follow.
    next: Arc<Record>,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let journals = journals(&folder, "first");
        for session in [session("one"), session("other")] {
            let epoch = journals.claim(&session).unwrap().epoch;
            assert_eq!(store(&journals, append(&session, epoch, 0, 3)), Ok(3));
        }
        drop(journals);
        let written = fs::read(folder.path().join("one.jsonl")).unwrap();
        let next = append(&session("one"), 1, 3, 1).records.remove(0);
        Self { folder, written, next }
    }

    fn case(&self, input: &[u8]) -> Option<Case> {
        if let Some((words, journal)) = kept(input, "journal") {
            let session = named(journal).unwrap_or_else(|| session("one"));
            return Some(Case { session, bytes: journal.to_vec(), verdict: Some(Verdict::named(words[0])) });
        }
        let (is_journal, is_old, bytes, changes) = selected::<(bool, bool, Vec<u8>, Vec<Change>)>(input)?;
        let mut bytes = if is_journal { self.written.clone() } else { bytes };
        if is_old && is_journal {
            let old = [line::header(FORMAT - 1, &session("one")), b"\n".to_vec()].concat();
            bytes.splice(..old.len(), old.iter().copied());
        }
        changes.iter().take(8).for_each(|change| change.apply(&mut bytes, &self.next));
        Some(Case { session: session("one"), bytes, verdict: None })
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.folder.path().join(name::of(session))
    }
}

#[test]
fn fuzz_whatever_stands_in_a_journal_is_read_or_refused() {
    let fixture = Fixture::new();
    bolero::check!(name = "journals").with_iterations(ITERATIONS).for_each(|input: &[u8]| {
        if let Some(case) = fixture.case(input) {
            fs::write(fixture.path(&case.session), &case.bytes).unwrap();
            check(&fixture, &case);
        }
    });
}

fn check(fixture: &Fixture, Case { session: one, bytes, verdict }: &Case) {
    // What stands there is accepted.
    fs::remove_file(fixture.folder.path().join(super::own::LIST)).unwrap();
    let (journals, other): (Journals, _) = (journals(&fixture.folder, "second"), session("other"));
    let loaded: Result<Vec<Arc<Record>>, _> = journals.load(one);
    let claimed = journals.claim(one).map(|claim| claim.records);
    let said = Verdict::of(&loaded);
    assert!(verdict.is_none_or(|verdict| verdict == said), "{verdict:?}, but {loaded:?}");
    assert_eq!(Verdict::of(&claimed), said, "{claimed:?}");
    match &loaded {
        Ok(records) => {
            assert_eq!(&loaded, &claimed);
            // Of a write that a crash of the machine left with zeros, whole lines may be passed over.
            if !bytes.contains(&0) {
                let ids: Vec<String> = records.iter().map(|record| record.id.to_string()).collect();
                assert_eq!(ids, whole_records(bytes), "a record that was acknowledged is passed over");
            }
        }
        Err(StoreError::TooNew { .. }) => {
            assert_eq!(claimed, loaded);
            assert_eq!(&fs::read(fixture.path(one)).unwrap(), bytes, "it is left alone");
        }
        Err(_damaged) => {}
    }
    assert_eq!(journals.load(&other).unwrap().len(), 3, "the other session is as it was");
    assert!(journals.delete(one).is_ok());
}

/// The ids of the records of all lines that have an end, as any reader of JSON finds them.
fn whole_records(journal: &[u8]) -> Vec<String> {
    let end = journal.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
    let text = String::from_utf8_lossy(&journal[..end]);
    let lines = text.split('\n').map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| Some(line.get("record")?["id"].as_str().unwrap().to_owned())).collect()
}
