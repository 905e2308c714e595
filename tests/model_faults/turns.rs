//! Whole turns with a failing provider.

use bob::config::Limits;
use bob::events::AgentEvent;
use bob::model::{LlmErrorKind, ScriptedReply};
use bob::sessions::{FinishReason, GuardReason};
use bob::tools::{ToolOutput, tool};
use bob::{AgentError, AgentRequest, AgentRuntime};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::model_faults::client::{ALL, port};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{Nothing, Recorder, build, over, provided, provided_in_json, say, session, turn, within};
use crate::support::stopwatch::Stopwatch;
use bob_actors::llm::providers::ProviderKind;
use bob_actors::llm::{DeltaSink, LlmPort, ScriptedLlm};
use bob_messages::ids::ModelName;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest};
use futures_util::future::{BoxFuture, join_all};

/// Calls a tool, and answers every second step with a failure first.
struct FailsAfterTheTool {
    script: ScriptedLlm,
    failed: AtomicUsize,
}

impl LlmPort for FailsAfterTheTool {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        self.script.capabilities(model)
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        if request.step == 2 && self.failed.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let error = LlmError::new(LlmErrorKind::Unavailable, "HTTP 500").with_status(500);
            return Box::pin(std::future::ready(Err(error)));
        }
        self.script.complete_stream(request, model, deltas)
    }
}

/// A tool that counts how often it ran.
fn counting() -> (bob::tools::FnTool, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ran);
    let count = tool("test/count", "Counts.", move |_: Nothing, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok(ToolOutput::text("counted")) }
    });
    (count, ran)
}

#[tokio::test]
async fn l6_a_failure_after_a_tool_repeats_the_request_and_never_the_tool() {
    const TURNS: usize = 1_000;
    let (count, ran) = counting();
    let script = ScriptedLlm::replies(vec![ScriptedReply::call("test/count", json!({})), ScriptedReply::text("Done.")]);
    let model = FailsAfterTheTool { script, failed: AtomicUsize::new(0) };
    let runtime = build(over(model).tools(Arc::new(count))).await;
    let mut repeated = 0;
    for number in 0..TURNS {
        let answer = turn(&runtime, bob::AgentRequest::text(session(&format!("s{}", number % 50)), "count")).await;
        assert_eq!(ran.load(Ordering::Relaxed), number + 1, "turn {number}");
        assert_eq!(answer.tool_transcript.len(), 1, "turn {number}");
        repeated += usize::from(answer.finish_reason == FinishReason::Final);
    }
    // This many concurrent failures exhaust the provider's retry budget; later turns end with its error.
    println!("L6: {repeated} of {TURNS} turns had their request repeated, each tool ran once");
    assert!(repeated >= 100, "{repeated}");
    runtime.shutdown().await;
}

/// The turns wait beside each other, so that the silence can be longer than a busy machine needs for an answer.
#[tokio::test]
async fn l4_what_was_said_before_a_silence_is_void_and_never_an_action() {
    join_all(ALL.into_iter().flat_map(|kind| {
        // The fifth piece of Gemini's is the whole call and the end.
        let most = if kind == ProviderKind::Gemini { 4 } else { 9 };
        (1..=most).map(move |chunks| after_a_silence(kind, chunks))
    }))
    .await;
}

async fn after_a_silence(kind: ProviderKind, chunks: usize) {
    let (count, ran) = counting();
    let call = ("c1".to_owned(), "test__count".to_owned(), "{}".to_owned());
    let stalled = Reply::TextAndCalls("I shall count.".into(), vec![call]).stall_after(chunks);
    let provider = FakeProvider::start([stalled, Reply::text("Never mind.")]);
    let sink = Recorder::new();
    let model = over(port(&provider, kind, 5_000));
    let runtime = build(model.tools(Arc::new(count)).sink(sink.clone())).await;
    let answer = turn(&runtime, say("count")).await;
    assert_eq!((answer.finish_reason, answer.content.as_str()), (FinishReason::Final, "Never mind."), "{kind:?}");
    assert_eq!((ran.load(Ordering::Relaxed), answer.tool_transcript.len()), (0, 0), "{kind:?} {chunks}");
    sink.seen(|event: &AgentEvent| matches!(event, AgentEvent::LlmRetried { attempt: 1, .. })).await;
    runtime.shutdown().await;
}

