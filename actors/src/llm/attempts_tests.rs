//! One call against fake ports, in paused time: what is tried again, what is shown
//! meanwhile, and who is asked instead.

use super::*;
use crate::feed::{Feed, Subscription};
use crate::llm::port::{LlmPort, ProviderLimits};
use crate::llm::retry::RetryPolicy;
use crate::llm::scripted::{ScriptedLlm, ScriptedReply};
use crate::llm::testing::{model, plain_request, request};
use bob_messages::event::Delta;
use bob_messages::llm::{LlmErrorKind, RawCall};
use bob_messages::models::{ModelPrice, Rate};
use futures_util::future::BoxFuture;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As the actor asks, for a turn that keeps nothing of the answer.
async fn answer(
    shared: &LlmArguments,
    request: &Arc<LlmRequest>,
    remaining_ms: u64,
) -> Result<Arc<LlmAnswer>, LlmError> {
    super::answer(shared, request, remaining_ms, SoFar::default()).await
}

type Outcome = Result<&'static str, LlmError>;

/// Answers from a list, shows its text before it fails, and remembers who was asked.
struct Listed {
    outcomes: Mutex<Vec<Outcome>>,
    asked: Mutex<Vec<String>>,
    capabilities: Capabilities,
    places: usize,
}

impl Listed {
    fn new(outcomes: impl IntoIterator<Item = Outcome>) -> Arc<Self> {
        let mut outcomes: Vec<_> = outcomes.into_iter().collect();
        outcomes.reverse();
        let capabilities = Capabilities { native_tools: true, ..Capabilities::default() };
        let places = usize::MAX;
        Arc::new(Self { outcomes: Mutex::new(outcomes), asked: Mutex::default(), capabilities, places })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl LlmPort for Listed {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        match model.provider() {
            "keyless" => Err(LlmError::new(LlmErrorKind::MissingKey, "no key")),
            "small" => Ok(Capabilities { context_tokens: 1, ..self.capabilities.clone() }),
            _any_other => Ok(self.capabilities.clone()),
        }
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.asked.lock().unwrap().push(model.to_string());
        let outcome = self.outcomes.lock().unwrap().pop().expect("an outcome for every attempt");
        let model = model.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            deltas.text("half");
            let answer = ScriptedLlm::replies(vec![ScriptedReply::text(outcome?)]);
            answer.complete(request, &model).await
        })
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        (model.provider() != "unpriced").then(|| ModelPrice::usd(Rate::default(), Rate::default()))
    }

    fn limits(&self, _provider: &str) -> ProviderLimits {
        ProviderLimits { max_concurrent: self.places, ..ProviderLimits::default() }
    }
}

fn error(kind: LlmErrorKind) -> LlmError {
    LlmError::new(kind, format!("{kind:?}"))
}

fn fails(kind: LlmErrorKind) -> Outcome {
    Err(error(kind))
}

fn desk(port: Arc<Listed>) -> LlmArguments {
    LlmArguments::new(port, Feed::new(Vec::new()), RetryPolicy::default())
}

fn with_fallback(names: &[&str]) -> Arc<LlmRequest> {
    let fallback = names.iter().map(|name| model(name)).collect();
    Arc::new(LlmRequest { fallback, ..plain_request(vec![Message::user("a question of some length")]) })
}

async fn events(reader: &mut Subscription) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(Ok(envelope)) = tokio::time::timeout(Duration::from_millis(1), reader.next()).await {
        told.push(match &envelope.event {
            AgentEvent::LlmStreamChunk { message_id, delta: Delta::Text(text), .. } => format!("{message_id}: {text}"),
            AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. } => "reset".to_owned(),
            AgentEvent::LlmRetried { attempt, of, model, reason, .. } => {
                format!("retry {attempt} of {of} with {model}: {reason}")
            }
            other => format!("{other:?}"),
        });
    }
    told
}

