//! The last snapshot is found from the end, and nothing else is taken for one.

use super::*;
use crate::store::contract::{record, session};
use crate::store::line::{ClaimLine, header, write_claim, write_record};
use bob_messages::store::{Formats, Record};
use std::io::Write;
use std::sync::Arc;

/// A record like one that says so much.
fn says(version: u64, fact: Fact) -> Record {
    let one = session("one");
    Record { fact, ..(*record(&one, 1, version, "a")).clone() }
}

fn snapshot(bytes: usize) -> Fact {
    Fact::Snapshot(bob_messages::store::Snapshot { form: 1, session: "x".repeat(bytes).into() })
}

fn claim(epoch: u64) -> ClaimLine {
    ClaimLine { epoch, owner: "ann".to_owned(), lock: String::new(), own: String::new() }
}

struct Written(tempfile::NamedTempFile);

impl Written {
    fn new() -> Self {
        Self::of(Formats::KNOWN.newest())
    }

    fn of(format: u32) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[header(format, &session("one")), b"\n".to_vec()].concat()).unwrap();
        Self(file)
    }

    fn line(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let at = self.0.as_file().metadata().unwrap().len();
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.0.write_all(&bytes).unwrap();
        at
    }

    fn record(&mut self, version: u64, fact: Fact) -> u64 {
        self.line(|bytes| write_record(bytes, &says(version, fact)).unwrap())
    }

    fn found(&self) -> Option<Position> {
        let end = self.0.as_file().metadata().unwrap().len();
        Position::before_snapshot(self.0.as_file(), end, &session("one"), Formats::KNOWN).unwrap()
    }
}

#[test]
fn the_last_snapshot_is_found_wherever_pieces_end() {
    for bytes in [0, 1, 10, PIECE - 300, PIECE, 3 * PIECE + 17] {
        let mut file = Written::new();
        file.line(|bytes| write_claim(bytes, &claim(1)));
        file.record(1, Fact::Withdrawn);
        file.record(2, snapshot(bytes));
        file.record(3, Fact::Withdrawn);
        let at = file.record(4, snapshot(bytes));
        file.record(5, Fact::Withdrawn);
        let found = file.found().expect("it is there");
        assert_eq!((found.end, found.ledger.version(), found.ledger.epoch()), (at, 3, 1), "{bytes}");
        let (mut position, mut records) = (found, Vec::new());
        position.read_on(file.0.as_file(), None, &session("one"), |record| records.push(record.version)).unwrap();
        assert_eq!(records, [4, 5]);
    }
}

#[test]
fn a_journal_of_an_older_format_is_read_from_its_beginning() {
    let mut file = Written::of(1);
    file.line(|bytes| write_claim(bytes, &claim(1)));
    file.record(1, Fact::Withdrawn);
    file.record(2, snapshot(9));
    assert!(file.found().is_none());
}

#[test]
fn claims_behind_it_are_read() {
    let mut file = Written::new();
    file.line(|bytes| write_claim(bytes, &claim(1)));
    file.record(1, Fact::Withdrawn);
    file.record(2, snapshot(9));
    file.line(|bytes| write_claim(bytes, &claim(2)));
    let mut found = file.found().expect("it is there");
    assert_eq!(found.ledger.epoch(), 1);
    found.read_on(file.0.as_file(), None, &session("one"), drop).unwrap();
    assert_eq!(found.ledger.epoch(), 2);
}

#[test]
fn what_is_no_snapshot_is_not_found() {
    let mut file = Written::new();
    assert!(file.found().is_none());
    file.record(1, Fact::Withdrawn);
    // It has the words, and is none.
    let call = bob_messages::ids::CallId::new("c1");
    file.record(2, Fact::Waits { call, what: r#""kind":"snapshot""#.to_owned(), child: None, server: None });
    assert!(file.found().is_none());
    file.record(3, snapshot(9));
    assert!(file.found().is_some());
    file.line(|bytes| bytes.extend_from_slice(b"{\"sum\":\"0123456789abcdef\",\"record\":{\"kind\":\"snapshot\"}}\n"));
    assert!(file.found().is_none(), "one that does not read is not passed over");
}

#[test]
fn a_page_is_what_stands_between_two_versions() {
    let mut file = Written::new();
    for version in 1..=10_u64 {
        if version % 3 == 1 {
            file.line(|bytes| write_claim(bytes, &claim(version)));
        }
        file.record(version, Fact::Withdrawn);
    }
    let read = |behind, most| {
        let found = Position::page(file.0.as_file(), None, behind, most, Formats::KNOWN).unwrap();
        let mut records: Vec<Arc<Record>> = Vec::new();
        if let Some((mut position, end)) = found {
            position.read_on(file.0.as_file(), end, &session("one"), |record| records.push(record)).unwrap();
        }
        records.iter().map(|record| record.version).collect::<Vec<_>>()
    };
    assert_eq!(read(0, 4), [1, 2, 3, 4]);
    assert_eq!(read(4, 4), [5, 6, 7, 8]);
    assert_eq!(read(8, 4), [9, 10]);
    assert_eq!(read(10, 4), [0; 0]);
    assert_eq!(read(11, 4), [0; 0]);
    assert_eq!(read(0, usize::MAX), (1..=10).collect::<Vec<_>>());
}
