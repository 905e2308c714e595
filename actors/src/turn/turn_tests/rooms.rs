//! A turn among rooms whose actors end with its questions in their hands.

use super::*;
use bob_messages::llm::LlmErrorKind;

#[tokio::test(start_paused = true)]
async fn a_room_that_drops_its_question_is_an_answer() {
    for wait in [Wait::Model, Wait::Verdict, Wait::Call, Wait::ModelAgain] {
        let (mut fixture, held) = Fixture::waiting_for(wait).await;
        drop(held);
        let outcome = fixture.go_on().await;
        match wait {
            // A question that was not taken up is asked once more.
            Wait::Model | Wait::ModelAgain => assert!(outcome.error.is_none(), "{outcome:?}"),
            Wait::Verdict => assert_eq!(outcome.tool_transcript[0].status, CallStatus::Error),
            _ => assert_eq!(outcome.tool_transcript[0].status, CallStatus::Unknown, "it may have had its effect"),
        }
        assert_eq!((outcome.finish_reason, outcome.content.as_str()), (FinishReason::Final, "done"), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_room_that_does_not_come_back_is_an_error() {
    for wait in [Wait::Model, Wait::ModelAgain] {
        let (mut fixture, held) = Fixture::waiting_for(wait).await;
        fixture.rooms.llm.clear();
        drop(held);
        let outcome = fixture.go_on().await;
        let Some(bob_messages::error::AgentError::Llm(error)) = &outcome.error else { panic!("{outcome:?}") };
        assert_eq!(error.kind, LlmErrorKind::Gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_started_again_is_asked_for_the_same_again() {
    for wait in [Wait::Claim, Wait::Input, Wait::Intent, Wait::Outcome] {
        let (mut fixture, held) = Fixture::waiting_for(wait).await;
        fixture.rooms.store.clear();
        let before = match &held {
            Held::Store(StoreMessage::Append { append, .. }) => Some(append.clone()),
            _ => None,
        };
        // The actor died with the question in its hand; half a second later there is another.
        drop(held);
        tokio::time::sleep(Duration::from_millis(500)).await;
        fixture.store = inhabit(&fixture.rooms.store).await;
        let again = next(&mut fixture.store).await;
        match (&before, &again) {
            (Some(before), StoreMessage::Append { append, .. }) => assert_eq!(append, before, "the same records"),
            (None, StoreMessage::Claim { .. }) => {}
            other => panic!("{wait:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_come_back_ends_the_wait() {
    let (mut fixture, held) = Fixture::waiting_for(Wait::Outcome).await;
    fixture.rooms.store.clear();
    let began = Instant::now();
    drop(held);
    let outcome = fixture.finished().await;
    assert_eq!((outcome.finish_reason, outcome.saved), (FinishReason::Final, false), "told, and told honestly");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2) && took <= Duration::from_millis(2_001), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_claimed_for_an_actor_that_ended_meanwhile_is_given_back() {
    for stopped in [true, false] {
        let (mut fixture, held) = Fixture::waiting_for(Wait::Claim).await;
        match stopped {
            true => fixture.stop(EndReason::Cancelled),
            false => fixture.turn.kill(),
        }
        (&mut fixture.ends).await.unwrap();
        let Held::Store(StoreMessage::Claim { session, reply, .. }) = held else { panic!("a claim is held") };
        reply.send(Ok(Claim { epoch: 7, version: 0, records: Vec::new() }));
        let told = next(&mut fixture.store).await;
        assert!(matches!(&told, StoreMessage::Release { session: of, epoch: 7, .. } if *of == session), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_answered_and_never_taken_up_is_given_back() {
    for stopped in [true, false] {
        let (mut fixture, held) = Fixture::waiting_for(Wait::Claim).await;
        let Held::Store(StoreMessage::Claim { reply, .. }) = held else { panic!("a claim is held") };
        // The answer is in the mailbox of an actor that does not come to read it.
        reply.send(Ok(Claim { epoch: 7, version: 0, records: Vec::new() }));
        match stopped {
            true => fixture.stop(EndReason::Cancelled),
            false => fixture.turn.kill(),
        }
        (&mut fixture.ends).await.unwrap();
        let told = next(&mut fixture.store).await;
        assert!(matches!(&told, StoreMessage::Release { epoch: 7, .. }), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_is_said_again_until_a_store_has_done_it() {
    let (mut fixture, held) = Fixture::waiting_for(Wait::Claim).await;
    fixture.turn.kill();
    (&mut fixture.ends).await.unwrap();
    // Nobody is in the room when it is said first.
    fixture.rooms.store.clear();
    let Held::Store(StoreMessage::Claim { reply, .. }) = held else { panic!("a claim is held") };
    reply.send(Ok(Claim { epoch: 7, version: 0, records: Vec::new() }));
    tokio::time::sleep(Duration::from_secs(30)).await;
    for lost in [true, true, false] {
        fixture.store = inhabit(&fixture.rooms.store).await;
        let told = next(&mut fixture.store).await;
        let StoreMessage::Release { epoch: 7, reply, .. } = told else { panic!("{told:?}") };
        match lost {
            // The store ends with it in its hand.
            true => {
                fixture.rooms.store.clear();
                drop(reply);
            }
            false => reply.send(()),
        }
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(fixture.store.try_recv().is_err(), "it is done");
}
