//! A journal has its name before the name is durable: the next write to it syncs the folder first.

use super::crash_tests::{Traced, check_crashes, traced};
use super::journals::Journals;
use super::lock::lock;
use super::tests::{journals, store};
use super::watch::Step;
use crate::store::contract::{append, session};
use bob_messages::store::StoreError;
use rustix::io::Errno;
use tempfile::TempDir;

/// How many places of a trace are looked at behind a failure.
const PLACES: usize = 16;

#[test]
fn s1_a_name_whose_sync_failed_is_durable_before_anything_is_confirmed_under_it() {
    let steps: Vec<Step> = traced(None).0.into_iter().filter_map(step).collect();
    let of_names = |(_, step): &(usize, &Step)| matches!(step, Step::SyncNames | Step::Rename(..));
    let mut tried = 0;
    for (nth, _) in (1..).zip(&steps).filter(of_names) {
        let (trace, made) = traced(Some(nth));
        let mut steps = trace.iter().enumerate().filter(|(_, traced)| matches!(traced, Traced::Step(_)));
        let (start, _) = steps.nth(nth - 1).expect("it goes on behind the failure");
        tried += check_crashes(&trace, &made, start..start + PLACES);
    }
    assert!(tried >= 100, "{tried} states are few");
}

fn step(traced: Traced) -> Option<Step> {
    match traced {
        Traced::Step(step) => Some(step),
        Traced::Confirmed(_) => None,
    }
}

/// Which step is the first of these behind that many others.
fn place(journals: &Journals, behind: usize, is: fn(&Step) -> bool) -> usize {
    let watch = lock(&journals.disk.watch);
    let found = watch.steps.iter().enumerate().skip(behind).find(|(_, step)| is(step));
    found.unwrap_or_else(|| panic!("it is not in {:?}", watch.steps)).0
}

fn is_sync(step: &Step) -> bool {
    matches!(step, Step::SyncNames)
}

#[test]
fn s1_a_name_that_a_process_left_is_durable_before_the_next_one_writes() {
    let (folder, one) = (TempDir::new().unwrap(), session("one"));
    let first = journals(&folder, "first");
    assert_eq!(first.claim(&one).unwrap().epoch, 1);
    let named = place(&first, 0, |step| matches!(step, Step::Rename(..)));
    let synced = place(&first, named, is_sync);
    drop(first);
    let folder = TempDir::new().unwrap();
    // As if it had ended between the two.
    let ended = journals(&folder, "ended");
    lock(&ended.disk.watch).fails = Some((synced + 1, Errno::IO));
    assert!(matches!(ended.claim(&one), Err(StoreError::InDoubt(_))));
    drop(ended);
    let next = journals(&folder, "next");
    assert_eq!(next.claim(&one).unwrap().epoch, 2);
    assert!(place(&next, 0, is_sync) < place(&next, 0, |step| matches!(step, Step::Write(..))));
    assert_eq!(store(&next, append(&one, 2, 0, 1)), Ok(1));
    let syncs = lock(&next.disk.watch).steps.iter().filter(|step| is_sync(step)).count();
    assert_eq!(syncs, 1, "once for a process");
}

#[test]
fn s1_a_deletion_whose_sync_failed_is_durable_before_it_is_confirmed() {
    let (folder, one) = (TempDir::new().unwrap(), session("one"));
    let journals = journals(&folder, "first");
    journals.claim(&one).unwrap();
    {
        let mut watch = lock(&journals.disk.watch);
        // Behind the removal of the journal.
        watch.fails = Some((watch.count + 4, Errno::IO));
    }
    assert!(matches!(journals.delete(&one), Err(StoreError::Unavailable(_))));
    let failed = lock(&journals.disk.watch).steps.len() - 1;
    assert!(is_sync(&lock(&journals.disk.watch).steps[failed]));
    assert!(journals.delete(&one).is_ok());
    assert!(place(&journals, failed + 1, is_sync) > failed);
}
