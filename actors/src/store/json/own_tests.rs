//! Only journals that a program began which can read the folder are its own, and those that were there before that was told.

use super::journals::Journals;
use super::own::LIST;
use super::tests::{journals, store};
use crate::store::contract::{append, record, session};
use crate::store::fixtures_tests::{fixtures, is_writing};
use crate::store::line::{self, ClaimLine};
use bob_messages::store::{Append, Formats, Part, Record, SessionFilter, SessionState, StoreError};
use rustix::fs::OFlags;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A folder with a session of two records.
fn with(id: &str) -> (TempDir, Vec<Arc<Record>>) {
    let folder = TempDir::new().unwrap();
    let records = add(&journals(&folder, "its owner"), id);
    (folder, records)
}

fn add(journals: &Journals, id: &str) -> Vec<Arc<Record>> {
    let one = session(id);
    let epoch = journals.claim(&one).unwrap().epoch;
    assert_eq!(store(journals, append(&one, epoch, 0, 2)), Ok(2));
    journals.release(&one, epoch);
    journals.load(&one).unwrap()
}

fn journal(folder: &TempDir, id: &str) -> PathBuf {
    folder.path().join(format!("{id}.jsonl"))
}

/// As a program that knew no sums left the folder.
fn as_an_older_program(folder: &TempDir) {
    for file in ["identity", LIST] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    for file in fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()) {
        let text = fs::read(&file).unwrap();
        let mut lines: Vec<Vec<u8>> = text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        let unsigned = |claim| Ok::<_, ()>(ClaimLine { own: String::new(), ..claim });
        lines[1] = line::changed_claim(lines[1].trim_ascii_end(), &Formats::KNOWN, unsigned).unwrap().expect("a claim");
        fs::write(file, lines.concat()).unwrap();
    }
}

fn sessions(journals: &Journals) -> Vec<String> {
    let page = journals.list(&SessionFilter::default(), None).unwrap();
    page.sessions.iter().map(|summary| summary.session.to_string()).collect()
}

/// Each use of a session is refused with one sentence, and its file stays as it is.
#[track_caller]
fn is_refused(journals: &Journals, path: &Path, id: &str) {
    let (one, before) = (session(id), fs::read(path).unwrap());
    let refused = [
        journals.claim(&one).map(drop),
        journals.claim_latest(&one).map(drop),
        store(journals, append(&one, 1, 2, 1)).map(drop),
    ];
    refused.into_iter().for_each(|refused| is_foreign(path, refused));
    is_not_read(journals, path, id);
    assert_eq!(fs::read(path).unwrap(), before, "it stays as it is, under its name");
}

#[track_caller]
fn is_not_read(journals: &Journals, path: &Path, id: &str) {
    let one = session(id);
    let refused = [
        journals.load(&one).map(drop),
        journals.load_part(&one, Part::Latest).map(drop),
        journals.load_part(&one, Part::Page { behind: 0, most: 10 }).map(drop),
        journals.owner(&one).map(drop),
    ];
    refused.into_iter().for_each(|refused| is_foreign(path, refused));
    for state in [None, Some(SessionState::Idle), Some(SessionState::Running)] {
        let page = journals.list(&SessionFilter { state, ..SessionFilter::default() }, None).unwrap();
        assert!(page.sessions.iter().all(|summary| summary.session != one), "{state:?}: {:?}", page.sessions);
        let name = path.file_name().unwrap().to_string_lossy();
        let told: Vec<_> = page.quarantined.iter().filter(|(file, _)| **file == *name).collect();
        assert!(
            matches!(&told[..], [(_, why)] if why.contains("was not begun by")),
            "{state:?}: {:?}",
            page.quarantined
        );
    }
}

#[track_caller]
fn is_foreign(path: &Path, refused: Result<(), StoreError>) {
    let Err(StoreError::Corrupt(why)) = &refused else { panic!("{refused:?}") };
    assert!(why.starts_with(&*path.to_string_lossy()) && why.contains("was not begun by a program"), "{why}");
}

#[test]
fn a_journal_of_another_store_is_refused_and_left_as_it_is() {
    let ((mine, records), (theirs, _)) = (with("one"), with("two"));
    let path = journal(&mine, "two");
    fs::copy(journal(&theirs, "two"), &path).unwrap();
    let journals = journals(&mine, "me");
    is_refused(&journals, &path, "two");
    assert_eq!(sessions(&journals), ["one"]);
    assert_eq!(journals.load(&session("one")).unwrap(), records, "it stops no other session");
    assert_eq!(journals.delete(&session("two")), Ok(true), "who wants it gone can have it gone");
    add(&journals, "two");
    assert_eq!(sessions(&journals).len(), 2);
}

