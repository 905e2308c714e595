//! A thousand sessions at one provider that is busy, or down: how much it is asked,
//! and how soon everybody is told. In paused time, over the room's own mailbox.

use super::*;
use crate::feed::Feed;
use crate::llm::breakers::DEFAULT_BREAKER;
use crate::llm::deltas::DeltaSink;
use crate::llm::port::LlmPort;
use crate::llm::retry::RetryPolicy;
use crate::llm::scripted::{ScriptedLlm, ScriptedReply};
use crate::llm::testing::plain_request;
use bob_messages::chat::Message;
use bob_messages::ids::{ModelName, SessionId, TurnId};
use bob_messages::llm::{Capabilities, LlmErrorKind};
use futures_util::future::{BoxFuture, join_all};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

const SESSIONS: usize = 1_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// A provider with opening hours: before `back` it fails like this, then it answers.
struct Outage {
    kind: LlmErrorKind,
    began: Instant,
    back: Duration,
    /// When each turn's attempts were made.
    asked: Mutex<BTreeMap<String, Vec<Duration>>>,
}

impl Outage {
    fn new(kind: LlmErrorKind, back: Duration) -> Arc<Self> {
        Arc::new(Self { kind, began: Instant::now(), back, asked: Mutex::default() })
    }

    /// How many attempts were made from then on.
    fn asked_since(&self, then: Duration) -> usize {
        self.asked.lock().unwrap().values().flatten().filter(|at| **at >= then).count()
    }
}

impl LlmPort for Outage {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities { native_tools: true, ..Capabilities::default() })
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let model = model.clone();
        Box::pin(async move {
            let now = self.began.elapsed();
            if model.provider() == "other" {
                return ScriptedLlm::replies(vec![ScriptedReply::text("from the other")])
                    .complete(request, &model)
                    .await;
            }
            self.asked.lock().unwrap().entry(request.turn.to_string()).or_default().push(now);
            let down = ScriptedReply::Error(self.kind);
            let reply = if now < self.back { down } else { ScriptedReply::text("back again") };
            ScriptedLlm::replies(vec![reply]).complete(request, &model).await
        })
    }
}

async fn room(port: &Arc<Outage>) -> ActorRef<LlmMessage> {
    let port: Arc<dyn LlmPort> = Arc::clone(port) as _;
    let arguments = LlmArguments::new(port, Feed::new(Vec::new()), RetryPolicy::default());
    Actor::spawn(None, LlmActor, arguments).await.unwrap().0
}

/// One turn's only call.
async fn ask(room: &ActorRef<LlmMessage>, turn: usize, fallback: &[&str]) -> Result<Arc<LlmAnswer>, LlmError> {
    let session = SessionId::parse(&format!("s{}", turn % SESSIONS)).unwrap();
    let turn = TurnId::new(format!("t{turn}"));
    let fallback = fallback.iter().map(|name| ModelName::parse(name).unwrap()).collect();
    let request = LlmRequest { session, turn, fallback, ..plain_request(vec![Message::user("x")]) };
    let (reply, answer) = Reply::channel();
    room.send_message(LlmMessage::Infer { request: Arc::new(request), remaining_ms: 90_000, reply }).unwrap();
    answer.await.expect("whoever asks is answered")
}

/// Every session begins a turn each second, each at its own moment of the second.
async fn steadily(room: &ActorRef<LlmMessage>, seconds: usize) -> Vec<Result<Arc<LlmAnswer>, LlmError>> {
    let turn = |turn: usize| async move {
        tokio::time::sleep(Duration::from_millis(turn as u64 * 1_000 / SESSIONS as u64)).await;
        ask(room, turn, &[]).await
    };
    join_all((0..SESSIONS * seconds).map(turn)).await
}

#[tokio::test(start_paused = true)]
async fn l1_a_busy_provider_is_not_asked_much_more_than_a_quiet_one() {
    let port = Outage::new(LlmErrorKind::RateLimited, HOUR);
    let room = room(&port).await;
    let ended = steadily(&room, 20).await;
    assert!(ended.iter().all(|end| matches!(end, Err(error) if error.kind == LlmErrorKind::RateLimited)));

    let after_ten = port.asked_since(Duration::from_secs(10));
    let steady = SESSIONS * 10;
    println!("L1: {after_ten} attempts for {steady} turns after the first 10 s");
    assert!(after_ten * 10 <= steady * 11, "{after_ten} attempts for {steady} turns");
    let turns = port.asked.lock().unwrap();
    assert!(turns.values().all(|attempts| attempts.len() <= 3));
    let mut gaps: Vec<Duration> =
        turns.values().flat_map(|attempts| attempts.windows(2).map(|pair| pair[1] - pair[0])).collect();
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    assert!(gaps.len() > 500 && median >= Duration::from_millis(250), "{} gaps, median {median:?}", gaps.len());
}

