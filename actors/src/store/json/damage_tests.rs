//! Journals that were cut, flipped, overwritten or written by somebody else.

use super::journals::Journals;
use super::tests::{journals, store};
use crate::store::contract::{append, record, session};
use bob_messages::ids::SessionId;
use bob_messages::store::{Append, FORMAT, Record, SessionFilter, StoreError};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const ID: &str = "one";

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("one.jsonl")
}

/// A journal of two owners and four records, its bytes and its records.
fn written(folder: &TempDir) -> (Vec<u8>, Vec<Arc<Record>>) {
    let (journals, one) = (journals(folder, "first"), session(ID));
    for round in 0..2 {
        let epoch = journals.claim(&one).unwrap().epoch;
        assert_eq!(store(&journals, append(&one, epoch, 2 * round, 2)), Ok(2 * round + 2));
    }
    journals.release(&one, 2);
    (std::fs::read(path(folder)).unwrap(), journals.load(&one).unwrap())
}

fn is_prefix(loaded: &[Arc<Record>], records: &[Arc<Record>]) -> bool {
    records.starts_with(loaded)
}

/// Claims and appends one record, which must then be readable behind the others.
fn goes_on(journals: &Journals, one: &SessionId) -> Vec<Arc<Record>> {
    let claim = journals.claim(one).unwrap();
    let next = record(one, claim.epoch, claim.version + 1, "after");
    let after =
        Append { session: one.clone(), epoch: claim.epoch, expected_version: claim.version, records: vec![next] };
    assert_eq!(store(journals, after.clone()), Ok(claim.version + 1));
    let loaded = journals.load(one).unwrap();
    assert_eq!(loaded, [claim.records.clone(), after.records].concat());
    claim.records
}

#[test]
fn s5_a_journal_cut_at_any_byte_loads_a_true_prefix_and_goes_on() {
    let folder = TempDir::new().unwrap();
    let (bytes, records) = written(&folder);
    let one = session(ID);
    let mut longest = 0;
    let header = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for cut in header..=bytes.len() {
        std::fs::write(path(&folder), &bytes[..cut]).unwrap();
        let journals = journals(&folder, "second");
        let loaded = journals.load(&one).unwrap();
        assert!(is_prefix(&loaded, &records), "cut at {cut}");
        assert!(loaded.len() >= longest, "cut at {cut}: a longer journal has no fewer records");
        longest = loaded.len();
        assert_eq!(std::fs::read(path(&folder)).unwrap(), bytes[..cut], "a load writes nothing");
        // Going on costs several syncs, so it is tried at every seventh byte and
        // around the ends of lines.
        if cut % 7 == 0 || bytes[cut.saturating_sub(2)..bytes.len().min(cut + 2)].contains(&b'\n') {
            assert_eq!(goes_on(&journals, &one), loaded, "cut at {cut}");
        }
    }
    assert_eq!(longest, 4);
}

#[test]
fn s15_a_journal_that_lacks_its_beginning_is_damage_and_never_a_new_one() {
    let folder = TempDir::new().unwrap();
    let (bytes, _) = written(&folder);
    let header = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for cut in 0..header {
        check_refused(&bytes[..cut], |error| matches!(error, StoreError::Corrupt(_)), false);
    }
    let (journals, one) = (journals(&folder, "second"), session(ID));
    std::fs::write(path(&folder), "").unwrap();
    let page = journals.list(&SessionFilter::default(), None).unwrap();
    assert!(page.sessions.is_empty(), "{:?}", page.sessions);
    assert!(matches!(&*page.quarantined, [(name, why)] if name == "one.jsonl" && why.contains("empty")));
    let answer = journals.claim(&one).unwrap_err().to_string();
    assert!(answer.contains("empty") && answer.contains("delete session one"), "{answer}");
    assert_eq!(journals.delete(&one), Ok(true));
    goes_on(&journals, &one);
}

#[test]
fn s15_a_journal_that_is_cut_while_it_is_in_use_is_damage_at_the_end_of_a_line_too() {
    for is_appended in [true, false] {
        let folder = TempDir::new().unwrap();
        let (journals, one) = (journals(&folder, "first"), session(ID));
        let epoch = journals.claim(&one).unwrap().epoch;
        let mut ends = vec![0];
        for version in 0..3 {
            ends.push(std::fs::metadata(path(&folder)).unwrap().len());
            assert_eq!(store(&journals, append(&one, epoch, version, 1)), Ok(version + 1));
        }
        let whole = std::fs::read(path(&folder)).unwrap();
        for end in ends {
            std::fs::OpenOptions::new().write(true).open(path(&folder)).unwrap().set_len(end).unwrap();
            let refused = match is_appended {
                true => store(&journals, append(&one, epoch, 3, 1)).map(drop),
                false => journals.claim(&one).map(drop),
            };
            assert!(matches!(refused, Err(StoreError::Corrupt(_))), "cut to {end}: {refused:?}");
            if !is_appended {
                break;
            }
            std::fs::write(path(&folder), &whole).unwrap();
        }
    }
}

