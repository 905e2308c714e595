//! When a snapshot is due, and what one consists of.

use super::*;
use std::collections::BTreeSet;

fn session() -> Session {
    Session::new(SessionId::parse("s").unwrap())
}

#[test]
fn a_large_snapshot_is_paid_for_by_many_records() {
    let mut session = session();
    session.version = 1_000;
    assert!(session.wants_snapshot(200) && !session.wants_snapshot(0));
    session.took(&Snapshot { form: SNAPSHOT_FORM, session: "x".repeat(512 * 1_000).into() });
    session.version = 1_999;
    assert!(!session.wants_snapshot(200));
    session.version = 2_000;
    assert!(session.wants_snapshot(200));
    // What was condensed since is small.
    session.version = 1_020;
    session.outdates_snapshot();
    assert!(session.wants_snapshot(200));
}

/// Fails when a field comes, goes or changes its name: then `SNAPSHOT_FORM` is raised, unless an older snapshot that lacks
/// the field reads as the session it was.
#[test]
fn the_fields_of_a_written_session_are_those_of_its_form() {
    let mut session = session();
    // It is left out when there are none.
    session.submissions.remember(&crate::ids::TurnId::new("t"));
    let value = serde_json::to_value(&session).unwrap();
    let fields: BTreeSet<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "answered calls history id keep last last_submission open opened options submissions summary \
                    tokens_per_kb turns version waiting";
    assert_eq!((SNAPSHOT_FORM, fields), (1, expected.split_whitespace().collect()));
}
