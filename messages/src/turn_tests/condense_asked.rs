//! A history that is condensed on request, between two turns.

use super::world::World;
use crate::chat::Usage;
use crate::ids::RequestId;
use crate::options::{Configuring, HistoryChange, SessionChange};
use crate::replay::replay;
use crate::session_state::Session;
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::turn::TurnMessage;
use crate::turn::tests::stories::{native, told};
use std::sync::Arc;

fn asks(world: &mut World, name: &str, version: u64) {
    let usage = Some(Usage { input_tokens: 7, output_tokens: 2, total_tokens: 9, ..Usage::default() });
    let change = HistoryChange { version, summary: "they greeted".into(), usage };
    let change = SessionChange::Condense(Box::new(change));
    let asked = Arc::new(Configuring { request_id: RequestId::new(name), change });
    world.say(TurnMessage::Configure { asked, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
}

fn is_taken(world: &World, name: &str) -> bool {
    let told = world.news.iter().rev().find_map(|news| match news {
        TurnNews::Configured { request_id, result } if request_id.as_str() == name => Some(result.is_ok()),
        _ => None,
    });
    told.expect("it is told")
}

fn condensations(world: &World) -> usize {
    world.stored.iter().filter(|record| matches!(record.fact, Fact::Condensed(_))).count()
}

#[test]
fn a_summary_takes_the_place_of_the_history_once() {
    let mut world = told(native(), &["user hello", "llm Good day.", "user again", "llm Once more."]);
    let version = world.turn.session().expect("it is read").version;
    asks(&mut world, "first", version);
    assert!(is_taken(&world, "first"));
    let session = world.turn.session().expect("it is read");
    assert_eq!((session.history.len(), session.summary.as_deref()), (0, Some("they greeted")));
    let folded = Session::fold_keeping(session.id.clone(), 50, &world.stored);
    assert_eq!((folded.history.len(), folded.summary.as_deref()), (0, Some("they greeted")));
    // The caller did not hear of it, and asks again.
    asks(&mut world, "first", version);
    assert!(is_taken(&world, "first"));
    assert_eq!(condensations(&world), 1);
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[test]
fn what_was_said_meanwhile_is_not_lost_in_a_summary_that_does_not_know_it() {
    let mut world = told(native(), &["user hello", "llm Good day."]);
    let version = world.turn.session().expect("it is read").version;
    asks(&mut world, "late", version - 1);
    assert!(!is_taken(&world, "late"));
    let mut running = told(native(), &["user hello"]);
    let version = running.turn.session().expect("it is read").version;
    asks(&mut running, "during", version);
    assert!(!is_taken(&running, "during"));
    assert_eq!((condensations(&world), condensations(&running)), (0, 0));
}
