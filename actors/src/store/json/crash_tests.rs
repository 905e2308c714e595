//! The n-th thing that is done to the disk fails, for every n; and what a crash of the
//! whole machine may leave of a trace, by what POSIX promises, for every step of it.

use super::journals::Journals;
use super::lock::lock;
use super::tests::{journals, store};
use super::watch::Step;
use crate::store::contract::{append, session};
use crate::store::folder::Inode;
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, Record, StoreError};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The most often an operation of a trace is tried again: more than one fault never meets it.
const ATTEMPTS: usize = 3;

/// What a session's journal is known to hold, by what its store has confirmed.
type Confirmed = BTreeMap<SessionId, Vec<Arc<Record>>>;

/// Some sessions, claimed, written, released, damaged, deleted and claimed again. Each
/// operation is tried again with the same records, as whoever uses a store does.
/// After each that was confirmed, `confirmed` hears of it.
fn live(journals: &Journals, mut confirmed: impl FnMut(&Confirmed)) -> Confirmed {
    let mut known = Confirmed::new();
    let sessions = ["one", "Two", "three"].map(session);
    for round in 0..5 {
        for (index, one) in (0..).zip(&sessions) {
            let claim = again(|| journals.claim(one));
            let known_here = known.get(one).cloned().unwrap_or_default();
            assert_eq!(claim.records, known_here, "a claim shows what was confirmed");
            for part in 0..2 {
                let version = known.get(one).map_or(0, Vec::len) as u64;
                // Some of many records, so that they fill several blocks.
                let count = if (round + index + part) % 4 == 3 { 24 } else { 1 + part };
                let attempt = append(one, claim.epoch, version, count);
                assert_eq!(again(|| store_claimed(journals, &attempt)), version + count);
                known.entry(one.clone()).or_default().extend(attempt.records);
                confirmed(&known);
            }
            if round == 0 || index == 1 {
                journals.release(one, claim.epoch);
            }
        }
        if round == 1 {
            again(|| journals.delete(&sessions[2]));
            known.remove(&sessions[2]);
            confirmed(&known);
        }
    }
    known
}

/// In memory where the system has such a place: these tests are of the order of things, and
/// sync some ten thousand times.
fn quick_folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// What is in doubt or refused is tried again.
fn again<T>(mut attempt: impl FnMut() -> Result<T, StoreError>) -> T {
    for _attempt in 1..ATTEMPTS {
        match attempt() {
            Ok(done) => return done,
            Err(StoreError::InDoubt(_) | StoreError::Unavailable(_)) => {}
            Err(other) => panic!("a disk that fails once is no {other}"),
        }
    }
    attempt().expect("the disk works again")
}

/// A claim that failed late may have taken its epoch.
fn without_epochs(known: &Confirmed) -> BTreeMap<SessionId, Vec<Record>> {
    let of = |records: &Vec<Arc<Record>>| {
        records.iter().map(|record| Record { epoch: 0, ..Record::clone(record) }).collect()
    };
    known.iter().map(|(session, records)| (session.clone(), of(records))).collect()
}

fn store_claimed(journals: &Journals, append: &Append) -> Result<u64, StoreError> {
    store(journals, append.clone())
}

#[test]
fn s3_whichever_step_on_the_disk_fails_nothing_confirmed_is_lost_and_all_goes_on() {
    let folder = quick_folder();
    let unharmed = journals(&folder, "test");
    let expected = live(&unharmed, |_| {});
    let steps = lock(&unharmed.disk.watch).count;
    for (error, bytes_of_a_failing_write) in [(Errno::IO, 0), (Errno::NOSPC, 100), (Errno::DQUOT, usize::MAX)] {
        for nth in 1..=steps {
            let folder = quick_folder();
            let journals = journals(&folder, "test");
            {
                let mut watch = lock(&journals.disk.watch);
                watch.fails = Some((nth, error));
                watch.bytes_of_a_failing_write = bytes_of_a_failing_write;
            }
            // What was confirmed is there after the failure, and nothing that was not.
            let lived = live(&journals, |known| {
                let count = lock(&journals.disk.watch).count;
                if (nth..nth + 12).contains(&count) {
                    check(&journals, known);
                }
            });
            assert_eq!(without_epochs(&lived), without_epochs(&expected));
            assert!(lock(&journals.disk.watch).count >= nth, "step {nth} was tried");
            drop(journals);
            check(&super::tests::journals(&folder, "next"), &lived);
        }
    }
    assert!(steps >= 50, "{steps} steps are few");
}

fn check(journals: &Journals, known: &Confirmed) {
    for id in ["one", "Two", "three"] {
        let one = session(id);
        assert_eq!(journals.load(&one), Ok(known.get(&one).cloned().unwrap_or_default()), "{id}");
    }
}

