//! The one suite every store must pass, for any crate that brings a store.
//!
//! Each rule is a function of a factory; [`store_contract!`](crate::store_contract)
//! makes one test of each. A factory makes an empty store that shares nothing with
//! its others. This module is a test aid: a broken rule panics and says which.

mod appends;
mod artifacts;
mod crowds;
mod glances;
mod inbox;
mod kills;
mod listings;
pub mod many;
mod owners;
mod parts;
mod pools;
mod processes;
mod suites;

#[cfg(test)]
#[path = "contract/suites_tests.rs"]
mod tests;

pub use appends::*;
pub use artifacts::artifacts;
pub use crowds::*;
pub use glances::*;
pub use inbox::*;
pub use kills::*;
pub use listings::*;
pub use owners::*;
pub use parts::*;
pub use pools::*;
pub use processes::*;
pub use suites::{full_disk, inbox_suite, killed, owners, paused, store};

use super::SessionStore;
use bob_messages::ids::{ModelName, RecordId, SessionId};
use bob_messages::store::{Append, FORMAT, Fact, Record, StoreError};
use std::sync::Arc;

/// Makes a test of every rule: `store_contract!(make)`, where `make` is a function
/// without arguments that returns a `(Arc<dyn SessionStore>, guard)`; the guard,
/// for example a temporary folder, is dropped after the store.
#[macro_export]
macro_rules! store_contract {
    ($make:expr) => {
        $crate::store_contract!(@each tests $make);
    };
    (@each $kind:ident $make:expr) => {
        $crate::store_contract!(@ $kind $make,
            a_claim_raises_the_epoch_by_one, what_was_appended_is_loaded_and_claimed,
            an_append_under_another_epoch_is_fenced, an_append_without_a_claim_is_fenced,
            a_wrong_version_is_a_conflict, the_same_append_again_is_a_success,
            the_rest_of_an_append_is_stored_behind_its_stored_prefix,
            stored_records_are_known_whatever_version_is_expected,
            records_that_do_not_follow_are_refused, an_append_without_records_only_asks,
            one_that_fails_does_not_touch_the_others_of_its_batch, a_load_of_an_unknown_session_is_empty,
            a_load_changes_nothing, a_released_session_can_be_claimed,
            a_listing_shows_titles_and_states, a_listing_shows_folders_and_beginnings, a_long_session_shows_its_title_and_state,
            turns_in_front_of_a_snapshot_are_counted_once,
            a_listing_is_filtered_by_state_and_parent, a_listing_is_filtered_and_cut_into_pages, a_cursor_of_nobody_is_refused,
            a_deleted_session_is_gone_and_its_owner_fenced, ids_that_differ_by_case_are_two_sessions,
            s9_the_longest_and_oddest_ids_are_sessions, a_thousand_sessions_go_in_one_batch,
            what_is_read_of_the_end_begins_before_the_last_snapshot, an_owner_that_read_the_end_goes_on,
            pages_come_to_the_whole, more_than_is_remembered_may_be_sent_again,
            concurrent_appends_to_many_sessions_all_arrive, s6_of_eight_writers_no_record_is_lost_or_doubled
        );
    };
    (@ tests $make:expr, $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let (store, _guard) = $make();
                $crate::store::contract::$rule(store).await;
            }
        )+
    };
    // `make` is given the name of the rule, and may say that it was skipped.
    (@ where_there $make:expr, $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let Some((store, _guard)) = $make(stringify!($rule)) else { return };
                $crate::store::contract::$rule(store).await;
            }
        )+
    };
    (@ rules $make:expr, $($rule:ident),+) => {
        $($make.push((stringify!($rule), Box::new(|store| Box::pin($crate::store::contract::$rule(store)))));)+
    };
}

/// Makes a test of every rule of an inbox, for a store that has one; `make` is as for [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! store_inbox_contract {
    ($make:expr) => {
        $crate::store_inbox_contract!(@each tests $make);
    };
    (@each $kind:ident $make:expr) => {
        $crate::store_contract!(@ $kind $make,
            a_message_is_taken_in_order_until_it_is_settled, a_message_that_is_put_twice_is_one,
            a_refused_message_waits_for_its_sender, sessions_with_messages_are_due,
            what_was_due_can_be_claimed_and_released, a_deleted_session_has_no_messages,
            a_message_wakes_who_waits_for_one, an_owner_holds_its_lease,
            a_refused_message_that_is_put_again_waits_as_the_last, at_most_1000_messages_wait_for_a_session,
            known_sessions_are_told_and_take_no_place, what_waits_longest_is_due_first, an_overview_counts_messages,
            each_kind_of_message_is_kept_as_it_is
        );
    };
}

