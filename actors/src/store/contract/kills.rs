//! The rules of a writer that is killed or whose disk is full, whenever that happens:
//! what it was told to be stored is there for the next, as it was sent. A rule that is
//! broken, and a process that cannot be started, panics: the test fails there.

use super::owners::{Open, busy, claim_of_the_gone, enter};
use super::processes::{given, second, start, tell, told};
use super::{append, claim, record, session, store_one};
use crate::store::SessionStore;
use bob_messages::store::StoreError;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many kills; without it, [`KILLS`].
const HOW_MANY: &str = "BOB_TEST_STORE_KILLS";
const SESSIONS: u64 = 4;
const KILLS: usize = 25;
/// How many kills the sessions of one folder meet.
const OF_ONE_FOLDER: usize = 20;
/// The largest sizes of a file that are tried, in blocks of 512 bytes: from one that
/// is too small for anything to one that a database outgrows after some appends.
const SIZES: [u32; 12] = [1, 2, 3, 5, 9, 14, 40, 65, 80, 110, 160, 240];

/// What was acknowledged, as it was told by whoever wrote it: which session's record
/// with which version was written under which epoch.
#[derive(Default)]
struct Acknowledged {
    records: HashMap<String, BTreeMap<u64, u64>>,
    /// How many records were there when it was last looked.
    seen: HashMap<String, u64>,
}

impl Acknowledged {
    /// Notes `stored <session> <epoch> <first version> <last version>`. Whether the line says so.
    fn note(&mut self, line: &str) -> bool {
        let Some(stored) = told(line, "stored") else { return false };
        let words: Vec<_> = stored.split(' ').collect();
        let [one, epoch, first, last] = words[..] else { panic!("{line:?} is no acknowledgement") };
        let number = |word: &str| word.parse::<u64>().expect("it tells numbers");
        let records = self.records.entry(one.to_owned()).or_default();
        records.extend((number(first)..=number(last)).map(|version| (version, number(epoch))));
        true
    }

    /// Every acknowledged record is there as it was sent, in its place, and whatever was there
    /// before; and of this writer at most one append of which nobody heard.
    async fn check(&mut self, store: &Arc<dyn SessionStore>, when: &str) {
        for (id, records) in &self.records {
            let one = session(id);
            let there = store.load(&one).await.unwrap_or_else(|error| panic!("{when}: {id} cannot be read: {error}"));
            for (&version, &epoch) in records {
                let found = usize::try_from(version - 1).ok().and_then(|at| there.get(at));
                let sent = record(&one, epoch, version, "r");
                assert_eq!(found, Some(&sent), "{when}: record {version} of {id} is not what was acknowledged");
            }
            let seen = self.seen.entry(id.clone()).or_default();
            let last = records.keys().next_back().copied().unwrap_or_default().max(*seen);
            let count = there.len() as u64;
            assert!((last..=last + 3).contains(&count), "{when}: {id} has {count} records of {last}");
            *seen = count;
        }
    }
}

/// Every acknowledged append is there after a kill at a random moment, whole and in
/// order. `examine` looks at the folder after each. `BOB_TEST_STORE_KILLS` says how often.
pub async fn s1_what_was_acknowledged_survives_a_kill_at_any_time(
    test: &str,
    folder: &Path,
    open: Open,
    examine: fn(&Path),
) {
    if let Some(folder) = given() {
        return write_until_killed(&folder, open).await;
    }
    let kills = std::env::var(HOW_MANY).map_or(KILLS, |kills| kills.parse().expect("it is a number"));
    let (mut acknowledged, mut appends) = (Acknowledged::default(), 0);
    for round in 0..kills {
        // A folder of their own for every few, so that reading what there is does not take longer and longer.
        let folder = &folder.join((round / OF_ONE_FOLDER).to_string());
        if round % OF_ONE_FOLDER == 0 {
            std::fs::create_dir(folder).expect("a folder for the next rounds");
            acknowledged = Acknowledged::default();
        }
        let (mut writer, mut lines) = second(test, folder);
        if round % 4 == 3 {
            // Somewhere between its start and its first answers: while it opens and claims.
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..60_000)));
        } else {
            // The first answer shows that it writes; then it has some moments left.
            let left = Duration::from_micros(fastrand::u64(0..20_000));
            let mut deadline = None;
            for line in lines.by_ref().map_while(Result::ok) {
                let is_stored = acknowledged.note(&line);
                appends += usize::from(is_stored);
                if is_stored && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + left) {
                    break;
                }
            }
            assert!(deadline.is_some(), "the writer wrote in round {round}");
        }
        writer.kill().expect("it can be killed");
        for line in lines.map_while(Result::ok) {
            appends += usize::from(acknowledged.note(&line));
        }
        writer.wait().expect("it ends");
        let reader = enter(folder, open, "reader", false);
        acknowledged.check(&reader, &format!("round {round}")).await;
        drop(reader);
        if round % 4 != 3 {
            examine(folder);
        }
    }
    assert!(appends > kills, "{appends} acknowledged appends in {kills} rounds show little");
}