#[test]
fn s4_nothing_is_confirmed_whose_sync_failed() {
    let folder = quick_folder();
    let unharmed = journals(&folder, "test");
    live(&unharmed, |_| {});
    let steps = std::mem::take(&mut lock(&unharmed.disk.watch).steps);
    let mut syncs = 0;
    for (nth, _sync) in (1..).zip(&steps).filter(|(_, step)| matches!(step, Step::Sync(_) | Step::SyncNames)) {
        let folder = quick_folder();
        let journals = journals(&folder, "test");
        lock(&journals.disk.watch).fails = Some((nth, Errno::IO));
        live(&journals, |_| {
            // Whatever is confirmed was synced after its last write by a sync that did not fail:
            // the one that failed is not the last thing that was done to that file.
            let watch = lock(&journals.disk.watch);
            assert_ne!(watch.count, nth, "an answer came right after the sync that failed");
        });
        syncs += 1;
    }
    assert!(syncs >= 20, "{syncs} syncs are few");
}

/// What is on a disk: files by their inodes, and which name leads to which.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct OnDisk {
    files: BTreeMap<Inode, Vec<u8>>,
    names: BTreeMap<String, Inode>,
}

/// Of one file or of the names: what is durable, and what was done since.
#[derive(Debug, Clone, Default)]
struct Pending {
    durable: Vec<u8>,
    since: Vec<Step>,
}

/// A step of the trace, or what was known to be confirmed from there on.
enum Traced {
    Step(Step),
    Confirmed(Confirmed),
}

/// A whole trace, with the inode of each name that was made or renamed.
fn traced() -> (Vec<Traced>, BTreeMap<usize, Inode>) {
    let folder = quick_folder();
    let journals = journals(&folder, "test");
    let (mut trace, mut made, mut taken) = (Vec::new(), BTreeMap::new(), 0);
    let mut names = BTreeMap::new();
    let mut take = |known: Option<&Confirmed>| {
        let watch = lock(&journals.disk.watch);
        for step in &watch.steps[taken..] {
            if let Step::Make(_) = step {
                // The next write is the header of the file that was made.
                let next = watch.steps[taken..].iter().skip_while(|other| *other != step);
                let inode = next.skip(1).find_map(|step| match step {
                    Step::Write(inode, ..) => Some(*inode),
                    _ => None,
                });
                let inode = inode.expect("a file that is made is written");
                made.insert(trace.len(), inode);
                if let Step::Make(name) = step {
                    names.insert(name.clone(), inode);
                }
            }
            if let Step::Rename(from, to) = step {
                let inode = names.remove(from).expect("a file that is renamed was made");
                made.insert(trace.len(), inode);
                names.insert(to.clone(), inode);
            }
            trace.push(Traced::Step(step.clone()));
        }
        taken = watch.steps.len();
        if let Some(known) = known {
            trace.push(Traced::Confirmed(known.clone()));
        }
    };
    live(&journals, |known| take(Some(known)));
    take(None);
    (trace, made)
}

/// Does something to a file that is only in memory; what was never written is zeros.
fn perform(bytes: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write(_, at, written) => {
            let at = usize::try_from(*at).unwrap();
            bytes.resize(bytes.len().max(at + written.len()), 0);
            bytes[at..at + written.len()].copy_from_slice(written);
        }
        Step::Cut(_, end) => bytes.truncate(usize::try_from(*end).unwrap()),
        Step::Make(_) | Step::Sync(_) | Step::Rename(..) | Step::Replace(..) | Step::Remove(_) | Step::SyncNames => {}
    }
}

/// Everything a crash may leave of a file: any number of the steps since the last sync,
/// the last of them torn at a byte, or at a block with nothing but its length behind it;
/// and, as blocks reach a disk in any order, with any one block of what is new missing.
fn left_of(pending: &Pending) -> BTreeSet<Vec<u8>> {
    const BLOCK: usize = 512;
    let mut left = BTreeSet::from([pending.durable.clone()]);
    let mut whole = pending.durable.clone();
    for step in &pending.since {
        if let Step::Write(_, at, written) = step {
            let at = usize::try_from(*at).unwrap();
            let is_edge = |cut: &usize| *cut == 0 || (at + cut).is_multiple_of(BLOCK);
            let cuts = [1, written.len() / 2, written.len() - 1].into_iter();
            for cut in cuts.chain((0..written.len()).filter(is_edge)) {
                let mut torn = whole.clone();
                perform(&mut torn, &Step::Write(Inode::default(), at as u64, written[..cut].to_vec()));
                left.insert(torn.clone());
                if is_edge(&cut) {
                    torn.resize(at + written.len(), 0);
                    left.insert(torn);
                }
            }
        }
        perform(&mut whole, step);
        left.insert(whole.clone());
        let durable = pending.durable.len();
        let first = durable / BLOCK;
        for block in first..whole.len().div_ceil(BLOCK) {
            let mut holed = whole.clone();
            let hole = (block * BLOCK).max(durable)..holed.len().min((block + 1) * BLOCK);
            if hole.start < hole.end {
                holed[hole].fill(0);
                left.insert(holed);
            }
        }
    }
    left
}