#[tokio::test(start_paused = true)]
async fn l5_a_failed_attempt_is_made_again_and_its_text_is_taken_back() {
    let port = Listed::new([fails(LlmErrorKind::Unavailable), fails(LlmErrorKind::Timeout), Ok("whole")]);
    let desk = desk(Arc::clone(&port));
    let request = request("x");
    let mut reader = desk.feed.subscribe(&request.session);
    let started = Instant::now();
    let answer = answer(&desk, &request, 90_000).await.unwrap();
    assert_eq!(answer.text, "whole");
    assert_eq!(u128::from(answer.latency_ms), started.elapsed().as_millis());
    assert!(answer.latency_ms <= 30 + 1_000 + 2_000);
    assert_eq!(
        events(&mut reader).await,
        [
            "t-1: half",
            "reset",
            "retry 1 of 2 with scripted:m: Unavailable",
            "t-1: half",
            "reset",
            "retry 2 of 2 with scripted:m: Timeout",
            "t-1: half",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn l1_the_third_failure_is_the_last() {
    let port = Listed::new((0..3).map(|_| fails(LlmErrorKind::RateLimited)));
    let failure = answer(&desk(Arc::clone(&port)), &request("x"), 90_000).await.unwrap_err();
    assert_eq!((failure.kind, port.asked().len()), (LlmErrorKind::RateLimited, 3));
}

#[tokio::test(start_paused = true)]
async fn l10_a_failure_of_the_request_is_final_at_once() {
    for kind in [LlmErrorKind::Unauthorized, LlmErrorKind::QuotaExhausted, LlmErrorKind::Rejected] {
        let port = Listed::new([fails(kind)]);
        let asked = with_fallback(&["b:m"]);
        let started = Instant::now();
        assert_eq!(answer(&desk(Arc::clone(&port)), &asked, 90_000).await.unwrap_err().kind, kind);
        assert_eq!((port.asked().len(), started.elapsed()), (1, Duration::from_millis(10)));
    }
}

/// The port of real providers is bounded by itself; the others are bounded here.
#[tokio::test(start_paused = true)]
async fn l8_an_answer_of_any_port_is_bounded_and_what_is_too_large_is_not_asked_for_again() {
    let call = |arguments: String| RawCall::new("f", arguments);
    let most = bounds::MOST_ANSWER_BYTES;
    let answer = |text: usize| LlmAnswer::text(model("a:b"), "x".repeat(text));
    let third = || "x".repeat(most / 3);
    let together = |more: usize| {
        answer(most / 3).with_reasoning(Some(third())).with_calls(vec![call(third()), call("x".repeat(more))])
    };
    let calls = |count: usize| answer(0).with_calls(vec![call(String::new()); count]);
    for (answer, refusal) in [
        (answer(most), None),
        (answer(most + 1), Some("8388608 bytes")),
        (together(0), None),
        (together(8), Some("8388608 bytes")),
        (calls(bounds::MOST_CALLS), None),
        (calls(bounds::MOST_CALLS + 1), Some("256 calls")),
    ] {
        let port = Arc::new(Whole { answer, asked: AtomicUsize::new(0) });
        let shared =
            LlmArguments::new(Arc::clone(&port) as Arc<dyn LlmPort>, Feed::new(Vec::new()), RetryPolicy::default());
        let answered = self::answer(&shared, &request("x"), 60_000).await;
        assert_eq!(port.asked.load(Ordering::SeqCst), 1);
        match (answered, refusal) {
            (Ok(_), None) => {}
            (Err(error), Some(part)) => {
                assert!(error.kind == LlmErrorKind::TooLarge && error.message.contains(part), "{error}");
            }
            (other, _) => panic!("wanted {refusal:?}: {:?}", other.map(|answer| answer.text.len())),
        }
    }
}

/// Always this answer.
struct Whole {
    answer: LlmAnswer,
    asked: AtomicUsize,
}

impl LlmPort for Whole {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities { native_tools: true, ..Capabilities::default() })
    }

    fn complete_stream(
        &self,
        _request: Arc<LlmRequest>,
        _model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(self.answer.clone())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_takes_over_when_the_attempts_are_used_up() {
    let mut outcomes: Vec<Outcome> = (0..3).map(|_| fails(LlmErrorKind::Unavailable)).collect();
    outcomes.push(Ok("from the other"));
    let port = Listed::new(outcomes);
    let answer = answer(&desk(Arc::clone(&port)), &with_fallback(&["b:m"]), 90_000).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.model.as_str()), ("from the other", "b:m"));
    assert_eq!(port.asked(), ["scripted:m", "scripted:m", "scripted:m", "b:m"]);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_cannot_be_asked_is_passed_over() {
    let asked_to_wait = error(LlmErrorKind::RateLimited).with_retry_after_ms(40_000);
    let port = Listed::new([Err(asked_to_wait), Ok("fits")]);
    let asked = with_fallback(&["keyless:m", "small:m", "c:m"]);
    let started = Instant::now();
    let answer = answer(&desk(Arc::clone(&port)), &asked, 30_000).await.unwrap();
    assert_eq!(answer.model.as_str(), "c:m");
    assert_eq!(port.asked(), ["scripted:m", "c:m"]);
    assert_eq!(started.elapsed(), Duration::from_millis(20), "nobody waits longer than the turn has left");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_without_a_price_is_passed_over_where_the_cost_is_bounded() {
    for (priced, answers) in [(true, "c:m"), (false, "unpriced:m")] {
        let outcomes = (0..3).map(|_| fails(LlmErrorKind::Unavailable)).chain([Ok("from another")]);
        let asked = LlmRequest { priced, ..(*with_fallback(&["unpriced:m", "c:m"])).clone() };
        let answer = answer(&desk(Listed::new(outcomes)), &Arc::new(asked), 90_000).await.unwrap();
        assert_eq!(answer.model.as_str(), answers);
    }
}

#[tokio::test(start_paused = true)]
async fn l2_what_the_provider_asks_is_waited_for_and_no_longer_than_a_minute() {
    let asked_to_wait = error(LlmErrorKind::RateLimited).with_retry_after_ms(1_400_000_000);
    let port = Listed::new([Err(asked_to_wait), Ok("later")]);
    let started = Instant::now();
    answer(&desk(port), &request("x"), 90_000).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(60_020));
}

/// One place, and one session that was told to wait: the others go on meanwhile, and it queues again behind them.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_to_try_again_holds_no_place() {
    let asked_to_wait = error(LlmErrorKind::RateLimited).with_retry_after_ms(40_000);
    let mut listed = Listed::new([Err(asked_to_wait), Ok("b"), Ok("c"), Ok("a")]);
    Arc::get_mut(&mut listed).unwrap().places = 1;
    let desk = desk(Arc::clone(&listed));
    let started = Instant::now();
    let ask = |session| {
        let desk = &desk;
        async move {
            let answered = answer(desk, &request(session), 90_000).await.unwrap();
            (answered.text.clone(), started.elapsed().as_millis())
        }
    };
    let (first, second, third) = tokio::join!(ask("a"), ask("b"), ask("c"));
    assert_eq!((second, third), (("b".to_owned(), 20), ("c".to_owned(), 30)));
    assert_eq!(first, ("a".to_owned(), 40_020));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_a_provider_without_a_key() {
    let port = Listed::new([]);
    let asked = LlmRequest { model: model("keyless:m"), ..plain_request(vec![]) };
    let failure = answer(&desk(Arc::clone(&port)), &Arc::new(asked), 90_000).await.unwrap_err();
    assert_eq!((failure.kind, port.asked().len()), (LlmErrorKind::MissingKey, 0));
}

#[tokio::test(start_paused = true)]
async fn l1_all_sessions_of_a_provider_share_one_retry_budget() {
    let port = Listed::new((0..400).map(|_| fails(LlmErrorKind::Unavailable)));
    let desk = desk(Arc::clone(&port));
    let calls = (0..200).map(|_| async { answer(&desk, &request("x"), 90_000).await });
    let failed = futures_util::future::join_all(calls).await;
    assert!(failed.iter().all(Result::is_err));
    let repeated = port.asked().len() - 200;
    assert!((100..=150).contains(&repeated), "{repeated} repetitions of 200 calls");
}

#[tokio::test]
async fn in_json_mode_only_the_content_of_a_final_is_shown() {
    let port: Arc<dyn LlmPort> = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("one two")]));
    let desk = LlmArguments::new(port, Feed::new(Vec::new()), RetryPolicy::default());
    let asked = Arc::new(LlmRequest { mode: ToolMode::Json, ..plain_request(vec![Message::user("x")]) });
    let mut reader = desk.feed.subscribe(&asked.session);
    let answer = answer(&desk, &asked, 1_000).await.unwrap();
    assert_eq!(answer.text, r#"{"type":"final","content":"one two"}"#);
    assert_eq!(events(&mut reader).await, ["t-1: one two"]);
}

