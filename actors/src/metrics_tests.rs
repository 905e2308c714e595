use super::*;
use bob_messages::chat::Usage;
use bob_messages::ids::{CallId, SessionId, ToolName, TurnId};
use bob_messages::outcome::TranscriptEntry;

fn outcome(finish_reason: FinishReason) -> TurnOutcome {
    let session = SessionId::parse("s").unwrap();
    let call = |status| TranscriptEntry {
        id: CallId::new("c"),
        name: ToolName::new("local/read_file"),
        arguments: serde_json::Value::Null.into(),
        status,
        result: String::new(),
        duration_ms: 0,
    };
    TurnOutcome {
        steps: 2,
        tool_transcript: [call(CallStatus::Ok), call(CallStatus::Unknown)].into(),
        usage: Usage { input_tokens: 10, output_tokens: 5, total_tokens: 15, ..Usage::default() },
        saved: true,
        ..TurnOutcome::bare(session, TurnId::new("t"), finish_reason, "")
    }
}

#[test]
fn what_a_turn_used_is_counted_once_also_when_it_was_suspended() {
    let metrics = Metrics::default();
    metrics.ended(&outcome(FinishReason::Suspended));
    metrics.ended(&outcome(FinishReason::Final));
    let seen = metrics.snapshot();
    assert_eq!(
        (seen.turns.ends[FinishReason::Suspended], seen.turns.ends[FinishReason::Final], seen.turns.ended()),
        (1, 1, 2)
    );
    assert_eq!(
        (seen.steps, seen.tool_calls[CallStatus::Ok], seen.tool_calls[CallStatus::Unknown], seen.tokens.total),
        (2, 1, 1, 15)
    );
}

#[test]
fn every_end_and_every_guard_has_a_place_of_its_own() {
    use FinishReason::{Cancelled, Error, Final, GuardExceeded, Suspended};
    let metrics = Metrics::default();
    for (times, reason) in [Final, GuardExceeded, Cancelled, Suspended, Error].into_iter().enumerate() {
        (0..=times).for_each(|_| metrics.ended(&TurnOutcome { guard_reason: None, ..outcome(reason) }));
    }
    let turns = metrics.snapshot().turns;
    assert_eq!((turns.ends.into_array(), turns.unsaved), ([1, 2, 3, 4, 5], 0));

    let metrics = Metrics::default();
    let guards = [
        GuardReason::MaxSteps,
        GuardReason::MaxToolCalls,
        GuardReason::MaxConsecutiveErrors,
        GuardReason::MaxIdenticalCalls,
        GuardReason::MaxTotalTokens,
        GuardReason::MaxCost,
        GuardReason::TurnTimeout,
        GuardReason::NoProgress,
    ];
    for (times, guard) in guards.into_iter().enumerate() {
        let outcome = TurnOutcome { guard_reason: Some(guard), saved: false, ..outcome(GuardExceeded) };
        (0..=times).for_each(|_| metrics.ended(&outcome));
    }
    let seen = metrics.snapshot();
    assert_eq!((seen.guards.into_array(), seen.turns.unsaved), ([1, 2, 3, 4, 5, 6, 7, 8], 36));
}

#[test]
fn the_names_of_counts_are_stable_and_counts_of_a_newer_program_are_passed_over() {
    let metrics = Metrics::default();
    metrics.submitted();
    metrics.ended(&outcome(FinishReason::Final));
    let mut json = serde_json::to_value(metrics.snapshot()).unwrap();
    let counts = [&json["turns"], &json["guards"], &json["tool_calls"]].map(ToString::to_string);
    expect_test::expect![[r#"
        {"submitted":1,"refused":0,"repeated":0,"final":1,"guard_exceeded":0,"cancelled":0,"suspended":0,"error":0,"unsaved":0}
        {"max_steps":0,"max_tool_calls":0,"max_consecutive_errors":0,"max_identical_calls":0,"max_total_tokens":0,"max_cost":0,"turn_timeout":0,"no_progress":0}
        {"ok":1,"error":0,"denied":0,"unknown":1,"cancelled":0}"#]]
    .assert_eq(&counts.join("\n"));
    for counts in ["turns", "guards", "tool_calls"] {
        json[counts]["of_a_newer_program"] = 7.into();
    }
    assert_eq!(serde_json::from_value::<MetricsSnapshot>(json).unwrap().turns, metrics.snapshot().turns);
}

#[test]
fn a_snapshot_survives_its_way_as_json() {
    let metrics = Metrics::default();
    metrics.submitted();
    metrics.answered(Duration::from_millis(3));
    metrics.load(SessionsLoad { live: 3, running: 2, waiting: 1 });
    metrics.store_queued(Arc::new(AtomicUsize::new(7)));
    let seen = metrics.snapshot();
    assert_eq!((seen.store_queue, seen.sessions.live, seen.turn_latency.all.count), (7, 3, 1));
    let text = serde_json::to_string(&seen).unwrap();
    assert_eq!(serde_json::from_str::<MetricsSnapshot>(&text).unwrap(), seen);
}