#[test]
fn s2_any_flipped_bit_of_a_journal_is_noticed() {
    let folder = TempDir::new().unwrap();
    let (bytes, _) = written(&folder);
    let (journals, one) = (journals(&folder, "second"), session(ID));
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[index] ^= 1 << bit;
            std::fs::write(path(&folder), &flipped).unwrap();
            let loaded = journals.load(&one);
            assert!(
                matches!(loaded, Err(StoreError::Corrupt(_) | StoreError::TooNew { .. })),
                "bit {bit} of byte {index}: {loaded:?}"
            );
        }
    }
}

#[test]
fn s2_a_damaged_journal_is_set_aside_as_it_is_and_blocks_only_itself() {
    let folder = TempDir::new().unwrap();
    let (mut bytes, _) = written(&folder);
    let (journals, one, other) = (journals(&folder, "second"), session(ID), session("other"));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path(&folder), &bytes).unwrap();
    let aside = folder.path().join("one.jsonl.corrupt-1");
    for _claim in 0..2 {
        let answer = journals.claim(&one).unwrap_err();
        assert!(matches!(&answer, StoreError::Corrupt(text) if text.contains(&*aside.to_string_lossy())), "{answer}");
        assert_eq!(std::fs::read(&aside).unwrap(), bytes);
        assert!(matches!(journals.load(&one), Err(StoreError::Corrupt(_))));
        assert!(!path(&folder).exists());
    }
    goes_on(&journals, &other);
    let page = journals.list(&SessionFilter::default(), None).unwrap();
    assert_eq!(page.sessions.len(), 1);
    assert_eq!(page.quarantined.len(), 1);
    assert_eq!(page.quarantined[0].0, "one.jsonl.corrupt-1");

    // Put back and damaged again, it does not overwrite the first copy.
    std::fs::write(path(&folder), b"{}\n").unwrap();
    assert!(matches!(journals.claim(&one), Err(StoreError::Corrupt(_))));
    assert_eq!(std::fs::read(&aside).unwrap(), bytes);
    assert_eq!(std::fs::read(folder.path().join("one.jsonl.corrupt-2")).unwrap(), b"{}\n");
    assert_eq!(journals.delete(&one), Ok(true));
    assert_eq!(journals.claim(&one).unwrap().version, 0);
}

fn check_refused(content: &[u8], is_expected: impl Fn(&StoreError) -> bool, stays: bool) {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "second"), session(ID));
    std::fs::write(path(&folder), content).unwrap();
    for answer in [journals.load(&one).map(drop), journals.claim(&one).map(drop)] {
        let error = answer.unwrap_err();
        assert!(is_expected(&error), "{error} for {:?}", String::from_utf8_lossy(content));
    }
    assert_eq!(path(&folder).exists(), stays);
    let kept: &Path = &if stays { path(&folder) } else { folder.path().join("one.jsonl.corrupt-1") };
    assert_eq!(std::fs::read(kept).unwrap(), content);
}

#[test]
fn s2_what_is_no_journal_is_refused_and_kept() {
    let header = r#"{"bob_journal":1,"session":"one"}"#;
    let is_corrupt = |error: &StoreError| matches!(error, StoreError::Corrupt(_));
    for content in [
        "garbage".to_owned(),
        "garbage\n".to_owned(),
        "\0".repeat(4096),
        "\n".to_owned(),
        "[1, 2, 3]\n".to_owned(),
        r#"{"bob_journal":1,"session":"two"}"#.to_owned() + "\n",
        r#"{"bob_journal":0,"session":"one"}"#.to_owned() + "\n",
        format!("{header}\n{{\"some\":\"json\"}}\n"),
        format!("{header}\n\n"),
        format!("{header} \n"),
        format!("{header}\n{header}\n"),
    ] {
        check_refused(content.as_bytes(), is_corrupt, false);
    }
}