#[tokio::test(start_paused = true)]
async fn l1_a_minute_of_503_is_met_by_a_breaker_and_everybody_is_answered() {
    let minute = Duration::from_secs(60);
    let port = Outage::new(LlmErrorKind::Unavailable, minute);
    let room = room(&port).await;
    let ended = steadily(&room, 66).await;
    assert!(port.asked.lock().unwrap().values().all(|attempts| attempts.len() <= 3));
    let while_open = port.asked_since(Duration::from_secs(10)) - port.asked_since(minute);
    assert!((5..=15).contains(&while_open), "{while_open} probes in 50 s");
    let well = ended.iter().filter(|end| end.is_ok()).count();
    println!("L1: {while_open} attempts while it was down, {well} turns went well within 6 s of its return");
    assert!(well >= SESSIONS / 2, "{well} turns went well in the 6 s after the outage");
}

#[tokio::test(start_paused = true)]
async fn l13_an_hour_of_outage_fails_fast_and_ends_with_the_first_probe() {
    let port = Outage::new(LlmErrorKind::Unavailable, HOUR);
    let room = room(&port).await;
    let mut slowest = Duration::ZERO;
    let mut turn = 0;
    let mut probes_at = Vec::new();
    let back = loop {
        let began = Instant::now();
        let ended = ask(&room, turn, &[]).await;
        let at = began - port.began;
        if ended.is_ok() {
            break at;
        }
        if at > Duration::from_secs(30) {
            slowest = slowest.max(began.elapsed());
            probes_at.extend(port.asked.lock().unwrap().remove(&format!("t{turn}")).unwrap_or_default());
        }
        turn += 1;
        tokio::time::sleep(Duration::from_millis(250)).await;
    };
    assert!(slowest <= Duration::from_millis(50), "the slowest refusal took {slowest:?}");
    assert!(back - HOUR <= Duration::from_millis(DEFAULT_BREAKER.probe_every_ms + 250), "well again after {back:?}");
    assert!(probes_at.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(5)), "{} probes", probes_at.len());
    assert!((600..=720).contains(&probes_at.len()), "{} probes in an hour", probes_at.len());
}

#[tokio::test(start_paused = true)]
async fn l13_while_one_is_down_its_fallback_answers_at_once() {
    let port = Outage::new(LlmErrorKind::Timeout, HOUR);
    let room = room(&port).await;
    while !is_down(&room).await {
        ask(&room, 0, &[]).await.unwrap_err();
    }
    let (began, asked) = (Instant::now(), port.asked_since(Duration::ZERO));
    for turn in 1..1_000 {
        let answer = ask(&room, turn, &["other:m"]).await.unwrap();
        assert_eq!(answer.model.as_str(), "other:m");
        let error = ask(&room, turn, &["scripted:another"]).await.unwrap_err();
        assert!(error.message.starts_with("provider scripted has been down for "), "{error}");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(port.asked_since(Duration::ZERO), asked, "and the one that is down is left alone");
}

#[tokio::test(start_paused = true)]
async fn l13_a_call_that_waits_to_try_again_does_not_ask_one_that_went_down() {
    let port = Outage::new(LlmErrorKind::Unavailable, HOUR);
    let room = room(&port).await;
    let ended = join_all((0..40).map(|turn| ask(&room, turn, &[]))).await;
    assert!(ended.iter().all(Result::is_err) && is_down(&room).await);
    assert!(port.began.elapsed() < Duration::from_secs(4));
    assert!(port.asked_since(Duration::ZERO) < 120, "some repetitions were left out");
}

async fn is_down(room: &ActorRef<LlmMessage>) -> bool {
    let (reply, states) = Reply::channel();
    room.send_message(LlmMessage::Providers { reply }).unwrap();
    states.await.unwrap().iter().any(|state| state.provider == "scripted" && state.down.is_some())
}