/// Makes a test of every rule for a store that several processes may have open:
/// `store_owners_contract!(open, examine)`, where `open` opens a store in a folder
/// (see [`Open`]) and `examine` panics when a folder is not as it
/// must be after a kill.
///
/// [`Open`]: crate::store::contract::Open
#[macro_export]
macro_rules! store_owners_contract {
    ($open:expr, $examine:expr) => {
        $crate::store_owners_contract!(@each tests $open);
        $crate::store_owners_contract!(@killed $open, $examine);
    };
    (@each $kind:ident $open:tt) => {
        $crate::store_owners_contract!(@ $kind $open,
            s6_a_session_of_a_living_owner_is_refused_by_name,
            a_released_session_goes_to_the_next_and_its_last_owner_is_fenced, s7_a_dead_owners_session_is_free_at_once,
            taking_over_fences_the_living_owner, an_owner_from_before_a_deletion_stays_fenced,
            what_was_taken_away_is_not_taken_back, a_session_that_is_taken_is_nobodys_and_its_owner_is_fenced,
            s6_of_many_that_take_over_none_loses_or_doubles_a_record,
            a_session_of_a_pool_is_given_to_its_processes_alone
        );
    };
    (@killed $open:expr, $examine:expr) => {
        #[tokio::test]
        async fn s1_what_was_acknowledged_survives_a_kill_at_any_time() {
            let folder = tempfile::TempDir::new().expect("a folder for the test");
            let test = concat!(module_path!(), "::s1_what_was_acknowledged_survives_a_kill_at_any_time");
            let kill = $crate::store::contract::s1_what_was_acknowledged_survives_a_kill_at_any_time;
            kill(test, folder.path(), $open, $examine).await;
        }
        $crate::store_owners_contract!(@processes $open,
            a_paused_owner_is_busy_and_fenced_when_it_goes_on,
            s3_a_file_that_may_not_grow_costs_nothing_that_was_acknowledged,
            s7_a_killed_owners_session_is_free_at_once_and_its_file_swept
        );
    };
    (@processes $open:expr, $($rule:ident),+) => {
        $(
            #[tokio::test]
            async fn $rule() {
                let folder = tempfile::TempDir::new().expect("a folder for the test");
                let test = concat!(module_path!(), "::", stringify!($rule));
                $crate::store::contract::$rule(test, folder.path(), $open).await;
            }
        )+
    };
    (@ rules $make:expr, $($rule:ident),+) => {
        $($make.push((
            stringify!($rule),
            Box::new(|folder, open| Box::pin(async move { $crate::store::contract::$rule(&folder, open).await })),
        ));)+
    };
    // `is_there` is given the name of the rule, and says if it is skipped.
    (@ where_there ($open:expr, $is_there:expr), $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                if $is_there(stringify!($rule)) {
                    let folder = tempfile::TempDir::new().expect("a folder for the test");
                    $crate::store::contract::$rule(folder.path(), $open).await;
                }
            }
        )+
    };
    (@ tests $open:expr, $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let folder = tempfile::TempDir::new().expect("a folder for the test");
                $crate::store::contract::$rule(folder.path(), $open).await;
            }
        )+
    };
}

/// A session id for a test.
pub fn session(id: &str) -> SessionId {
    SessionId::parse(id).expect("the test names a valid session")
}

/// A record of a session; its id is made of its version and the name.
pub fn record(session: &SessionId, epoch: u64, version: u64, name: &str) -> Arc<Record> {
    Arc::new(Record {
        format: FORMAT,
        id: RecordId::new(format!("{session}-{version}-{name}")),
        session: session.clone(),
        version,
        epoch,
        turn: None,
        at: i64::try_from(version).expect("a test's versions are small"),
        fact: Fact::Started {
            model: ModelName::parse("scripted:é\"\n\u{0}").expect("it has two sides"),
            selected: None,
        },
    })
}

/// An append of as many records as asked for, behind this version.
pub fn append(session: &SessionId, epoch: u64, version: u64, count: u64) -> Append {
    let records = (version + 1..=version + count).map(|version| record(session, epoch, version, "r"));
    Append { session: session.clone(), epoch, expected_version: version, records: records.collect() }
}

/// Stores one append.
///
/// # Errors
/// What the store answered.
pub async fn store_one(store: &Arc<dyn SessionStore>, append: Append) -> Result<u64, StoreError> {
    let mut answers = store.append(vec![append]).await;
    assert_eq!(answers.len(), 1, "one append has one answer");
    answers.remove(0)
}

/// The epoch of a new claim.
pub async fn claim(store: &Arc<dyn SessionStore>, session: &SessionId) -> u64 {
    store.claim(session).await.expect("a session nobody else owns can be claimed").epoch
}

/// The ids of a session's records, after a check that the versions count them.
pub async fn stored(store: &Arc<dyn SessionStore>, session: &SessionId) -> Vec<String> {
    let records = store.load(session).await.expect("the session can be loaded");
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.version, index as u64 + 1, "versions count the records");
    }
    records.iter().map(|record| record.id.to_string()).collect()
}
