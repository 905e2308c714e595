//! A session that is read from a snapshot is the one that is read from its beginning.

use super::TurnMessage;
use crate::chat::ContentPart;
use crate::ids::{RequestId, TurnId};
use crate::input::TurnInput;
use crate::limits::Limits;
use crate::session_state::Session;
use crate::store::{Fact, Record, Snapshot, latest};
use crate::submission::TurnNews;
use crate::turn::tests::world::{World, answer, input, model};
use crate::turn_config::TurnConfig;
use std::sync::Arc;

/// So many turns, each a named request and an answer, with snapshots so close.
fn lived(turns: u32, snapshot_every: u64) -> World {
    let mut world = World::new(TurnConfig { max_history_messages: 8, snapshot_every, ..TurnConfig::new(model()) });
    for number in 1..=turns {
        say(&mut world, number);
    }
    world
}

fn say(world: &mut World, number: u32) {
    let request_id = Some(RequestId::new(format!("r{number}")));
    let input = TurnInput { request_id, ..input(number, "go", Limits::default()) };
    world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    world.llm(Ok(answer(&format!("answer {number}"), &[])));
}

fn is_snapshot(record: &Arc<Record>) -> bool {
    matches!(record.fact, Fact::Snapshot(_))
}

fn changed(record: &Arc<Record>, change: impl FnOnce(&mut Snapshot)) -> Arc<Record> {
    let mut record = (**record).clone();
    if let Fact::Snapshot(snapshot) = &mut record.fact {
        change(snapshot);
    }
    Arc::new(record)
}

#[test]
fn a_snapshot_stands_behind_so_many_records_and_where_nothing_waits_for_it() {
    let world = lived(60, 20);
    let at: Vec<_> = world.stored.iter().filter(|record| is_snapshot(record)).map(|record| record.version).collect();
    assert!(at.len() >= 10 && at.windows(2).all(|two| (20..25).contains(&(two[1] - two[0]))), "{at:?}");
    for version in at {
        let behind = &world.stored[usize::try_from(version).unwrap()].fact;
        assert!(matches!(behind, Fact::Answered(_)), "it went while the model was asked: {behind:?}");
    }
    assert!(lived(60, 0).stored.iter().all(|record| !is_snapshot(record)), "0 is never");
}

#[test]
fn every_snapshot_is_the_session_it_stands_for() {
    let world = lived(60, 7);
    let whole = world.folded();
    let id = whole.id.clone();
    let mut snapshots = 0;
    for (at, _) in world.stored.iter().enumerate().filter(|(_, record)| is_snapshot(record)) {
        let from = Session::fold_latest(id.clone(), Some(8), &world.stored[at..]);
        assert_eq!(from.as_ref(), Some(&whole), "from record {}", at + 1);
        let as_kept = Session::fold_latest(id.clone(), None, &world.stored[at..]);
        assert_eq!(as_kept.as_ref(), Some(&whole), "from record {}", at + 1);
        snapshots += 1;
    }
    assert!(snapshots > 20, "{snapshots}");
    // Whoever reads everything passes over them.
    let without = lived(60, 0);
    let (one, other) = (whole, without.folded());
    assert_eq!((one.history, one.turns, one.calls), (other.history, other.turns, other.calls));
}

#[test]
fn s16_an_owner_goes_on_from_the_last_snapshot_alone() {
    let mut world = lived(40, 20);
    let last = world.stored.iter().rposition(is_snapshot).unwrap();
    // What is before it may as well be unreadable.
    let before: Vec<_> = world.stored[..last].to_vec();
    for record in &mut world.stored[..last] {
        *record = Arc::new(Record { fact: Fact::Withdrawn, ..(**record).clone() });
    }
    world.crash();
    say(&mut world, 41);
    let told = world.turn.session().unwrap().last.as_ref().unwrap();
    assert_eq!((told.turn_id.as_str(), &*told.content), ("t41", "answer 41"));
    world.stored.splice(..last, before);
    assert_eq!(world.turn.session(), Some(&world.folded()));
}

