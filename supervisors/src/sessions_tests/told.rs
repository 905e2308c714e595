//! A store that fails for a while during a session's work: a retryable input is not in the journal, and a journaled
//! one runs once, with the next message.

use super::*;
use bob_messages::store::{Fact, StoreError};

/// Whether this reply allows a retry.
fn may_be_sent_again(answer: &Result<Box<TurnOutcome>, AgentError>) -> bool {
    match answer {
        Ok(outcome) => outcome.is_retryable(),
        Err(error) => error.is_retryable(),
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_a_store_begins_to_fail_what_may_be_sent_again_never_runs_and_the_rest_runs_once() {
    let mut kept = 0;
    for (first, error) in (1..=8).flat_map(|first| {
        let full = StoreError::Unavailable("the disk is full".into());
        [(first, full), (first, StoreError::InDoubt("no answer".into()))]
    }) {
        let store = FaultStore::new(MemoryStore::new());
        for nth in first..first + 8 {
            store.plan(Some(Operation::Append), nth, Fault::Refuse(error.clone()));
        }
        let fixture = Fixture::over(model(vec![ScriptedReply::text("fine")], 700), store.clone(), Vec::new()).await;
        let names = ["one", "two", "three"];
        let pending = names.map(|name| fixture.submit(name, limits(90_000)));
        let mut answers = Vec::new();
        for pending in pending {
            answers.push(tokio::time::timeout(DEADLINE, pending).await.expect("answered").expect("answered"));
        }
        // The store is back, and a caller continues.
        for next in 0..12 {
            let pending = fixture.submit(&format!("next {next}"), limits(90_000));
            let answer = tokio::time::timeout(DEADLINE, pending).await.expect("answered").expect("answered");
            if answer.is_ok_and(|outcome| outcome.saved) {
                break;
            }
        }
        let records = fixture.records().await;
        for (name, answer) in names.into_iter().zip(&answers) {
            let of = |record: &&Arc<Record>| record.turn.as_ref().is_some_and(|turn| turn.as_str() == name);
            let begun = |record: &&Arc<Record>| matches!(record.fact, Fact::Started { .. });
            let times = records.iter().filter(of).filter(begun).count();
            assert!(times <= 1, "from append {first}: {name} ran {times} times");
            if may_be_sent_again(answer) {
                let there = records.iter().filter(of).count();
                assert_eq!(there, 0, "from append {first}: {name} was told {answer:?}");
            }
            kept += usize::from(matches!(answer, Err(AgentError::Kept(_)) if times == 1));
        }
    }
    assert!(kept > 0, "some are kept, and run with the next message");
}
