//! A cancel races with the natural end: one outcome, one terminal event, and a journal that agrees.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bob::events::{AgentEvent, Delta, Envelope, EventSink};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, TurnId};
use bob::store::Record;
use bob::tools::{ToolOutput, tool};
use bob::{AgentRequest, AgentRuntime, Runtime};
use bob_messages::store::Fact;
use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::json;

use crate::support::runtime::{Nothing, Recorder, build, ended, file_store, over, say, session, turn, within};
use crate::support::scratch::Scratch;

const ROUNDS: usize = 400;

/// Cancels the session at one event of each turn: within the emit, so between two moves of the turn.
struct CancelsAt {
    runtime: OnceLock<Runtime>,
    left: AtomicUsize,
    events: AtomicUsize,
}

impl EventSink for CancelsAt {
    fn emit(&self, event: &Envelope) {
        self.events.fetch_add(1, Ordering::SeqCst);
        let Some(runtime) = self.runtime.get() else { return };
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // The first poll sends it; the reply is not awaited.
            if let Some(session) = event.session_id.clone() {
                let _still_open = runtime.cancel(session).now_or_never();
            }
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

/// The outcome of each turn in the journal.
fn outcomes(records: &[Arc<Record>]) -> HashMap<TurnId, Vec<FinishReason>> {
    let mut outcomes: HashMap<TurnId, Vec<FinishReason>> = HashMap::new();
    for record in records {
        if let (Some(turn), Fact::Outcome(ended)) = (&record.turn, &record.fact) {
            outcomes.entry(turn.clone()).or_default().push(ended.finish_reason);
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_cancel_and_the_natural_end_make_one_outcome() {
    let recorder = Recorder::new();
    let model = ScriptedLlm::from_fn(|request| match request.step {
        1 => ScriptedReply::call("test/quick", json!({})),
        _ => ScriptedReply::text("a few words that are shown piece by piece"),
    });
    let quick = tool("test/quick", "Returns.", |_: Nothing, _| async move { Ok(ToolOutput::text("ok")) });
    let cancels = Arc::new(CancelsAt { runtime: OnceLock::new(), left: 0.into(), events: 0.into() });
    let builder = over(model).tools(Arc::new(quick)).sink(recorder.clone()).sink(cancels.clone());
    let runtime = build(builder).await;

    turn(&runtime, say("how many events has a turn?")).await;
    let usual = cancels.events.load(Ordering::SeqCst);
    assert!(cancels.runtime.set(runtime.clone()).is_ok());
    let (mut natural, mut cancelled) = (0, 0);
    let mut told = Vec::new();
    for round in 0..ROUNDS {
        cancels.left.store(1 + round % (usual + 1), Ordering::SeqCst);
        let outcome = turn(&runtime, say("go")).await;
        match outcome.finish_reason {
            FinishReason::Final => natural += 1,
            FinishReason::Cancelled => cancelled += 1,
            other => panic!("neither of the two: {other:?}"),
        }
        told.push(outcome);
    }
    assert!(natural > 0 && cancelled > 0, "both ends were seen: {natural} and {cancelled}");
    let journal = outcomes(&within(runtime.records(session("s"))).await.expect("the journal is read"));
    runtime.shutdown().await;
    recorder.assert_in_order();
    for outcome in &told {
        assert_eq!(recorder.ends(&outcome.turn_id), 1);
        match journal.get(&outcome.turn_id) {
            Some(ends) => assert_eq!(ends, &[outcome.finish_reason], "what was told is what is kept"),
            None => assert!(!outcome.saved, "an outcome that is not in the journal is not called saved: {outcome:?}"),
        }
    }
}

/// The outcome reports whether its save was confirmed in time; it is saved in either case.
#[tokio::test(flavor = "multi_thread")]
async fn c6_cancelling_many_sessions_at_once_answers_each_once_and_keeps_all_of_them() {
    const SESSIONS: usize = 200;
    let (folder, recorder) = (Scratch::new(), Recorder::new());
    let model = || ScriptedLlm::replies(vec![ScriptedReply::Stall]);
    let runtime = build(over(model()).sink(recorder.clone()).store(file_store(folder.path()))).await;
    let callers: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let runtime = runtime.clone();
            let request = AgentRequest::text(session(&format!("s{number}")), "go");
            tokio::spawn(async move { turn(&runtime, request).await })
        })
        .collect();
    recorder.seen_times(SESSIONS, |event| matches!(event, AgentEvent::LlmRequested { .. })).await;
    let stopped = within(join_all((0..SESSIONS).map(|number| runtime.cancel(session(&format!("s{number}")))))).await;
    assert!(stopped.into_iter().all(|stopped| stopped));
    let mut told = Vec::new();
    for outcome in within(join_all(callers)).await {
        let outcome = outcome.expect("each caller is answered");
        assert_eq!(outcome.finish_reason, FinishReason::Cancelled);
        assert_eq!(recorder.ends(&outcome.turn_id), 1);
        told.push(outcome);
    }
    ended(runtime).await;

    let again = build(over(model()).store(file_store(folder.path()))).await;
    for (number, outcome) in told.iter().enumerate() {
        let records = within(again.records(session(&format!("s{number}")))).await.expect("the journal is read");
        let is_input = |record: &&Arc<Record>| matches!(record.fact, Fact::Input(_));
        assert_eq!(records.iter().filter(is_input).count(), 1, "the prefix is there");
        let kept = outcomes(&records);
        assert_eq!(kept.get(&outcome.turn_id), Some(&vec![FinishReason::Cancelled]), "saved: {}", outcome.saved);
    }
    within(again.shutdown()).await;
}

/// The text that readers have seen of each turn's answer.
#[derive(Default)]
struct Seen(Mutex<HashMap<TurnId, String>>);

impl EventSink for Seen {
    fn emit(&self, event: &Envelope) {
        let Some(turn) = event.turn_id.clone() else { return };
        let mut seen = self.0.lock().expect("no reader panics");
        match &event.event {
            AgentEvent::LlmStreamChunk { delta: Delta::Text(text), .. } => seen.entry(turn).or_default().push_str(text),
            AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. } => seen.entry(turn).or_default().clear(),
            _ => {}
        }
    }

    fn is_called_in_place(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_of_an_answer_is_in_the_journal_whenever_it_is_cancelled() {
    const ANSWER: &str = "one two three four five six seven eight nine ten eleven twelve";
    let model = ScriptedLlm::from_fn(|_| ScriptedReply::text(ANSWER));
    let seen = Arc::new(Seen::default());
    let cancels = Arc::new(CancelsAt { runtime: OnceLock::new(), left: 0.into(), events: 0.into() });
    let runtime = build(over(model).sink(seen.clone()).sink(cancels.clone())).await;
    turn(&runtime, say("how many events has a turn?")).await;
    let usual = cancels.events.load(Ordering::SeqCst);
    assert!(cancels.runtime.set(runtime.clone()).is_ok());
    let mut partial = 0;
    for round in 0..ROUNDS {
        cancels.left.store(1 + round % usual, Ordering::SeqCst);
        let outcome = turn(&runtime, say("go")).await;
        let shown = seen.0.lock().expect("no reader panics").remove(&outcome.turn_id).unwrap_or_default();
        if outcome.finish_reason == FinishReason::Cancelled && !shown.is_empty() {
            partial += 1;
            assert!(outcome.content.starts_with(&shown), "seen {shown:?}, kept {:?}", outcome.content);
        }
    }
    assert!(partial > 0, "no answer was cancelled while it was shown");
    let kept = within(runtime.records(session("s"))).await.expect("the journal is read");
    let ends = kept.iter().filter(|record| matches!(&record.fact, Fact::Outcome(ended) if ended.partial)).count();
    assert!(ends > 0 && ends <= partial, "{ends} of {partial} are kept as interrupted");
    runtime.shutdown().await;
}