#[test]
fn a_journal_that_was_written_over_by_one_of_another_store_is_refused_while_it_is_in_use_too() {
    let ((mine, _), (theirs, _)) = (with("one"), with("one"));
    let path = journal(&mine, "one");
    let journals = journals(&mine, "me");
    let claim = journals.claim(&session("one")).unwrap();
    let new = mine.path().join("new");
    fs::copy(journal(&theirs, "one"), &new).unwrap();
    fs::rename(new, &path).unwrap();
    let appended = store(&journals, append(&session("one"), claim.epoch, 2, 1));
    assert!(matches!(&appended, Err(StoreError::Corrupt(_))), "{appended:?}");
    is_refused(&journals, &path, "one");
}

#[test]
fn a_journal_of_an_older_program_that_comes_later_is_refused() {
    let ((mine, _), (theirs, _)) = (with("one"), with("two"));
    as_an_older_program(&theirs);
    let text = fs::read_to_string(journal(&theirs, "two")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    for has_claim in [true, false] {
        if !has_claim {
            lines.remove(1);
        }
        fs::write(journal(&mine, "two"), format!("{}\n", lines.join("\n"))).unwrap();
        is_refused(&journals(&mine, "me"), &journal(&mine, "two"), "two");
    }
}

#[test]
fn what_an_older_program_left_is_accepted_once_and_not_what_comes_later() {
    let ((mine, records), (theirs, _)) = (with("one"), with("two"));
    let other = add(&journals(&mine, "its owner"), "other");
    as_an_older_program(&mine);
    let reader = journals(&mine, "a reader");
    assert_eq!(reader.load(&session("one")).unwrap(), records);
    assert_eq!(fs::read_dir(mine.path()).unwrap().count(), 2, "who only reads writes nothing");
    let me = journals(&mine, "me");
    assert_eq!(me.claim(&session("one")).unwrap().records, records);
    for journals in [&me, &reader] {
        assert_eq!(journals.load(&session("other")).unwrap(), other, "all that was there is accepted");
    }
    fs::copy(journal(&theirs, "two"), journal(&mine, "two")).unwrap();
    let (theirs, _) = with("other");
    fs::copy(journal(&theirs, "other"), journal(&mine, "other")).unwrap();
    for id in ["two", "other"] {
        is_refused(&me, &journal(&mine, id), id);
        is_not_read(&reader, &journal(&mine, id), id);
    }
    add(&me, "mine");
    drop(me);
    // As the refusal says.
    fs::remove_file(mine.path().join(LIST)).unwrap();
    let me = journals(&mine, "me");
    for id in ["two", "other", "one", "mine"] {
        assert_eq!(me.claim(&session(id)).unwrap().version, 2, "{id}");
    }
}

#[test]
fn an_accepted_journal_is_own_when_its_torn_end_was_cut_off() {
    let (mine, records) = with("one");
    as_an_older_program(&mine);
    let mut bytes = fs::read(journal(&mine, "one")).unwrap();
    bytes.extend(b"{\"sum\":\"0123");
    fs::write(journal(&mine, "one"), bytes).unwrap();
    for owner in ["one", "another"] {
        assert_eq!(journals(&mine, owner).claim(&session("one")).unwrap().records, records);
    }
}

#[test]
fn an_accepted_journal_that_was_set_aside_is_own_when_it_is_repaired() {
    let (mine, records) = with("one");
    as_an_older_program(&mine);
    let whole = fs::read(journal(&mine, "one")).unwrap();
    let mut damaged = whole.clone();
    let last = damaged.len() - 10;
    damaged[last] ^= 1;
    fs::write(mine.path().join("one.jsonl.corrupt-1"), damaged).unwrap();
    fs::remove_file(journal(&mine, "one")).unwrap();
    add(&journals(&mine, "me"), "other");
    fs::remove_file(mine.path().join("one.jsonl.corrupt-1")).unwrap();
    fs::write(journal(&mine, "one"), whole).unwrap();
    assert_eq!(journals(&mine, "me").claim(&session("one")).unwrap().records, records);
}

#[test]
fn a_journal_that_cannot_be_read_when_the_list_is_made_stops_no_other_session() {
    let (mine, records) = with("one");
    add(&journals(&mine, "its owner"), "bad");
    as_an_older_program(&mine);
    let me = journals(&mine, "me");
    // Each read of a file that is open for writing alone fails.
    let access = |name: &str| if name == "bad.jsonl" { OFlags::WRONLY } else { OFlags::RDONLY };
    me.own.settle_with(|name| me.folder.open_file(name, access(name))).unwrap();
    assert_eq!(me.claim(&session("one")).unwrap().records, records);
    is_refused(&me, &journal(&mine, "bad"), "bad");
}

#[test]
fn an_accepted_journal_with_a_long_first_record_is_told_from_another_one_by_that() {
    let one = session("one");
    let with = |long: &str| {
        let folder = TempDir::new().unwrap();
        let journals = journals(&folder, "its owner");
        let epoch = journals.claim(&one).unwrap().epoch;
        let records = vec![record(&one, epoch, 1, &long.repeat(100_000))];
        let append = Append { session: one.clone(), epoch, expected_version: 0, records };
        assert_eq!(store(&journals, append), Ok(1));
        journals.release(&one, epoch);
        drop(journals);
        as_an_older_program(&folder);
        folder
    };
    let (mine, theirs) = (with("a"), with("b"));
    assert_eq!(journals(&mine, "me").claim(&one).unwrap().version, 1);
    assert_eq!(journals(&mine, "me").claim(&one).unwrap().version, 1);
    let lines = |folder| fs::read_to_string(journal(folder, "one")).unwrap();
    let (own, other) = (lines(&mine), lines(&theirs));
    let planted: String = own.split_inclusive('\n').take(2).chain(other.split_inclusive('\n').skip(2)).collect();
    fs::write(journal(&mine, "one"), planted).unwrap();
    is_refused(&journals(&mine, "me"), &journal(&mine, "one"), "one");
}

#[test]
fn a_folder_that_was_identified_before_its_first_session_accepts_nothing() {
    let (folder, (theirs, _)) = (TempDir::new().unwrap(), with("two"));
    super::tests::open(&folder, "me").identify().unwrap();
    fs::copy(journal(&theirs, "two"), journal(&folder, "two")).unwrap();
    is_refused(&journals(&folder, "me"), &journal(&folder, "two"), "two");
}

#[test]
fn a_list_of_another_store_and_one_without_its_identity_are_errors_and_nothing_is_made_anew() {
    let ((mine, records), (theirs, _)) = (with("one"), with("two"));
    let (list, identity) = (mine.path().join(LIST), mine.path().join("identity"));
    let (own_list, own_identity) = (fs::read(&list).unwrap(), fs::read(&identity).unwrap());
    let refused = |what: &str| {
        let (journals, one) = (journals(&mine, "me"), session("one"));
        let refused = [
            journals.claim(&one).map(drop),
            journals.load(&one).map(drop),
            journals.list(&SessionFilter::default(), None).map(drop),
            journals.delete(&one).map(drop),
        ];
        for refused in refused {
            let Err(StoreError::Corrupt(why)) = &refused else { panic!("{what}: {refused:?}") };
            assert!(why.contains(what), "{why}");
        }
    };
    for bad in [&b""[..], b"{}", &fs::read(theirs.path().join(LIST)).unwrap()] {
        fs::write(&list, bad).unwrap();
        refused("accepted was not written by");
        assert_eq!(fs::read(&list).unwrap(), bad);
    }
    fs::write(&list, own_list).unwrap();
    fs::remove_file(&identity).unwrap();
    refused("identity is missing");
    assert!(!identity.exists());
    fs::write(&identity, own_identity).unwrap();
    assert_eq!(journals(&mine, "me").load(&session("one")).unwrap(), records);
}

/// The first program that knew sums left this: `own` is its own, `older` was accepted, and `later` came later.
#[test]
fn a_folder_with_sums_is_read_as_the_first_program_with_sums_left_it() {
    let kept = fixtures().join("format-4-own");
    if is_writing() && !kept.exists() {
        let (folder, _) = with("older");
        as_an_older_program(&folder);
        add(&journals(&folder, "a fixture"), "own");
        let (other, _) = with("later");
        as_an_older_program(&other);
        fs::copy(journal(&other, "later"), journal(&folder, "later")).unwrap();
        copied(folder.path(), &kept);
    }
    let folder = TempDir::new().unwrap();
    copied(&kept, folder.path());
    let journals = journals(&folder, "me");
    for id in ["own", "older"] {
        assert_eq!(journals.load(&session(id)).unwrap().len(), 2, "{id}");
        assert_eq!(journals.claim(&session(id)).unwrap().version, 2, "{id}");
    }
    is_refused(&journals, &journal(&folder, "later"), "later");
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
