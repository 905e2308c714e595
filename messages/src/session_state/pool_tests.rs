//! The fold, the listing entry and the records from a snapshot on name one pool.

use super::*;
use crate::chat::{ContentPart, FinishReason};
use crate::ids::{ModelName, RecordId, RequestId, ResumeToken, TurnId};
use crate::input::TurnInput;
use crate::options::SessionOptions;
use crate::store::{Ended, FORMAT, Snapshot};

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn options(pool: Option<&str>) -> Arc<SessionOptions> {
    let pool = pool.map(|name| PoolName::parse(name).unwrap());
    Arc::new(SessionOptions { pool, ..SessionOptions::default() })
}

fn input(turn: &str, options: Arc<SessionOptions>) -> (&str, Fact) {
    let parts = vec![ContentPart::text("go")];
    let input = TurnInput::bare(TurnId::new(turn), ResumeToken::new(turn), parts);
    (turn, Fact::Input(Arc::new(TurnInput { options: Some(options), ..input })))
}

fn started(turn: &str) -> (&str, Fact) {
    (turn, Fact::Started { model: ModelName::parse("scripted:m").unwrap(), selected: None })
}

fn ended(turn: &str) -> (&str, Fact) {
    (turn, Fact::Outcome(Box::new(Ended::new(FinishReason::Final))))
}

fn configured(name: &str, pool: Option<&str>) -> (&'static str, Fact) {
    let request_id = RequestId::new(name);
    ("", Fact::Configured { request_id, options: options(pool), notice: None })
}

/// Each fact in a record, and the pool to which the session is bound behind it, by all who say it.
fn bound(facts: Vec<(&str, Fact)>) -> Vec<Option<String>> {
    let (mut records, mut glance) = (Vec::new(), Glance::default());
    let mut all = Vec::new();
    for (turn, fact) in facts {
        let version = records.len() as u64 + 1;
        let turn = Some(turn).filter(|turn| !turn.is_empty()).map(TurnId::new);
        let id = RecordId::numbered(1, version);
        let record = Record { format: FORMAT, id, session: session(), version, epoch: 1, turn, at: 1, fact };
        glance.note(&record);
        records.push(Arc::new(record));
        let pool = pool_of(&session(), &records);
        let folded = Session::fold(session(), &records);
        assert_eq!((&glance.pool, &folded.latest_options().pool), (&pool, &pool), "behind record {version}");
        let snapshot = Fact::Snapshot(folded.snapshot().unwrap());
        let snapshot = Arc::new(Record { version: version + 1, fact: snapshot, ..(*records[0]).clone() });
        assert_eq!(pool_of(&session(), &[snapshot]), pool, "from a snapshot behind record {version} on");
        all.push(pool.map(|pool| pool.to_string()));
    }
    all
}

#[test]
fn an_input_that_waits_or_was_withdrawn_binds_the_session_to_no_pool() {
    let waits = vec![
        ("", Fact::Options(options(None))),
        input("t1", options(None)),
        started("t1"),
        input("t2", options(Some("gpu"))),
        ended("t1"),
        started("t2"),
        ended("t2"),
        configured("c1", Some("gpu")),
    ];
    let none = || vec![None; 7];
    assert_eq!(bound(waits), [none(), vec![Some("gpu".to_owned())]].concat(), "an input never binds it");
    let withdrawn = vec![
        ("", Fact::Options(options(Some("big")))),
        input("t1", options(Some("big"))),
        started("t1"),
        input("t2", options(Some("gpu"))),
        ("t2", Fact::Withdrawn),
        input("t3", options(None)),
        ended("t1"),
        started("t3"),
    ];
    assert_eq!(bound(withdrawn), vec![Some("big".to_owned()); 8], "and none moves it");
}

#[test]
fn a_change_binds_it_also_while_a_turn_runs_and_an_input_waits() {
    let facts = vec![
        ("", Fact::Options(options(Some("big")))),
        input("t1", options(Some("big"))),
        started("t1"),
        input("t2", options(Some("big"))),
        configured("c1", Some("gpu")),
        ended("t1"),
        started("t2"),
        configured("c2", None),
        ended("t2"),
    ];
    let (big, gpu) = (|| Some("big".to_owned()), || Some("gpu".to_owned()));
    assert_eq!(bound(facts), [big(), big(), big(), big(), gpu(), gpu(), gpu(), None, None]);
}

#[test]
fn a_snapshot_that_cannot_be_used_still_names_the_pool() {
    let mut of = Session::new(session());
    (of.version, of.options) = (6, options(Some("gpu")));
    let written = of.snapshot().unwrap();
    let record = |snapshot| {
        let id = RecordId::numbered(1, 7);
        let fact = Fact::Snapshot(snapshot);
        Arc::new(Record { format: FORMAT, id, session: session(), version: 7, epoch: 1, turn: None, at: 1, fact })
    };
    let of_another_form = Snapshot { form: 9, ..written.clone() };
    let damaged =
        Snapshot { session: written.session.replace("\"version\":6", "\"version\":").into(), ..written.clone() };
    let of_another_session = Snapshot { session: written.session.replace("\"s\"", "\"t\"").into(), ..written.clone() };
    let gpu = PoolName::parse("gpu").ok();
    for snapshot in [written, of_another_form, damaged, of_another_session] {
        assert_eq!(pool_of(&session(), &[record(snapshot.clone())]), gpu, "{snapshot:?}");
    }
}