/// The life of the process that is killed: it tells each append that was answered.
async fn write_until_killed(folder: &Path, open: Open) {
    let store = enter(folder, open, &format!("writer {}", std::process::id()), false);
    let mut owned = Vec::new();
    for index in 0..SESSIONS {
        let one = session(&format!("s{index}"));
        let claimed = claim_of_the_gone(&store, &one).await.expect("its last owner is dead");
        owned.push((one, claimed.epoch, claimed.version));
    }
    loop {
        let batch = owned.iter().map(|(one, epoch, version)| append(one, *epoch, *version, 3));
        let answers = store.append(batch.collect()).await;
        for ((one, epoch, version), answer) in owned.iter_mut().zip(answers) {
            let first = *version + 1;
            *version = answer.expect("it is stored");
            tell(&format!("stored {one} {epoch} {first} {version}"));
        }
    }
}

/// A file that may not grow any further, at whatever size: what is refused is not
/// acknowledged, what was acknowledged stays, and without the limit all goes on.
pub async fn s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged(test: &str, folder: &Path, open: Open) {
    if let Some(folder) = given() {
        return write_until_refused(&folder, open).await;
    }
    let program = std::env::current_exe().expect("a test has a program");
    let mut refused = 0;
    for blocks in SIZES {
        let folder = folder.join(blocks.to_string());
        std::fs::create_dir(&folder).expect("a folder for this size");
        let mut limited = Command::new("sh");
        // Who does not ignore the signal is ended by it instead of hearing an error.
        limited
            .args(["-c", "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"", "sh", &blocks.to_string()])
            .arg(&program);
        let (mut writer, lines) = start(limited, test, &folder);
        let mut acknowledged = Acknowledged::default();
        for line in lines.map_while(Result::ok) {
            acknowledged.note(&line);
            refused += usize::from(told(&line, "refused").is_some());
        }
        assert!(writer.wait().expect("it ends").success(), "it hears errors and does not fail, with {blocks} blocks");
        let (store, when) = (enter(&folder, open, "reader", false), format!("with {blocks} blocks"));
        acknowledged.check(&store, &when).await;
        let one = session("s0");
        let claimed = store.claim(&one).await.expect("there is room now");
        let next = append(&one, claimed.epoch, claimed.version, 3);
        assert_eq!(store_one(&store, next).await, Ok(claimed.version + 3), "{when}");
        acknowledged.note(&format!("stored {one} {} {} {}", claimed.epoch, claimed.version + 1, claimed.version + 3));
        acknowledged.check(&store, &when).await;
    }
    assert!(refused > SIZES.len(), "{refused} refusals in {} sizes show little", SIZES.len());
}

/// Writes to one session until it is refused, and then some more, each append until it
/// is stored or was refused three times.
async fn write_until_refused(folder: &Path, open: Open) {
    let (store, one) = (enter(folder, open, "writer", false), session("s0"));
    let (mut epoch, mut version, mut refusals) = (0, 0, 0);
    while refusals < 12 {
        let answer = match epoch {
            0 => store.claim(&one).await.map(|claimed| (epoch, version) = (claimed.epoch, claimed.version)),
            _ => store_one(&store, append(&one, epoch, version, 3)).await.map(|stored| {
                tell(&format!("stored {one} {epoch} {} {stored}", version + 1));
                version = stored;
            }),
        };
        match answer {
            Ok(()) => {}
            Err(error) if error.is_retryable() => {
                refusals += 1;
                tell(&format!("refused {error:?}"));
            }
            // A claim in doubt may have been made.
            Err(StoreError::Fenced { .. }) => epoch = 0,
            Err(other) => panic!("a full disk is no {other}"),
        }
    }
}

/// The owner that is killed holds nothing any more, and leaves nothing behind.
pub async fn s7_a_killed_owners_session_is_free_at_once_and_its_file_swept(test: &str, folder: &Path, open: Open) {
    if let Some(folder) = given() {
        let ann = enter(&folder, open, "ann", false);
        tell(&format!("claimed {}", claim(&ann, &session("one")).await));
        std::io::stdin().read_line(&mut String::new()).expect("it is killed here");
        return;
    }
    let (one, mut last) = (session("one"), None);
    for _round in 0..3 {
        let (mut ann, mut lines) = second(test, folder);
        let claimed = lines.by_ref().map_while(Result::ok).find_map(|line| told(&line, "claimed").map(str::to_owned));
        let claimed: u64 = claimed.expect("it claims").parse().expect("an epoch");
        assert_eq!(last.map_or(claimed, |last: u64| last + 1), claimed);
        let ben = enter(folder, open, "ben", false);
        assert_eq!(ben.claim(&one).await, Err(busy("ann")));
        ann.kill().expect("it can be killed");
        ann.wait().expect("it ends");
        assert_eq!(ben.claim(&one).await.expect("its owner is dead").epoch, claimed + 1);
        last = Some(claimed + 1);
        assert_eq!(owner_files(folder), 1, "only the living owner has a file");
        drop(ben);
        assert_eq!(owner_files(folder), 0);
    }
}

/// How many files of owners there are, wherever this store has them.
fn owner_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it reads").path());
    let count = |path: PathBuf| match path.is_dir() {
        true => owner_files(&path),
        false => usize::from(path.extension().is_some_and(|end| end == "owner")),
    };
    entries.map(count).sum()
}