#[tokio::test]
async fn l11_two_malformed_or_double_actions_are_a_model_failure_after_two_steps() {
    let double = r#"{"type":"final","content":"a"}{"type":"final","content":"b"}"#;
    for kind in ALL {
        for text in ["{\"type\":", double, "not an action", r#"{"type":"dance"}"#] {
            let provider = FakeProvider::repeating([Reply::text(text)]);
            let runtime = build(provided_in_json(&provider, kind)).await;
            let answer = turn(&runtime, say("well?")).await;
            assert_eq!((answer.finish_reason, answer.guard_reason), (FinishReason::Error, None), "{kind:?} {text}");
            let Some(AgentError::Llm(error)) = &answer.error else { panic!("a model failure: {answer:?}") };
            assert_eq!((error.kind, answer.steps), (LlmErrorKind::Malformed, 2), "{kind:?} {text}");
            assert_eq!(provider.requests().len(), 2, "asked again once");
            runtime.shutdown().await;
        }
    }
}

/// A stream that is cut on its way through a call is a failed attempt: the call is not made.
#[tokio::test]
async fn l5_a_call_from_a_cut_stream_is_not_made() {
    for kind in ALL {
        let (count, ran) = counting();
        let cut = || Reply::call("c1", "test__count", "{}").end_without_done();
        let provider = FakeProvider::repeating([cut(), cut(), cut()]);
        let runtime = build(provided(&provider, kind).tools(Arc::new(count))).await;
        let answer = turn(&runtime, say("count")).await;
        assert_eq!((answer.finish_reason, answer.tool_transcript.len()), (FinishReason::Error, 0), "{kind:?}");
        assert_eq!((ran.load(Ordering::Relaxed), provider.requests().len()), (0, 3), "{kind:?}");
        runtime.shutdown().await;
    }
}

/// Frames that say nothing, as fast as they are read: some minutes of work for a parser without optimisation.
fn endless_frames(kind: ProviderKind) -> Reply {
    let frame = match kind {
        ProviderKind::Anthropic => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
        ProviderKind::Gemini => "data: {\"candidates\":[{\"index\":0}]}\n\n",
        _of_openai => "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n",
    };
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    Reply::Flood { code: 200, headers, pieces: vec![frame.repeat(1_000).into_bytes()], repeat: 100_000 }
}

/// The deadline of a turn interrupts an endless stream: the turn ends, the connection is closed early, and another
/// session gets its answer meanwhile, all on one thread.
#[tokio::test]
async fn l15_the_limit_of_a_turn_interrupts_a_parser() {
    for kind in ALL {
        let flood = endless_frames(kind);
        let provider = FakeProvider::answering(move |body| match body.to_string().contains("flood") {
            true => flood.clone(),
            false => Reply::text("Hello."),
        });
        // A fast machine reads to the bound of an answer in half a second. On a slow one the time may be over before the request
        // was sent: then there is more of it.
        let mut limits = Limits { turn_timeout_ms: 100, ..Limits::default() };
        let (runtime, flooded) = loop {
            let runtime = build(provided(&provider, kind).limits(limits)).await;
            let mut flooded = tokio::spawn({
                let runtime = runtime.clone();
                async move { turn(&runtime, say("flood")).await }
            });
            tokio::select! {
                () = within(provider.wait_requests(1)) => break (runtime, flooded),
                _too_early = &mut flooded => limits.turn_timeout_ms *= 2,
            }
            runtime.shutdown().await;
        };
        let patient = Limits { turn_timeout_ms: 60_000, ..limits };
        let other = AgentRequest { limits: Some(patient), ..AgentRequest::text(session("other"), "hello") };
        let other = turn(&runtime, other).await;
        assert_eq!(
            (other.finish_reason, other.content.as_str()),
            (FinishReason::Final, "Hello."),
            "{kind:?} {other:?}"
        );
        let answer = flooded.await.unwrap();
        let end = (answer.finish_reason, answer.guard_reason);
        assert_eq!(end, (FinishReason::GuardExceeded, Some(GuardReason::TurnTimeout)), "{kind:?} {answer:?}");
        // Read to the bound of an answer, it would go on for much longer.
        let ended = Stopwatch::start();
        within(provider.wait_closed_early(1)).await;
        ended.assert_within(Duration::from_secs(5), format!("{kind:?}: closed"));
        runtime.shutdown().await;
    }
}
