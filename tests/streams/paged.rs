//! A long session: readers hold one page of it, and a reader of its end reads only that.

use std::sync::Arc;

use bob::config::TurnConfig;
use bob::events::{AgentEvent, Envelope, EventsFrom};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::{AgentError, AgentRuntime};
use bob_messages::event::rebuild;
use bob_messages::ids::TurnId;
use bob_messages::store::{Fact, SessionState};

use crate::support::runtime::{build, model_name, over, say, session, turn, within};

const TURNS: usize = 300;

async fn read(runtime: &bob::Runtime, from: EventsFrom, turns: usize) -> Vec<Arc<Envelope>> {
    let mut events = within(runtime.subscribe(session("s"), from)).await.expect("a reader");
    let (mut read, mut ends) = (Vec::new(), 0);
    while ends < turns {
        let event = within(events.next()).await.expect("the runtime runs").expect("the journal can be read");
        ends += usize::from(matches!(event.event, AgentEvent::TurnFinished { .. }));
        read.push(event);
    }
    read
}

#[tokio::test]
async fn a_long_session_is_read_in_pages_and_from_its_end() {
    let turn_config = TurnConfig { snapshot_every: 20, ..TurnConfig::new(model_name()) };
    let runtime = build(over(ScriptedLlm::from_fn(|_| ScriptedReply::text("so it is"))).turn_config(turn_config)).await;
    let mut turns = Vec::new();
    for number in 0..TURNS {
        turns.push(turn(&runtime, say(&format!("turn {number}"))).await.turn_id.clone());
    }
    let records = within(runtime.records(session("s"))).await.unwrap();
    let snapshots = records.iter().filter(|record| matches!(record.fact, Fact::Snapshot(_))).count();
    assert!(snapshots > 20 && records.len() > 1_000, "{snapshots} in {} records", records.len());
    let expected: Vec<_> = rebuild(&session("s"), &records).into_iter().map(Arc::new).collect();
    let of = |turn: &TurnId| expected.iter().position(|event| event.turn_id.as_ref() == Some(turn)).unwrap();

    assert_eq!(read(&runtime, EventsFrom::Beginning, TURNS).await, expected);
    for number in [0, 1, 120, TURNS - 8, TURNS - 2, TURNS - 1] {
        let turn = &turns[number];
        let told = read(&runtime, EventsFrom::Turn(turn.clone()), TURNS - number).await;
        assert_eq!(told, expected[of(turn)..], "from turn {number}");
        let first =
            records.iter().find(|record| record.turn.as_ref() == Some(turn) && !matches!(record.fact, Fact::Input(_)));
        let behind = EventsFrom::Version(first.unwrap().version - 1);
        assert_eq!(read(&runtime, behind, TURNS - number).await, told, "behind turn {number}");
    }
    let nobodys = EventsFrom::Turn(TurnId::new("nobody's"));
    let refused = within(runtime.subscribe(session("s"), nobodys)).await.map(drop);
    assert!(matches!(refused, Err(AgentError::Invalid(_))), "{refused:?}");

    let look = within(runtime.session(session("s"))).await.unwrap().expect("it is there");
    assert_eq!((look.title.as_deref(), look.state, look.turns), (Some("turn 0"), SessionState::Idle, TURNS as u64));
    for most in [1, 5, 40, 700, 10_000] {
        let last = within(runtime.last_records(session("s"), most)).await.unwrap();
        assert_eq!(last, records[records.len().saturating_sub(most)..], "{most}");
    }
}

#[tokio::test]
async fn a_reader_that_comes_now_is_given_what_comes_next() {
    let turn_config = TurnConfig { snapshot_every: 20, ..TurnConfig::new(model_name()) };
    let runtime = build(over(ScriptedLlm::from_fn(|_| ScriptedReply::text("so it is"))).turn_config(turn_config)).await;
    for number in 0..40 {
        turn(&runtime, say(&format!("turn {number}"))).await;
        let mut now = within(runtime.subscribe(session("s"), EventsFrom::Now)).await.expect("a reader");
        let next = turn(&runtime, say("next")).await;
        let mut number = 0;
        loop {
            let event = within(now.next()).await.unwrap().unwrap();
            number += 1;
            assert_eq!((event.turn_id.as_ref(), event.seq), (Some(&next.turn_id), number), "{event:?}");
            if matches!(event.event, AgentEvent::TurnFinished { .. }) {
                break;
            }
        }
    }
}
