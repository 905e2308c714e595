//! Calls that a stop interrupts: what the driver hands to the machine of them, without waiting.

use super::*;

#[tokio::test(start_paused = true)]
async fn c4_a_stopped_call_is_unknown_with_the_time_it_ran_and_what_it_had_put_out() {
    let (mut fixture, held) = Fixture::waiting_for(Wait::Call).await;
    let Held::Tools(ToolsMessage::Call { reply, .. }) = &held else { panic!("the call runs") };
    reply.so_far().push(b"3 of 7\n");
    tokio::time::sleep(Duration::from_millis(4_000)).await;
    let began = Instant::now();
    fixture.stop(EndReason::Cancelled);
    let outcomes = fixture.last_words(true).await;
    assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
    let entry = &outcomes[0].tool_transcript[0];
    assert_eq!((entry.status, entry.duration_ms), (CallStatus::Unknown, 4_000), "{entry:?}");
    let text = "outcome unknown: the turn ended while the tool was running, after 4.0 s; its output so far:\n3 of 7";
    assert_eq!(entry.result, text);
    assert_eq!(outcomes[0].duration_ms, 4_000);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_actor_goes_away_keeps_what_it_had_put_out_and_the_time_it_ran() {
    let (mut fixture, held) = Fixture::waiting_for(Wait::Call).await;
    let Held::Tools(ToolsMessage::Call { reply, .. }) = held else { panic!("the call runs") };
    reply.so_far().push(b"3 of 7\n");
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    drop(reply);
    let outcome = fixture.go_on().await;
    let entry = &outcome.tool_transcript[0];
    assert_eq!((entry.status, entry.duration_ms), (CallStatus::Unknown, 2_500), "{entry:?}");
    assert!(entry.result.ends_with("its output so far:\n3 of 7"), "{}", entry.result);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_asked_with_what_is_left_of_the_turn_by_a_clock_that_does_not_jump() {
    let (fixture, held) = Fixture::waiting_for(Wait::ModelAgain).await;
    let Held::Llm(LlmMessage::Infer { remaining_ms, .. }) = held else { panic!("the model is asked") };
    assert_eq!(remaining_ms, 90_000, "no time has passed");
    drop(fixture);
}
