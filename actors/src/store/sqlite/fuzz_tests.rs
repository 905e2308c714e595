//! Arbitrary bytes as rows of records: each session is read as records, or refused as damaged or too new; nothing panics,
//! no row is passed over, and the session beside it is as it was.
//!
//! An input selects changes of rows, or is one of those in `__fuzz__`: a row a line, behind a line that says what becomes of
//! them and of how many the session's own row tells.

use super::statement::Value;
use super::tests::path;
use super::*;
use crate::store::contract::{append, claim, session, store_one};
use crate::store::json::fuzz_tests::{Verdict, kept, selected};
use crate::store::line::{self, Line};
use bob_messages::store::Formats;
use tempfile::TempDir;

/// How often it is tried in an ordinary run.
const ITERATIONS: usize = 150;

/// What becomes of a record's row.
#[derive(Debug, Clone, bolero::TypeGenerator)]
enum Change {
    /// Its text has these bytes from here on.
    Overwrite(u16, Vec<u8>),
    /// It is this text.
    Text(Vec<u8>),
    /// It is a record of this format, with a right sum.
    Format(u32),
    /// It is a fact of a kind that is not known, with a right sum.
    Kind(u8),
    Lose,
}

fn with_sum(body: &str) -> Vec<u8> {
    let mut sum = blake3::Hasher::new();
    sum.update(b"record:").update(body.as_bytes());
    format!("{{\"sum\":\"{}\",\"record\":{body}}}", &sum.finalize().to_hex().as_str()[..16]).into_bytes()
}

impl Change {
    fn apply(&self, line: &[u8]) -> Option<Vec<u8>> {
        let Ok(Line::Record(record)) = line::parse(line, &Formats::KNOWN) else { panic!("it was written so") };
        let mut json = serde_json::to_value(&*record).unwrap();
        match self {
            Self::Overwrite(place, bytes) => {
                let (mut line, start) = (line.to_vec(), usize::from(*place) % line.len());
                let end = line.len().min(start + bytes.len());
                line.splice(start..end, bytes.iter().copied());
                return Some(line);
            }
            Self::Text(bytes) => return Some(bytes.clone()),
            Self::Format(format) => json["format"] = (*format).into(),
            Self::Kind(kind) => json["kind"] = format!("kind_{kind}").into(),
            Self::Lose => return None,
        }
        Some(with_sum(&json.to_string()))
    }
}

#[test]
fn fuzz_whatever_stands_in_the_rows_of_a_session_is_read_or_refused() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let (one, other) = (session("one"), session("other"));
    let open = || SqliteStore::open(&path(folder.path()), StoreOptions::default()).unwrap() as Arc<dyn SessionStore>;
    runtime().block_on(async {
        let store = open();
        for session in [&one, &other] {
            let epoch = claim(&store, session).await;
            assert_eq!(store_one(&store, append(session, epoch, 0, 3)).await, Ok(3));
        }
    });
    let database = Database::open(&path(folder.path())).unwrap();
    let mut lines = Vec::new();
    let mut read = database.statement("SELECT line FROM records WHERE session = 1 ORDER BY version").unwrap();
    read.each(&[], |row| row.text(0).map(|line| lines.extend(line.map(<[u8]>::to_vec)))).unwrap();
    drop(read);
    drop(database);
    let case = |input: &[u8]| {
        if let Some((words, rows)) = kept(input, "rows") {
            let rows = rows.split_inclusive(|byte| *byte == b'\n').map(|row| Some(row[..row.len() - 1].to_vec()));
            let count = std::str::from_utf8(words[1]).unwrap().parse::<usize>().unwrap();
            return Some((rows.collect(), count, Some(Verdict::named(words[0]))));
        }
        let changes = selected::<[Option<Change>; 3]>(input)?;
        let rows = lines
            .iter()
            .zip(&changes)
            .map(|(line, change)| change.as_ref().map_or_else(|| Some(line.clone()), |change| change.apply(line)));
        Some((rows.collect::<Vec<_>>(), 3, None))
    };
    bolero::check!(name = "rows").with_iterations(ITERATIONS).for_each(|input: &[u8]| {
        let Some((rows, count, verdict)) = case(input) else { return };
        let database = Database::open(&path(folder.path())).unwrap();
        database.tamper("DELETE FROM records WHERE session = 1");
        database.tamper(&format!("UPDATE sessions SET damage = NULL, version = {count} WHERE number = 1"));
        let mut insert = database.statement("INSERT INTO records VALUES (1, ?1, ?2)").unwrap();
        for (version, line) in (1..).zip(&rows) {
            if let Some(line) = line {
                insert.run(&[Value::Number(version), Value::Text(line)]).unwrap();
            }
        }
        drop(insert);
        drop(database);
        runtime().block_on(async {
            let store = open();
            let loaded = store.load(&one).await;
            let claimed = store.claim(&one).await.map(|claim| claim.records);
            let said = Verdict::of(&loaded);
            assert!(verdict.is_none_or(|verdict| verdict == said), "{verdict:?}, but {loaded:?}");
            assert_eq!(Verdict::of(&claimed), said, "{claimed:?}");
            if let Ok(records) = &loaded {
                assert_eq!(&loaded, &claimed);
                assert_eq!(records.len(), count, "a record that was acknowledged is passed over");
            }
            if said == Verdict::Newer {
                let page = store.list(&SessionFilter::default(), None).await.unwrap();
                assert!(page.quarantined.is_empty(), "what is too new is not damaged");
            }
            assert_eq!(store.load(&other).await.unwrap().len(), 3, "the other session is as it was");
        });
    });
}
