//! A database on a disk without room: it is said, and what is stored can be read.

use super::tests::{open, path};
use super::*;
use crate::store::contract::{append, claim, session, store_one};
use std::fs;
use tempfile::TempDir;

#[tokio::test]
async fn a_database_can_be_read_where_there_is_no_room_for_the_index_of_its_log() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder);
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let twenty = append(&one, epoch, 0, 20);
    assert_eq!(store_one(&store, twenty.clone()).await, Ok(20));
    // A copy of what a killed process leaves: records that are in the log only, and no index of it.
    let copy = TempDir::new().unwrap();
    for end in ["db", "db-wal"] {
        let file = path(folder.path()).with_extension(end);
        fs::copy(&file, path(copy.path()).with_extension(end)).unwrap();
    }
    let index = path(copy.path()).with_extension("db-shm");
    let inode = file::look(&path(copy.path())).unwrap().unwrap();
    for _ in 0..2 {
        let database = Database::connect_alone(&path(copy.path()), inode, KNOWN).unwrap();
        let mut tables = tables::Tables::of(&database).unwrap();
        let entry = tables.find(&one).unwrap().expect("it is in the log");
        let Ok(journal) = tables.journal(&one, &entry, Span::Whole) else { panic!("it can be read") };
        assert!(journal.records == twenty.records);
        assert!(!index.exists(), "the index takes no room on the disk");
        assert!(database.run("DELETE FROM sessions").is_err(), "nothing is written");
    }
}

#[test]
fn a_full_disk_is_called_so() {
    let folder = TempDir::new().unwrap();
    let database = Database::open(&path(folder.path())).unwrap();
    database.fill(true);
    let error = database.run("CREATE TABLE further (a); INSERT INTO further VALUES (zeroblob(100000))").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the disk is full: cannot write ") && text.contains("sessions.db"), "{text}");
    assert!(!file::is_disk_full(&path(folder.path())), "this one is not");
}