#[test]
fn s5_zeros_behind_the_last_line_are_a_torn_tail() {
    let folder = TempDir::new().unwrap();
    let (mut bytes, records) = written(&folder);
    bytes.extend([0; 512]);
    std::fs::write(path(&folder), &bytes).unwrap();
    assert_eq!(goes_on(&journals(&folder, "second"), &session(ID)), records);
}

#[test]
fn s2_a_block_of_zeros_is_damage_wherever_it_may_have_been_confirmed() {
    let folder = TempDir::new().unwrap();
    let (journals, one) = (journals(&folder, "first"), session(ID));
    let epoch = journals.claim(&one).unwrap().epoch;
    let mut ends = Vec::new();
    for write in 0..3 {
        assert_eq!(store(&journals, append(&one, epoch, write * 24, 24)), Ok((write + 1) * 24));
        ends.push(std::fs::metadata(path(&folder)).unwrap().len() as usize);
    }
    let (bytes, records) = (std::fs::read(path(&folder)).unwrap(), journals.load(&one).unwrap());
    for start in (0..bytes.len()).step_by(512) {
        let mut holed = bytes.clone();
        holed[start..bytes.len().min(start + 512)].fill(0);
        std::fs::write(path(&folder), &holed).unwrap();
        let loaded = journals.load(&one);
        // A line behind it that begins a write shows that it was on the disk; behind a block with
        // the beginning of the last write there is none.
        match start + 512 <= ends[1] {
            true => assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{start}: {loaded:?}"),
            false => {
                let loaded = loaded.unwrap_or_else(|error| panic!("{start}: {error}"));
                assert!((47..72).contains(&loaded.len()) && is_prefix(&loaded, &records), "{start}: {}", loaded.len());
            }
        }
    }
}

#[test]
fn s2_a_newer_journal_is_refused_and_left_alone() {
    let is_too_new = |error: &StoreError| matches!(error, StoreError::TooNew { found: 5, known: 4 });
    check_refused(b"{\"bob_journal\":5,\"session\":\"one\",\"more\":[]}\n{\"new\":1}\n", is_too_new, true);
    let mut lines = crate::store::line::header(FORMAT, &session(ID));
    lines.push(b'\n');
    let mut newer = record(&session(ID), 1, 1, "r").as_ref().clone();
    newer.format = FORMAT + 1;
    crate::store::line::write_record(&mut lines, &newer).unwrap();
    check_refused(&lines, is_too_new, true);
}

#[test]
fn s2_lines_that_were_moved_or_removed_are_noticed() {
    let folder = TempDir::new().unwrap();
    let (bytes, _) = written(&folder);
    let (journals, one) = (journals(&folder, "second"), session(ID));
    let lines: Vec<_> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let load = |changed: Vec<&[u8]>| {
        std::fs::write(path(&folder), changed.concat()).unwrap();
        journals.load(&one)
    };
    // Behind the header: a claim, two records, a claim, two records.
    for index in 1..=6 {
        let mut doubled = lines.clone();
        doubled.insert(index, lines[index]);
        assert!(matches!(load(doubled), Err(StoreError::Corrupt(_))), "line {index} doubled");
    }
    for index in [0, 2, 3, 5] {
        let mut removed = lines.clone();
        removed.remove(index);
        assert!(matches!(load(removed), Err(StoreError::Corrupt(_))), "line {index} removed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn s2_whatever_is_written_into_a_journal_it_never_tells_another_story(
        at in 0.0..1.0_f64,
        noise in proptest::collection::vec(any::<u8>(), 1..80),
        is_inserted in any::<bool>(),
    ) {
        let folder = TempDir::new().unwrap();
        let (bytes, records) = written(&folder);
        let index = (at * bytes.len() as f64) as usize;
        let end = if is_inserted { index } else { bytes.len().min(index + noise.len()) };
        let changed = [&bytes[..index], &noise, &bytes[end..]].concat();
        std::fs::write(path(&folder), &changed).unwrap();
        let (journals, one) = (journals(&folder, "second"), session(ID));
        if let Ok(loaded) = journals.load(&one) {
            prop_assert!(is_prefix(&loaded, &records));
        }
        match journals.claim(&one) {
            Ok(claim) => prop_assert!(is_prefix(&claim.records, &records)),
            Err(StoreError::Corrupt(_)) => {
                prop_assert_eq!(std::fs::read(folder.path().join("one.jsonl.corrupt-1")).unwrap(), changed);
            }
            Err(other) => prop_assert!(matches!(other, StoreError::TooNew { .. }), "{}", other),
        }
    }
}