/// Everything a crash after these steps may leave. One file varies at a time; the others
/// have all or nothing of what was done since their last sync.
fn crash_states(trace: &[Traced], made: &BTreeMap<usize, Inode>) -> BTreeSet<OnDisk> {
    let mut files: BTreeMap<Inode, Pending> = BTreeMap::new();
    let (mut names, mut names_since) = (BTreeMap::new(), Vec::new());
    let rename = |names: &mut BTreeMap<String, Inode>, step: &(Step, Option<Inode>)| match step {
        (Step::Make(name), Some(inode)) => drop(names.insert(name.clone(), *inode)),
        (Step::Rename(from, to), Some(inode)) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
        (Step::Remove(name), _) => drop(names.remove(name)),
        (step, _) => panic!("{step:?} changes no name in this trace"),
    };
    for (index, traced) in trace.iter().enumerate() {
        let Traced::Step(step) = traced else { continue };
        match step {
            Step::Write(inode, ..) | Step::Cut(inode, _) => files.entry(*inode).or_default().since.push(step.clone()),
            Step::Sync(inode) => {
                let file = files.entry(*inode).or_default();
                for step in std::mem::take(&mut file.since) {
                    perform(&mut file.durable, &step);
                }
            }
            Step::Make(_) | Step::Remove(_) | Step::Rename(..) | Step::Replace(..) => {
                names_since.push((step.clone(), made.get(&index).copied()));
            }
            Step::SyncNames => {
                for step in std::mem::take(&mut names_since) {
                    rename(&mut names, &step);
                }
            }
        }
    }
    let mut states = BTreeSet::new();
    for chosen in 0..1_u32 << names_since.len() {
        let mut names = names.clone();
        for (bit, step) in names_since.iter().enumerate() {
            if chosen & (1 << bit) != 0 {
                rename(&mut names, step);
            }
        }
        for is_all in [false, true] {
            let settled = |file: &Pending| {
                let mut bytes = file.durable.clone();
                file.since.iter().filter(|_| is_all).for_each(|step| perform(&mut bytes, step));
                bytes
            };
            let base: BTreeMap<_, _> = files.iter().map(|(inode, file)| (*inode, settled(file))).collect();
            for (inode, file) in &files {
                for bytes in left_of(file) {
                    let mut files = base.clone();
                    files.insert(*inode, bytes);
                    states.insert(OnDisk { files, names: names.clone() });
                }
            }
        }
    }
    states
}

/// Puts a state into a folder, which has nothing else.
fn put(state: &OnDisk, folder: &Path) {
    for (name, inode) in &state.names {
        let file = File::create_new(folder.join(name)).unwrap();
        file.write_all_at(state.files.get(inode).map_or(&[], Vec::as_slice), 0).unwrap();
    }
}

#[test]
fn s1_whatever_a_crash_of_the_machine_leaves_holds_what_was_confirmed_and_can_be_read() {
    let (trace, made) = traced();
    let steps = trace.iter().filter(|traced| matches!(traced, Traced::Step(_))).count();
    let mut tried = BTreeSet::new();
    // What a journal holds in the end, and what it held before it was removed.
    let mut ever: BTreeMap<SessionId, BTreeSet<String>> = BTreeMap::new();
    for traced in &trace {
        if let Traced::Confirmed(known) = traced {
            for (one, records) in known {
                let ids = records.iter().map(|record| record.id.to_string());
                ever.entry(one.clone()).or_default().extend(ids);
            }
        }
    }
    let mut confirmed = Confirmed::new();
    for end in 0..trace.len() {
        match &trace[end] {
            Traced::Confirmed(known) => confirmed = known.clone(),
            // From here on a session that is deleted may be gone.
            Traced::Step(Step::Remove(name)) => confirmed.retain(|one, _| super::name::of(one) != *name),
            Traced::Step(_) => {}
        }
        for state in crash_states(&trace[..=end], &made) {
            // The same state after one more confirmation is another question.
            if !tried.insert((state.clone(), confirmed.values().map(Vec::len).sum::<usize>())) {
                continue;
            }
            let folder = quick_folder();
            put(&state, folder.path());
            let journals = journals(&folder, "next");
            for id in ["one", "Two", "three"] {
                let one = session(id);
                let known = confirmed.get(&one).cloned().unwrap_or_default();
                let loaded = journals.load(&one).unwrap_or_else(|error| panic!("after step {end}: {id}: {error}"));
                assert!(loaded.starts_with(&known), "after step {end}: {id} has lost what was confirmed");
                let is_known = |record: &Arc<Record>| ever[&one].contains(&record.id.to_string());
                assert!(loaded.iter().all(is_known), "after step {end}: {id} has what nobody wrote");
                let claim = journals.claim(&one).unwrap();
                assert_eq!(claim.records, loaded);
                let next = append(&one, claim.epoch, claim.version, 1);
                assert_eq!(store(&journals, next), Ok(claim.version + 1));
            }
        }
    }
    assert!(steps >= 50 && tried.len() >= 500, "{steps} steps and {} states are few", tried.len());
}