#[test]
fn limits_default_to_half_a_minute_and_any_number() {
    assert_eq!(ProviderLimits::default(), ProviderLimits { timeout_ms: 30_000, max_concurrent: usize::MAX });
}

/// A provider that takes a while to start.
struct Starting(Duration);

impl crate::llm::port::Readiness for Starting {
    fn ready<'a>(&'a self, _provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Ok(())
        })
    }

    fn starts(&self, provider: &str) -> bool {
        provider != "remote"
    }
}

#[tokio::test(start_paused = true)]
async fn the_start_of_a_model_counts_for_no_limit_and_takes_no_place_at_its_provider() {
    let port = Listed::new([Ok("one"), Ok("two")]);
    let places = Arc::new(Listed { places: 1, ..Arc::into_inner(port).unwrap() });
    let desk = desk(Arc::clone(&places)).with_readiness(Arc::new(Starting(Duration::from_secs(110))));
    let pulses = [Pulse::counting(), Pulse::counting()];
    let request = with_fallback(&[]);
    let call = |pulse: &Pulse| super::answer(&desk, &request, 90_000, SoFar::default().beating(pulse));
    let both = async { tokio::join!(call(&pulses[0]), call(&pulses[1])) };
    let during = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        for pulse in &pulses {
            assert!(pulse.signs().waits, "both wait for the start, and none for the other");
        }
    };
    let ((one, two), ()) = tokio::join!(both, during);
    for (answer, pulse) in [one, two].into_iter().zip(&pulses) {
        assert!(answer.unwrap().latency_ms < 1_000, "the start is no time of the model");
        let signs = pulse.signs();
        assert!(!signs.waits && (110_000..111_000).contains(&signs.waited_ms), "{signs:?}");
    }
}