#[test]
fn a_snapshot_that_cannot_be_used_makes_the_owner_read_everything() {
    type Damage = fn(&mut Snapshot);
    let damage: [(&str, Damage); 4] = [
        ("form", |snapshot| snapshot.form += 1),
        ("text", |snapshot| snapshot.session = snapshot.session[..snapshot.session.len() / 2].into()),
        ("version", |snapshot| snapshot.session = snapshot.session.replace("\"version\":", "\"version\":1").into()),
        ("id", |snapshot| snapshot.session = snapshot.session.replace("\"id\":\"s\"", "\"id\":\"other\"").into()),
    ];
    for (what, damage) in damage {
        let mut world = lived(40, 20);
        let whole = world.stored.clone();
        for record in &mut world.stored {
            *record = changed(record, damage);
        }
        let latest = latest(&world.stored);
        assert_eq!(Session::fold_latest(world.folded().id, Some(8), latest), None, "{what}");
        world.crash();
        say(&mut world, 41);
        let told = world.turn.session().unwrap().last.as_ref().unwrap();
        assert_eq!(&*told.content, "answer 41", "{what}");
        world.stored[..whole.len()].clone_from_slice(&whole);
        assert_eq!(world.turn.session(), Some(&world.folded()), "{what}");
    }
}

#[test]
fn a_session_that_is_to_keep_more_than_its_snapshot_does_is_read_whole() {
    let mut world = lived(40, 20);
    world.crash();
    world.turn_config = Arc::new(TurnConfig { max_history_messages: 30, ..(*world.turn_config).clone() });
    say(&mut world, 41);
    assert_eq!(world.turn.session(), Some(&world.folded()));
    let history = &world.turn.session().unwrap().history;
    assert!(history.len() > 25, "{} messages", history.len());
    // One that keeps less goes on from it.
    world.crash();
    world.turn_config = Arc::new(TurnConfig { max_history_messages: 4, ..(*world.turn_config).clone() });
    say(&mut world, 42);
    let history = &world.turn.session().unwrap().history;
    assert!(history.len() <= 4, "{} messages", history.len());
}

#[test]
fn an_old_request_is_found_behind_a_snapshot() {
    let mut world = lived(40, 20);
    world.crash();
    let records = world.stored.len();
    let again = TurnInput { request_id: Some(RequestId::new("r3")), ..input(41, "go", Limits::default()) };
    world.say(TurnMessage::Start { input: Arc::new(again), turn_config: Arc::clone(&world.turn_config) });
    world.settle();
    let told = world.news.iter().rev().find_map(|news| match news {
        TurnNews::Finished { submission, outcome } if *submission == TurnId::new("t41") => Some(&outcome.content),
        _ => None,
    });
    assert_eq!(told.map(String::as_str), Some("answer 3"));
    assert_eq!(world.stored.len(), records, "nothing runs");
    say(&mut world, 42);
    assert_eq!(world.turn.session(), Some(&world.folded()));
}

#[test]
fn a_session_that_is_too_large_has_no_snapshot_and_goes_on() {
    let mut world = World::new(TurnConfig { snapshot_every: 5, ..TurnConfig::new(model()) });
    let image = || ContentPart::Image { mime_type: "image/png".into(), data: "A".repeat(5 * 1024 * 1024) };
    world.capabilities.images = true;
    for number in 1..=8 {
        let mut input = input(number, "look", Limits::default());
        input.parts.push(image());
        world.say(TurnMessage::Start { input: Arc::new(input), turn_config: Arc::clone(&world.turn_config) });
        world.settle();
        world.llm(Ok(answer("I see", &[])));
    }
    assert!(world.stored.iter().all(|record| !is_snapshot(record)), "two images are too many");
    assert_eq!(world.turn.session().unwrap().turns, 8);
}

#[test]
fn what_ended_before_a_snapshot_and_is_sent_again_is_told_its_outcome() {
    for crashes in [true, false] {
        let mut world = lived(40, 20);
        if crashes {
            world.crash();
        }
        let records = world.stored.len();
        // It has no name of its caller's, as of somebody who did not hear how it ended.
        world.say(TurnMessage::Start {
            input: Arc::new(input(3, "go", Limits::default())),
            turn_config: Arc::clone(&world.turn_config),
        });
        world.settle();
        let told = world.news.iter().rev().find_map(|news| match news {
            TurnNews::Finished { submission, outcome } => Some((submission.as_str(), outcome.content.as_str())),
            _ => None,
        });
        assert_eq!(told, Some(("t3", "answer 3")), "after a crash: {crashes}");
        assert_eq!(world.stored.len(), records, "nothing runs");
        say(&mut world, 41);
        assert_eq!(world.turn.session(), Some(&world.folded()));
    }
}
